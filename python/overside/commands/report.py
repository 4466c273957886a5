"""Writes a run's report, or prints it."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

from overside import report, screen
from overside.bench import store
from overside.bench.statistics import load_run
from overside.commands import Arguments
from overside.errors import Exit, UserError


def main(args: Arguments) -> int:
    """Runs the verb."""
    if args.json:
        args.format, args.out = ["json"], Path("-")
    formats = list(dict.fromkeys(args.format or ["html"]))
    if args.out is not None and len(formats) > 1:
        raise UserError("--out takes one format", "give --format once, or leave --out out")
    if args.open and "html" not in formats:
        raise UserError("--open shows the page", "add --format html")
    is_picture = formats[0] in report.PICTURES
    if args.chart and not set(formats) & set(report.PICTURES):
        raise UserError("--chart names a chart of --format svg or png", "add --format svg")
    if args.out is not None and is_picture and not args.chart:
        raise UserError("--out takes one chart", "name it with --chart, or leave --out out")
    if args.out is None:
        files = report.write(args.run, formats, args.chart or "")
        for path in files:
            print(path)
        if sys.stderr.isatty():
            width, colour = screen.columns(sys.stderr), screen.has_colour(sys.stderr)
            print(report.summary(load_run(args.run), width, colour), file=sys.stderr, end="")
    elif is_picture:
        _write(report.picture(load_run(args.run), formats[0], args.chart), args.out)
        files = [args.out]
    else:
        _write(report.render(load_run(args.run), formats[0]), args.out)
        files = [args.out]
    if args.open:
        _show(files[formats.index("html")])
    return Exit.OK


def _write(content: str | bytes, path: Path) -> None:
    if path == Path("-"):
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.buffer.write(content)
        return
    store.write_output(path, content)
    print(path)


def _show(path: Path) -> None:
    if path == Path("-"):
        raise UserError("--open needs a file", "leave out `--out -`")
    if not webbrowser.open(path.resolve().as_uri()):
        print(f"no browser was found; open {path.resolve()} in one", file=sys.stderr)
