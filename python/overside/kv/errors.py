"""Errors of a cluster of key-value servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ClusterError(Exception):
    """A request was not executed; the message has the reason."""


class DirectoryError(ClusterError):
    """The directory cannot be read, or has something else than a cluster."""


class UnsupportedError(ClusterError):
    """The request is not possible in a cluster of registered caches."""


class RefusedError(ClusterError):
    """A server refuses. Requests to others were done, as far as they did not refuse."""

    def __init__(self, server: str, message: str) -> None:
        super().__init__(f"{server} refuses: {message}")
        self.server = server
        self.message = message


@dataclass(frozen=True)
class ErrorReply:
    """Error message of a server that did not execute a command."""

    message: str


@dataclass(frozen=True)
class ServerFailure:
    """A server that failed."""

    server: str
    reason: str
    #: Requests for it that have no answer.
    requests: int
    #: `True` if some of these may have been executed, although there is no answer.
    may_be_executed: bool

    def __str__(self) -> str:
        end = " (what was sent may have been executed)" if self.may_be_executed else ""
        return f"{self.server} cannot be reached: {self.reason}{end}"


class UnreachableError(ClusterError):
    """Servers that could not be reached, or were lost. What belongs to others was done."""

    def __init__(self, servers: Sequence[ServerFailure]) -> None:
        super().__init__("; ".join(map(str, servers)))
        self.servers = tuple(servers)
