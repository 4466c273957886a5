"""A connection to a server of flows or tables."""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as fl

#: Buffers that gRPC received begin anywhere: SIMD and DMA want multiples of 64.
_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
#: Seconds in which a service has to report its state.
_ANSWER_S = 10
#: The name in certificates that `overside agent keys` makes.
TLS_NAME = "agent.overside.invalid"
#: Objects of gRPC that live.
_LIVING: weakref.WeakSet[Any] = weakref.WeakSet()
#: Processes that have used gRPC, this one and those that it was forked from.
_USERS: set[int] = set()

Kept = TypeVar("Kept")


def _keep_all() -> None:
    """Keeps a forked child from destroying its parent's objects, which waits for threads."""
    for living in list(_LIVING):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(living))


os.register_at_fork(after_in_child=_keep_all)


class Connection:
    """A client, and how it calls.

    Args:
        uri: `grpc://HOST:PORT/PATH`, or `grpc+tls://...`.
        password: The server's password, if it has one.
        tls_keys: A directory with `ca.pem`, and perhaps `host.pem` and `host.key`.
        tls_name: The name in the server's certificate.
        codec: What a pipeline that is served is to compress columns with, if anything.

    Raises:
        ValueError: The URI is another one.
        RuntimeError: This is a forked child whose parent has had a connection.
    """

    def __init__(
        self,
        uri: str,
        password: str | None = None,
        tls_keys: str | Path | None = None,
        tls_name: str = TLS_NAME,
        *,
        codec: str | None = None,
    ) -> None:
        parts = urlsplit(uri)
        if parts.scheme not in ("grpc", "grpc+tls") or not parts.hostname or not parts.port:
            raise ValueError(f"{uri!r} is not like grpc://HOST:PORT/NAME or grpc+tls://...")
        options = _tls(tls_keys, tls_name) if parts.scheme == "grpc+tls" else {}
        self.check_process()
        _USERS.add(os.getpid())
        self._client = self.kept(fl.FlightClient(f"{parts.scheme}://{parts.netloc}", **options))
        token = [] if password is None else [(b"authorization", f"Bearer {password}".encode())]
        self._headers = token
        asked = [] if codec is None else [(b"overside-codec", codec.encode())]
        self.options = fl.FlightCallOptions(headers=token + asked, read_options=_ALIGNED)
        self.path = parts.path.strip("/")

    @property
    def is_usable(self) -> bool:
        """`True` unless this is a forked child whose parent has had a connection."""
        return not _USERS - {os.getpid()}

    def check_process(self) -> None:
        """Raises `RuntimeError` in a forked child whose parent has had a connection."""
        if not self.is_usable:
            raise RuntimeError(
                "gRPC does not work in a forked process whose parent has used it: start processes "
                "by 'spawn' or 'forkserver' of multiprocessing"
            )

    @property
    def client(self) -> fl.FlightClient:
        """The client. Raises `RuntimeError` in a forked child."""
        self.check_process()
        return self._client

    @staticmethod
    def kept(living: Kept) -> Kept:
        """The same object of gRPC, which a forked child will not destroy."""
        _LIVING.add(living)
        return living

    def check(self) -> None:
        """Raises `FlightError` unless the service answers."""
        options = fl.FlightCallOptions(headers=self._headers, timeout=_ANSWER_S)
        next(self.client.do_action("health", options))


def _tls(keys: str | Path | None, name: str) -> dict[str, Any]:
    if keys is None:
        raise ValueError("grpc+tls needs tls_keys, a directory with ca.pem")
    keys = Path(keys)
    options: dict[str, Any] = {
        "tls_root_certs": (keys / "ca.pem").read_bytes(),
        "override_hostname": name,
    }
    if (keys / "host.pem").exists():
        options["cert_chain"] = (keys / "host.pem").read_bytes()
        options["private_key"] = (keys / "host.key").read_bytes()
    return options
