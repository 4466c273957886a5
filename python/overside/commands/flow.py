"""`overside flow serve-table`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from overside import flow
from overside.commands import Arguments, output
from overside.errors import Exit, UserError

if TYPE_CHECKING:
    from overside.flow.access import Access
    from overside.flow.engine import Engine
    from overside.flow.server import Server

#: Longest time in seconds that gRPC may take to end once no statement runs.
_END_S = 3.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(args: Arguments) -> int:
    """Serves until a signal."""
    flow.require("pyarrow.flight", "duckdb")
    from overside.flow import access  # noqa: PLC0415

    names = [name for name, _ in args.tables]
    if len({name.lower() for name in names}) < len(names):
        raise UserError("two tables have the same name", "names are the same in any case")
    word = access.password(args.password_file) if args.password_file else None
    host, port = args.listen
    needs_certificates = args.tls_clients == "required"
    allowed = access.Access(host, port, word, args.tls_keys, needs_certificates)
    allowed.check()
    # Threads that are started from here on leave signals to this one, which waits for them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return _serve(args, allowed)
    except BaseException:
        # This process may go on, and start others, which would not hear them either.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


def _serve(args: Arguments, allowed: Access) -> int:
    from overside.flow import engine, memory, metrics, server  # noqa: PLC0415

    limits = engine.Limits(
        args.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2,
        args.timeout,
        args.statements,
        args.threads or len(os.sched_getaffinity(0)),
    )
    tables = engine.Engine(dict(args.tables), limits)
    with contextlib.ExitStack() as stack:
        stack.enter_context(memory.limited_process(limits.memory_bytes))
        place = f"{allowed.host_text}:{allowed.port}"
        try:
            serving = server.Server(tables, allowed)
            said = {"address": f"{allowed.host_text}:{serving.port}"}
            if args.metrics:
                place = "{}:{}".format(*args.metrics)
                numbers = metrics.MetricsServer(tables, tuple(args.metrics))
                stack.callback(numbers.close)
                said["metrics"] = f"{args.metrics[0]}:{numbers.port}"
        except OSError as error:
            raise UserError(f"cannot listen at {place}: {error}", "", Exit.ABSENT) from None
        _announce(said, [name for name, _ in args.tables], as_json=args.json)
        signal.sigwait(_SIGNALS)
        _end(tables, serving, args.drain)
    return Exit.OK


def _announce(said: dict[str, str], names: list[str], *, as_json: bool) -> None:
    if as_json:
        output.document("flow-tables/1", **said)
        return
    print(f"serving {', '.join(names)} at {said['address']}", file=sys.stderr)
    if "metrics" in said:
        print(f"metrics at http://{said['metrics']}/metrics", file=sys.stderr)


def _end(engine: Engine, server: Server, drain_s: float) -> None:
    """Lets statements end, and then ends itself; at once at another signal."""

    def end_at_once() -> None:
        signal.sigwait(_SIGNALS)
        os._exit(Exit.INTERRUPTED)

    threading.Thread(target=end_at_once, daemon=True).start()
    engine.stop(drain_s)
    ended = threading.Thread(target=server.shutdown, daemon=True)
    ended.start()
    ended.join(_END_S)
    if ended.is_alive():
        # A client that takes nothing would keep gRPC, and so this process, for ever.
        os._exit(Exit.OK)
