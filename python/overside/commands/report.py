"""Writes a run's report, or prints it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from overside.errors import Exit, UserError
from overside.report import FILES


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's arguments."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's directory, results/<run>")
    parser.add_argument(
        "--format",
        choices=sorted(FILES),
        action="append",
        help="what to write into RUN: html (the default), md, csv or json; may be repeated",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="write one format there instead; - for stdout"
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json --out -")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    from overside import report  # noqa: PLC0415 (start-up)
    from overside.bench.statistics import load_run  # noqa: PLC0415

    if args.json:
        args.format, args.out = ["json"], Path("-")
    formats = list(dict.fromkeys(args.format or ["html"]))
    if args.out is not None and len(formats) > 1:
        raise UserError("--out takes one format", "give --format once, or leave --out out")
    if args.open and "html" not in formats:
        raise UserError("--open shows the page", "add --format html")
    if args.out is None:
        files = report.write(args.run, formats)
        for path in files:
            print(path)
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns
            colour = "NO_COLOR" not in os.environ
            print(report.summary(load_run(args.run), width, colour), file=sys.stderr)
    else:
        _write(report.render(load_run(args.run), formats[0]), args.out)
        files = [args.out]
    if args.open:
        _show(files[formats.index("html")])
    return Exit.OK


def _write(text: str, path: Path) -> None:
    from overside.bench import store  # noqa: PLC0415

    if path == Path("-"):
        sys.stdout.write(text)
        return
    store.write_output(path, text)
    print(path)


def _show(path: Path) -> None:
    import webbrowser  # noqa: PLC0415

    if path == Path("-"):
        raise UserError("--open needs a file", "leave out `--out -`")
    if not webbrowser.open(path.resolve().as_uri()):
        print(f"no browser was found; open {path.resolve()} in one", file=sys.stderr)
