"""A connection to a server of flows or tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as fl

#: Buffers that gRPC received begin anywhere: SIMD and DMA want multiples of 64.
_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
#: Within which a service says how it is, in seconds.
_ANSWER_S = 10
#: The name in certificates that `overside agent keys` makes.
TLS_NAME = "agent.overside.invalid"


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
        self.client = fl.FlightClient(f"{parts.scheme}://{parts.netloc}", **options)
        token = [] if password is None else [(b"authorization", f"Bearer {password}".encode())]
        self._headers = token
        asked = [] if codec is None else [(b"overside-codec", codec.encode())]
        self.options = fl.FlightCallOptions(headers=token + asked, read_options=_ALIGNED)
        self.path = parts.path.strip("/")

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
