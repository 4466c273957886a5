"""Clients of key-value servers: `Cluster` divides keys among those of a directory.

docs/core/python.md has more.
"""

from overside._core import KvRing as Ring
from overside.kv.cluster import Cluster
from overside.kv.errors import (
    ClusterError,
    DirectoryError,
    ErrorReply,
    RefusedError,
    ServerFailure,
    UnreachableError,
    UnsupportedError,
)

__all__ = [
    "Cluster",
    "ClusterError",
    "DirectoryError",
    "ErrorReply",
    "RefusedError",
    "Ring",
    "ServerFailure",
    "UnreachableError",
    "UnsupportedError",
]
