"""A server's metrics, in Prometheus's text format over HTTP."""

from __future__ import annotations

import ipaddress
import resource
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6

from overside.flow.engine import Engine

#: Outcomes of statements; a refused one sends no rows.
_OUTCOMES = ("answered", "abandoned", "timeouts", "failed", "refused")
#: A connection that asks for nothing is closed.
_IDLE_S = 10.0


def text(engine: Engine) -> str:
    """All metrics."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    counts = engine.counts
    rows = [
        ("rows_total", "counter", "rows sent", "", counts["rows"]),
        ("bytes_total", "counter", "bytes of their Arrow buffers", "", counts["bytes"]),
        ("running_statements", "gauge", "statements that run now", "", engine.running),
        ("waiting_statements", "gauge", "statements that wait for these", "", engine.slots.waiting),
        ("cpu_seconds_total", "counter", "CPU time", "", used.ru_utime + used.ru_stime),
    ]
    rows += [
        ("statements_total", "counter", "statements by their end", outcome, counts[outcome])
        for outcome in _OUTCOMES
    ]
    lines = []
    for name, kind, about, outcome, value in rows:
        head = f"# HELP overside_flow_{name} {about}\n# TYPE overside_flow_{name} {kind}"
        label = f'{{outcome="{outcome}"}}' if outcome else ""
        if head not in lines:
            lines.append(head)
        lines.append(f"overside_flow_{name}{label} {value}")
    return "\n".join([*lines, ""])


class MetricsServer:
    """Answers `GET /metrics` until it is closed."""

    def __init__(self, engine: Engine, address: tuple[str, int]) -> None:
        """Raises `OSError` if it cannot listen."""

        class Handler(BaseHTTPRequestHandler):
            timeout = _IDLE_S

            def do_GET(self) -> None:
                body = text(engine).encode() if self.path == "/metrics" else b"see /metrics\n"
                self.send_response(200 if self.path == "/metrics" else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class HttpServer(ThreadingHTTPServer):
            daemon_threads = True
            address_family = AF_INET6 if ipaddress.ip_address(address[0]).version == 6 else AF_INET

        self._server = HttpServer(address, Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Listens no more."""
        self._server.shutdown()
        self._server.server_close()
