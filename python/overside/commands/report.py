"""Writes a run's report, or prints it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import webbrowser
from pathlib import Path

from overside import report
from overside.bench import store
from overside.bench.statistics import load_run
from overside.errors import Exit, UserError


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
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
    if path == Path("-"):
        sys.stdout.write(text)
        return
    store.write_output(path, text)
    print(path)


def _show(path: Path) -> None:
    if path == Path("-"):
        raise UserError("--open needs a file", "leave out `--out -`")
    if not webbrowser.open(path.resolve().as_uri()):
        print(f"no browser was found; open {path.resolve()} in one", file=sys.stderr)
