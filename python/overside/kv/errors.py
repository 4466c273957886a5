"""What can go wrong with a cluster of key-value servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ClusterError(Exception):
    """Something was not done; the message says what and why."""


class DirectoryError(ClusterError):
    """The directory cannot be read, or has something else than a cluster."""


class UnsupportedError(ClusterError):
    """It cannot be done in a cluster of whatever is registered."""


class RefusedError(ClusterError):
    """A server says no. What belongs to other servers was done, as far as they did not refuse."""

    def __init__(self, server: str, message: str) -> None:
        super().__init__(f"{server} refuses: {message}")
        self.server = server
        self.message = message


@dataclass(frozen=True)
class ServerFailure:
    """A server that failed."""

    server: str
    reason: str
    #: Requests for it that have no answer.
    requests: int
    #: Whether some of these may have been executed, although there is no answer.
    may_be_executed: bool

    def __str__(self) -> str:
        end = " (what was sent may have been executed)" if self.may_be_executed else ""
        return f"{self.server} cannot be reached: {self.reason}{end}"


class UnreachableError(ClusterError):
    """Servers that could not be reached, or were lost. What belongs to others was done."""

    def __init__(self, servers: Sequence[ServerFailure]) -> None:
        super().__init__("; ".join(map(str, servers)))
        self.servers = tuple(servers)
