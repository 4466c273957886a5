"""Text logs as a web server, a login daemon, a kernel and a service write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from overside.data import lines
from overside.data.draw import Draw

_PATHS = [
    "/",
    "/index.html",
    "/login",
    "/static/site.css",
    "/static/app.js",
    "/favicon.ico",
    "/api/v1/items",
    "/api/v1/orders",
    "/api/v1/users",
    "/search",
    "/cart",
    "/checkout",
    "/images/logo.png",
    "/docs/install",
    "/docs/reference",
    "/feed.xml",
    "/robots.txt",
    "/admin",
]
_AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1",
    "curl/8.8.0",
    "python-requests/2.32.3",
    "ExampleBot/2.1 (+http://bot.example/about)",
]
_STATUS = ["200"] * 14 + ["304", "304", "404", "301", "500"]
_USERS = ["root", "admin", "deploy", "backup", "alice", "bob", "carol", "test", "oracle", "git"]
_HOSTS = ["web-1", "web-2", "db-1", "cache-1", "queue-1", "build-1"]
_DISKS = ["sda", "sdb", "nvme0n1", "nvme1n1"]
_EVENTS = [
    "request done",
    "cache miss",
    "cache hit",
    "retrying upstream",
    "connection reset by peer",
    "slow query",
    "job finished",
    "job queued",
]
_LEVELS = ["INFO"] * 12 + ["DEBUG"] * 5 + ["WARN", "WARN", "ERROR"]


def write(directory: Path, seed: int) -> None:
    """Writes one file."""
    lines.write(directory / "logs.txt", _lines(Draw(seed)))


def _lines(draw: Draw) -> Iterator[str]:
    addresses = [
        f"{10 + draw.below(200)}.{draw.below(256)}.{draw.below(256)}.{1 + draw.below(254)}"
        for _ in range(2000)
    ]
    now = datetime(2024, 3, 1, tzinfo=UTC)
    kinds = [_access] * 12 + [_login] * 3 + [_service] * 4 + [_kernel]
    while True:
        now += timedelta(milliseconds=draw.below(400))
        yield draw.pick(kinds)(draw, now, draw.favourite(addresses))


def _access(draw: Draw, now: datetime, address: str) -> str:
    path = draw.favourite(_PATHS)
    if path.startswith("/api"):
        path += f"/{draw.below(50_000)}"
    elif path == "/search":
        path += f"?q=item+{draw.below(3000)}&page={1 + draw.below(9)}"
    method = "POST" if draw.share() < 0.1 else "GET"
    size = int(200 / (0.003 + draw.share()))
    return (
        f"{address} - - [{now:%d/%b/%Y:%H:%M:%S} +0000] "
        f'"{method} {path} HTTP/1.1" {draw.pick(_STATUS)} {size} "-" "{draw.favourite(_AGENTS)}"'
    )


def _login(draw: Draw, now: datetime, address: str) -> str:
    head = f"{now:%b %d %H:%M:%S} {draw.favourite(_HOSTS)} sshd[{1000 + draw.below(30_000)}]: "
    user, port = draw.favourite(_USERS), 1024 + draw.below(60_000)
    if draw.share() < 0.7:
        return f"{head}Failed password for {user} from {address} port {port} ssh2"
    return f"{head}Accepted publickey for {user} from {address} port {port} ssh2"


def _service(draw: Draw, now: datetime, address: str) -> str:
    return (
        f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}Z level={draw.pick(_LEVELS)} "
        f'host={draw.favourite(_HOSTS)} msg="{draw.favourite(_EVENTS)}" peer={address} '
        f"request={draw.below(1 << 32):08x} took_ms={int(3 / (0.002 + draw.share()))}"
    )


def _kernel(draw: Draw, now: datetime, address: str) -> str:
    head = f"{now:%b %d %H:%M:%S} {draw.favourite(_HOSTS)} kernel: "
    stamp = f"[{draw.below(9_000_000)}.{draw.below(1_000_000):06}] "
    if draw.share() < 0.6:
        return (
            f"{head}{stamp}firewall: DROP IN=eth0 SRC={address} LEN={40 + draw.below(1400)} "
            f"TTL={32 + draw.below(96)} PROTO=TCP DPT={draw.pick([22, 23, 80, 443, 3389, 8080])}"
        )
    return f"{head}{stamp}{draw.pick(_DISKS)}: read error at sector {draw.below(1 << 31)}, retried"
