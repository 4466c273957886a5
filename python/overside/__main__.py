"""The verbs of the command line that are written in Python.

Each is a module in `overside.commands` with a one-line docstring, `arguments(parser)` and
`main(args) -> int`. Only the module of the verb that was asked for is imported.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import traceback

from overside import log
from overside.errors import Exit, UserError

VERBS = {
    "doctor": "Find what this machine lacks and what makes it noisy, with fixes",
    "list": "List tasks, variants, boxes, profiles or data sets",
    "validate": "Check a box",
    "plan": "Show a box's tests and their time without running",
    "run": "Run a box and write its report",
    "report": "Write a run's report, or print its summary",
    "advise": "Recommend what to run where, from measured and published figures",
    "compare": "Compare two runs test by test",
    "audit": "Check that the harness catches planted errors, and measure its noise",
    "facts": "Search published figures, and compare the model with them",
    "clean": "Remove leftovers of runs and data sets",
    "data": "List, make, fetch or verify data sets",
    "plugin": "Create a plug-in",
    "simulate": "Model a scenario: throughput, latency, cores, bottleneck",
    "profile": "Show, compare, check or write device profiles",
    "calibrate": "Measure what the model needs to know of a device, and write its profile",
}


def main(argv: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    # A verb's module is imported only when that verb is asked for: start-up stays short.
    verb = next((word for word in argv if not word.startswith("-")), None)
    parser = argparse.ArgumentParser(prog="overside", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, text in VERBS.items():
        sub = verbs.add_parser(name, help=text, description=text + ".")
        if name == verb:
            module = importlib.import_module(f"overside.commands.{name}")
            module.arguments(sub)
            log.arguments(sub)
    args = parser.parse_args(argv)
    try:
        log.start(args)
        code = int(module.main(args))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"overside {verb}: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print(f"overside {verb}: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in `overside ... | head`.
        _drop_output()
        return Exit.OK
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = error.filename or "the output"
            print(f"overside {verb}: cannot write {where}: {error.strerror}", file=sys.stderr)
            _drop_output()
            return Exit.INCOMPLETE
        traceback.print_exc()
        print(
            f"overside {verb}: internal error (above); nothing that was written is lost",
            file=sys.stderr,
        )
        return Exit.INTERNAL


def _drop_output() -> None:
    """What is still buffered cannot be written; Python would try at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
