"""Clients of key-value servers: `Cluster` divides keys among those of a directory.

docs/core/python.md has more.
"""

from overside.kv.cluster import Cluster
from overside.kv.errors import (
    ClusterError,
    DirectoryError,
    RefusedError,
    ServerFailure,
    UnreachableError,
    UnsupportedError,
)
from overside.kv.resp import ErrorReply
from overside.kv.ring import Ring

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
