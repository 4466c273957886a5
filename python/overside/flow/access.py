"""Access to a server: addresses, passwords and certificates."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.flight as fl

from overside.errors import Exit, UserError

_PASSWORD_BYTES_MAX = 512


@dataclass(frozen=True)
class Access:
    """Address at which a server listens, and the credentials that clients need."""

    host: str
    port: int
    password: str | None
    #: Directory with `server.pem` and `server.key`, and `ca.pem` for client certificates.
    tls_keys: Path | None
    has_client_certificates: bool

    def check(self) -> None:
        """Raises `UserError` for settings that would admit other machines by mistake."""
        is_open = self.password is None and not self.has_client_certificates
        if is_open and not ipaddress.ip_address(self.host).is_loopback:
            raise UserError(
                f"other machines can reach {self.host}, so --password-file FILE is required, or "
                "--tls-clients required",
                "create a password with `(umask 077; openssl rand -base64 24 > FILE)`",
            )
        if self.has_client_certificates and self.tls_keys is None:
            raise UserError("--tls-clients required needs --tls-keys DIR")

    @property
    def location(self) -> str:
        """Returns the address as a location of Flight."""
        scheme = "grpc" if self.tls_keys is None else "grpc+tls"
        return f"{scheme}://{self.host_text}:{self.port}"

    @property
    def host_text(self) -> str:
        """The host as it stands before a port."""
        return f"[{self.host}]" if ":" in self.host else self.host

    def options(self) -> dict[str, Any]:
        """Returns the options for `pyarrow.flight.FlightServerBase`. Raises `UserError`."""
        options: dict[str, Any] = {}
        if self.password is not None:
            options["middleware"] = {"password": _PasswordFactory(self.password)}
            # So that a client may ask for a handshake first; the middleware decides.
            options["auth_handler"] = _AnyHandshake()
        if self.tls_keys is not None:
            pair = (read(self.tls_keys / "server.pem"), read(self.tls_keys / "server.key"))
            options["tls_certificates"] = [fl.CertKeyPair(*pair)]
            if self.has_client_certificates:
                options["verify_client"] = True
                options["root_certificates"] = read(self.tls_keys / "ca.pem")
        return options


def read(path: Path) -> bytes:
    """A small file. Raises `UserError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "", Exit.ABSENT) from None


def password(path: Path) -> str:
    """The first line of a file that others cannot read. Raises `UserError`."""
    text = read(path).partition(b"\n")[0].strip()
    if path.stat().st_mode & stat.S_IRWXO:
        raise UserError(f"others can read {path}", f"chmod o= {path}")
    try:
        word = text.decode("ascii")
    except UnicodeDecodeError:
        word = ""
    if not word or not word.isprintable() or len(word) > _PASSWORD_BYTES_MAX:
        raise UserError(
            f"the first line of {path} is no password",
            f"write 1 to {_PASSWORD_BYTES_MAX} printable ASCII characters into it",
        )
    return word


class _PasswordFactory(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets calls in that have the password: `Bearer PASSWORD`, or `Basic` with any user name."""

    def __init__(self, password: str) -> None:
        super().__init__()
        self._password = password

    def start_call(self, info: object, headers: Mapping[str, list[str]]) -> _Password | None:
        del info
        for value in headers.get("authorization", ()):
            scheme, _, credentials = value.partition(" ")
            if scheme.lower() == "basic":
                credentials = _basic(credentials)
            elif scheme.lower() != "bearer":
                continue
            if hmac.compare_digest(credentials.encode(), self._password.encode()):
                return _Password(self._password) if scheme.lower() == "basic" else None
        raise fl.FlightUnauthenticatedError("a password is needed, as bearer token or basic")


class _Password(fl.ServerMiddleware):  # type: ignore[misc]
    """Answers a name and password with the token for further calls."""

    def __init__(self, password: str) -> None:
        super().__init__()
        self._password = password

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._password}"}


class _AnyHandshake(fl.ServerAuthHandler):  # type: ignore[misc]
    def authenticate(self, outgoing: object, incoming: object) -> None:
        del outgoing, incoming

    def is_valid(self, token: bytes) -> str:
        del token
        return ""


def _basic(credentials: str) -> str:
    """The password in credentials of HTTP's basic authentication; empty if they are none."""
    try:
        # Go's client leaves the padding away.
        padded = credentials + "=" * (-len(credentials) % 4)
        return base64.b64decode(padded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
