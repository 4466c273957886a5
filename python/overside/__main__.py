"""The verbs of the command line that are written in Python.

Each is a module in `overside.commands` with `main(args) -> int`; their arguments are in
`overside.commands.arguments`. Only the module of the verb that was asked for is imported.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import sys
import traceback
from collections.abc import Sequence

from overside import log
from overside.commands import arguments
from overside.errors import Exit, UserError, printable, require_utf8


def main(argv: list[str] | None = None) -> int:
    """Runs one verb and returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Whatever the locale is. Names of files that are not text are shown, and end nothing.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    verb = next((word for word in argv if not word.startswith("-")), None)
    parser = arguments.Parser(prog="overside", description=__doc__.split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (text, add) in arguments.VERBS.items():
        sub = verbs.add_parser(name, help=text, description=text + ".")
        if name == verb:
            add(sub)
            sub.show_examples(name)
            log.arguments(sub)
    args, unknown = parser.parse_known_args(argv)
    if hasattr(args, "words") and not any(word.startswith("-") for word in unknown):
        # Words may stand behind options too: argparse gives a list of words up at the first option.
        args.words, unknown = [*args.words, *unknown], []
    if unknown:
        verbs.choices[args.verb].error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        _require_utf8(argv)
        log.start(args)
        code = int(importlib.import_module(f"overside.commands.{verb}").main(args))
        sys.stdout.flush()
        return code
    except UserError as error:
        if arguments.is_for_programs(argv):
            print(json.dumps(error.json()))
        print(f"overside {verb}: {printable(str(error))}", file=sys.stderr)
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
            where = printable(str(error.filename or "the output"))
            print(f"overside {verb}: cannot write {where}: {error.strerror}", file=sys.stderr)
            _drop_output()
            return Exit.INCOMPLETE
        traceback.print_exc()
        print(
            f"overside {verb}: internal error (above); nothing that was written is lost",
            file=sys.stderr,
        )
        return Exit.INTERNAL


def _require_utf8(argv: Sequence[str]) -> None:
    """Raises `UserError` for an argument, or a variable that names files, which is not UTF-8."""
    for word in argv:
        require_utf8(word)
    for variable, value in os.environ.items():
        if variable in ("HOME", "TMPDIR", "XDG_CACHE_HOME") or variable.startswith("OVERSIDE_"):
            require_utf8(value)


def _drop_output() -> None:
    """What is still buffered cannot be written; Python would try at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
