"""The verbs of the command line that are written in Python.

Each is a module in `overside.commands`; their options are declared in `crates/py/verbs`. Only the
module of the verb that was asked for is imported.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import sys
import traceback

from overside import _core, commands, log
from overside.errors import Exit, UserError, printable, require_utf8


def main(argv: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Whatever the locale is. Names of files that are not text are shown, and end nothing.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    is_for_programs = not {"--json", "--json-lines"}.isdisjoint(argv)
    program = "overside"
    try:
        _require_utf8(argv)
        verb, text = _core.command_line(argv)
        program += f" {verb}" if verb else ""
        kind, found = vars(json.loads(text, object_hook=commands.value)).popitem()
        if kind == "wrong":
            raise UserError(found.message, found.remedy)
        if kind != "values":
            print(found, end="", flush=True, file=sys.stdout if kind == "help" else sys.stderr)
            return Exit.OK if kind == "help" else Exit.USAGE
        with log.started(found):
            code = int(importlib.import_module(f"overside.commands.{verb}").main(found))
        sys.stdout.flush()
        return code
    except UserError as error:
        if is_for_programs:
            print(json.dumps(error.json()))
        print(f"{program}: {printable(str(error))}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as in `overside ... | head`.
        _drop_output()
        return Exit.OK
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = printable(str(error.filename or "the output"))
            print(f"{program}: cannot write {where}: {error.strerror}", file=sys.stderr)
            _drop_output()
            return Exit.INCOMPLETE
        traceback.print_exc()
        print(
            f"{program}: internal error (above); nothing that was written is lost",
            file=sys.stderr,
        )
        return Exit.INTERNAL


def _require_utf8(argv: list[str]) -> None:
    """Raises `UserError` for an argument, or a variable that names files, which is not UTF-8."""
    for word in argv:
        require_utf8(word)
    for variable, value in os.environ.items():
        if variable in ("HOME", "TMPDIR", "XDG_CACHE_HOME") or variable.startswith("OVERSIDE_"):
            require_utf8(value)


def _drop_output() -> None:
    """Discards stdout's buffered text, which cannot be written any more.

    Otherwise Python would try to write it at its end, and report an error.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
