"""Runs etcd, the directory of key-value servers."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import PATIENCE_S, wait_for


class EtcdServer:
    """An etcd that can be killed and started again."""

    def __init__(self, directory: Path, keys: Path | None = None) -> None:
        with socket.socket() as clients, socket.socket() as peers:
            for one in (clients, peers):
                one.bind(("127.0.0.1", 0))
            self.address, peer = (f"127.0.0.1:{s.getsockname()[1]}" for s in (clients, peers))
        at, peers_at = f"http{'s' if keys else ''}://{self.address}", f"http://{peer}"
        self._at, self._keys, self._tls = at, keys, None
        options = {
            "data-dir": directory,
            "listen-client-urls": at,
            "advertise-client-urls": at,
            "listen-peer-urls": peers_at,
            "initial-advertise-peer-urls": peers_at,
            "initial-cluster": f"default={peers_at}",
        }
        if keys is not None:
            options |= {
                "cert-file": keys / "etcd.pem",
                "key-file": keys / "etcd.key",
                "trusted-ca-file": keys / "ca.pem",
            }
            self._tls = ssl.create_default_context(cafile=str(keys / "ca.pem"))
            self._tls.load_cert_chain(keys / "host.pem", keys / "host.key")
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        requires = ["--client-cert-auth"] if keys else []
        self._command = ["etcd", *words, *requires, "--unsafe-no-fsync"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL for servers and clients."""
        return f"{'etcds' if self._keys else 'etcd'}://{self.address}"

    def start(self) -> None:
        """Starts it, with what it had."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(self._is_ready)

    def kill(self) -> None:
        """Kills it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)

    def ask(self, method: str, **question: Any) -> Any:
        """Answer of the server."""
        request = urllib.request.Request(
            f"{self._at}/v3/{method}", json.dumps(question).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S, context=self._tls) as answer:
            return json.load(answer)

    def entries(self) -> dict[str, Any]:
        """Registered entries, by key."""
        prefix = "/overside/kv/endpoints"
        found = self.ask("kv/range", key=_text(prefix + "/"), range_end=_text(prefix + "0"))
        return {
            base64.b64decode(one["key"]).decode(): json.loads(base64.b64decode(one["value"]))
            for one in found.get("kvs", [])
        }

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "etcd does not start"
        try:
            with urllib.request.urlopen(f"{self._at}/health", timeout=1, context=self._tls):
                return True
        except (urllib.error.URLError, OSError):
            return False


def _text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def make_keys(directory: Path) -> Path:
    """An authority, a certificate of etcd at 127.0.0.1 and one of its clients."""
    directory.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7")
    openssl("req", "-x509", *curve, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    for name, known_as in [("etcd", "IP:127.0.0.1"), ("host", "DNS:host.example")]:
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={known_as}")
        usage = ("-addext", "basicConstraints=critical,CA:false")
        names = ("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl("req", "-x509", *curve, *signed, *usage, *names)
    return directory


@contextmanager
def etcd_server(directory: Path, keys: Path | None = None) -> Iterator[EtcdServer]:
    """An etcd of this machine, with keys by TLS. The test is skipped where there is none."""
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed")
    etcd = EtcdServer(directory, keys)
    try:
        etcd.start()
        yield etcd
    finally:
        etcd.kill()
