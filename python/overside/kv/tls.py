"""TLS 1.3 to servers and directories, with the keys that `overside agent keys` makes."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: The name in the certificate of agents, and of servers that use it.
AGENT = "agent.overside.invalid"


def client_context(keys: Path) -> ssl.SSLContext:
    """Trusts certificates signed by `ca.pem`, and shows `host.pem` if that is there."""
    context = ssl.create_default_context(cafile=str(keys / "ca.pem"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if (keys / "host.pem").exists():
        context.load_cert_chain(keys / "host.pem", keys / "host.key")
    return context
