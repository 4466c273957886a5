"""The process that measures: tests as JSON lines on stdin, samples as JSON lines on stdout.

It lives for one round of one block. It ends at once when its stdin does, whatever it is at, so it
never outlives the process that started it. Little is imported, because every round pays for it.
"""

import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overside.bench.network_path import Ends


def main() -> None:
    """Measures until stdin ends."""
    # Whatever a library prints must not end up among the samples.
    samples = os.dup(1)
    os.dup2(2, 1)

    requests: SimpleQueue[str] = SimpleQueue()
    Thread(target=_read, args=(requests,), daemon=True).start()

    from overside import _core  # noqa: PLC0415 (meanwhile the reader waits for its first line)

    # To stderr, which is a file of the run's logs.
    _core.start_log("warn")
    worker = _core.Worker()
    ends = None
    while True:
        test = requests.get()
        try:
            if '"hop": ' in test:
                ends = ends or _ends()
                test = ends.between(test)
            sample = worker.measure(test)
        except Exception as error:
            sample = _failed(error)
        _write(samples, sample.encode() + b"\n")


def _read(requests: "SimpleQueue[str]") -> None:
    for line in sys.stdin:
        requests.put(line)
    # The runner has gone or is done with us; a measurement that is under way is of no use.
    os._exit(0)


def _ends() -> "Ends":
    from overside.bench.network_path import Ends  # noqa: PLC0415 (few tests need it)

    return Ends()


def _failed(error: Exception) -> str:
    import json  # noqa: PLC0415
    import traceback  # noqa: PLC0415

    kind = getattr(error, "kind", "internal")
    message = str(error)
    if kind == "internal":
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
    failure = {"kind": kind, "message": message}
    return json.dumps({"status": "failed", "error": failure, "warnings": []})


def _write(to: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


if __name__ == "__main__":
    main()
