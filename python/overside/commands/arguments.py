"""The arguments of the verbs. They stand apart from what the verbs do, because help needs no native
code and nothing else that takes time to load."""

from __future__ import annotations

import argparse
import difflib
import ipaddress
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from overside import amounts, runs
from overside.commands import examples
from overside.errors import Exit, UserError, error_json

#: Where runs are kept.
RESULTS = Path("results")

#: Ways through a card (docs/modes.md), as `overside.bench.modes` has them.
CARD_MODES = ("off-path", "on-path-1", "on-path-2", "on-path-3", "on-path-4", "on-path-5")

_BOX = "a path, or the name of a ready-made box"
_RUN = "a run's directory or name; @ is the newest, @1 the one before"


class _Help(argparse.HelpFormatter):
    """Leaves texts as they are that have lines of their own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Says what is wrong in two lines, and names the option that was meant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help} | options)

    def show_examples(self, verb: str) -> None:
        """Adds the examples of a verb, and those of its own verbs, to their help."""
        self.epilog = examples.text(verb) or None
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, parser in action.choices.items():
                    parser.show_examples(f"{verb} {name}")

    def error(self, message: str) -> NoReturn:
        """Ends the process with code 2."""
        unknown = re.match(r"unrecognized arguments: ([^ =]*)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        if unknown is not None:
            message = f"unexpected argument {unknown[1]!r}" + _meant(unknown[1], _options(self))
        elif choice is not None:
            message += _meant(choice[1], re.findall(r"'([^']*)'", choice[2]))
        if is_for_programs(sys.argv):
            remedy = f"`{self.prog} --help` lists what it takes"
            print(json.dumps(error_json(message, remedy, Exit.USAGE)))
        self.exit(2, f"{self.prog}: {message}\n  `{self.prog} --help` lists what it takes\n")


def is_for_programs(argv: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, whatever else is right about it."""
    return not {"--json", "--json-lines"}.isdisjoint(argv)


def _meant(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """The long options of a verb and of its own verbs."""
    found = [name for name in parser._option_string_actions if name.startswith("--")]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [name for sub in action.choices.values() for name in _options(sub)]
    return found


def _run_of(text: str) -> Path:
    """A run by its path, its name in `RESULTS`, `@` or `@N`."""
    try:
        return runs.find(text, RESULTS)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _existing_run(parser: Parser, name: str, metavar: str, text: str, **more: Any) -> None:
    parser.add_argument(name, metavar=metavar, type=_run_of, help=text, **more)


def _run_name(text: str) -> str:
    if runs.NAME.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name: up to 60 letters, digits, '.', '_' and '-', "
            "the first a letter or a digit"
        )
    return text


def _flag(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    parser.add_argument(name, action="store_true", help=text)


def _path(parser: Parser, name: str, metavar: str, text: str, **more: Any) -> None:
    parser.add_argument(name, metavar=metavar, type=Path, help=text, **more)


def _several(parser: Parser, name: str, metavar: str, text: str, **more: Any) -> None:
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=text, **more)


def _names(parser: Parser, name: str, metavar: str, text: str) -> None:
    """Names with commas between; may be repeated."""
    parser.add_argument(
        name,
        metavar=metavar,
        action="extend",
        default=[],
        type=lambda names: [one for name in names.split(",") if (one := name.strip())],
        help=text,
    )


def _word(parser: Parser, name: str, metavar: str, text: str, **more: Any) -> None:
    parser.add_argument(name, metavar=metavar, help=text, **more)


def _json(parser: Parser, text: str = "print JSON to stdout") -> None:
    _flag(parser, "--json", text)


def _actions(parser: Parser) -> Any:
    """The verb's own verbs."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def _selection(parser: Parser) -> None:
    _several(
        parser,
        "--set",
        "TASK.KEY=V,V",
        "give a task's parameter other values, with units as in compress.buffer_size=64KiB; "
        "measure.max_s=10s and the like work too",
    )
    _several(
        parser,
        "--filter",
        "KEY=GLOB",
        "keep only tests that match; KEY is task, id or a parameter; all must match",
        type=_pair,
    )


def _nodes(parser: Parser) -> None:
    text = (
        "machines that measure, with commas between: local, or agents (`overside agents list`), "
        "instead of the box's"
    )
    _names(parser, "--node", "NAME[,NAME]", text)


def _pair(text: str) -> tuple[str, str]:
    """`key=glob`."""
    key, equals, glob = text.partition("=")
    if not (key and equals and glob):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=GLOB")
    return key, glob


def _card_mode(text: str) -> str:
    """A way through a card; the literature's submode SM2 is on-path-2."""
    return re.sub(r"(?i)^sm(?=[1-5]$)", "on-path-", text)


def _seed(text: str) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,16}", text) else -1
    if not 0 <= value < 1 << 53:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^53-1")
    return value


def _number(what: str, low: float, high: float, unit: str = "") -> Callable[[str], float]:
    """Reads a number above `low` and at most `high`; `what` names it in messages. It may have a
    unit of the kind of `unit`."""

    def read(text: str) -> float:
        amount = amounts.number(text, unit)
        try:
            value = float(text) if amount is None else float(amount)
        except ValueError:
            value = math.nan
        if not low < value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read


def _seconds(low: float, high: float) -> Callable[[str], float]:
    """Reads a time above `low` and at most `high` seconds."""
    what = f"a time up to {high:g} s, as in 90s, 10min or a number of seconds"
    return _number(what, low, high, "s")


def _list(parser: Parser) -> None:
    parser.add_argument("what", choices=("tasks", "variants", "boxes", "profiles", "data"))
    text = "show one only: a task with parameters and metrics, an operation, a box's file, ..."
    parser.add_argument("name", nargs="?", help=text)
    _json(parser)


def _validate(parser: Parser) -> None:
    _word(parser, "box", "BOX", _BOX)
    _json(parser)


def _plan(parser: Parser) -> None:
    _word(parser, "box", "BOX", _BOX)
    _selection(parser)
    _nodes(parser)
    _json(parser)


def _run(parser: Parser) -> None:
    _word(parser, "box", "BOX", "a box's path, or the name of a ready-made one", nargs="?")
    _selection(parser)
    _nodes(parser)
    _existing_run(parser, "--resume", "RUN", "resume an incomplete run")
    text = "make the run's directory in DIR (default: %(default)s)"
    _path(parser, "--out", "DIR", text, default=RESULTS)
    text = "call the run NAME, for other verbs too (default: the time and the box's name)"
    _word(parser, "--name", "NAME", text, type=_run_name)
    shown = parser.add_mutually_exclusive_group()
    _flag(shown, "--json", "print the run as JSON to stdout")
    text = "print what happens as it happens to stdout, a JSON object a line"
    _flag(shown, "--json-lines", text)
    _word(parser, "--seed", "N", "override the box's seed", type=_seed)
    text = "measure for at most S seconds, overriding the box's max_s"
    # A week is the most.
    seconds = _seconds(0, 604_800)
    _word(parser, "--timeout", "S", text, type=seconds)
    text = (
        "the way through the card, where it cannot be seen from here: off-path, on-path-1 to -5, "
        "or SM1 to SM5, as the literature calls them"
    )
    parser.add_argument(
        "--card-mode", metavar="MODE", type=_card_mode, choices=CARD_MODES, help=text
    )
    _flag(parser, "--strict", "exit with 104 if the emulated timing of a test is invalid")
    scripts = parser.add_mutually_exclusive_group()
    text = "run scripts and plug-ins that may change this machine without asking"
    _flag(scripts, "--allow-scripts", text)
    text = "confine plug-ins with bubblewrap, so that they cannot change this machine"
    _flag(scripts, "--sandbox", text)


def _report(parser: Parser) -> None:
    _existing_run(parser, "run", "RUN", f"{_RUN} (default: @)", nargs="?", default="@")
    parser.add_argument(
        "--format",
        choices=("csv", "html", "json", "md", "png", "svg"),
        action="append",
        help="what to write into RUN: html (the default), md, csv, json, or each chart as svg or "
        "png into RUN/charts; may be repeated",
    )
    text = (
        "of --format svg or png only that chart, by its file's name; `rounds` draws what each "
        "round measured, `histogram` how latencies are spread"
    )
    _word(parser, "--chart", "NAME", text)
    _path(parser, "--out", "FILE", "write one format there instead; - for stdout")
    _json(parser, "the same as --format json --out -")
    _flag(parser, "--open", "show the page in a browser")


def _advise(parser: Parser) -> None:
    text = f"{_RUN} (default: the newest in DIR; without any, published figures)"
    _existing_run(parser, "--run", "RUN", text)
    _path(parser, "--out", "DIR", "where runs are (default: %(default)s)", default=RESULTS)
    text = "cards, by their profiles' names or files, with commas between (default: all)"
    _names(parser, "--card", "NAME[,NAME]", text)
    text = "operations, as in compress-deflate, or all of a kind, as in compress (default: all)"
    _names(parser, "--operation", "NAME[,NAME]", text)
    text = "buffers of that size alone, of the uncompressed side, as in 64KiB"
    _word(parser, "--size", "SIZE", text, type=_size("1B", "1TiB"))
    text = "what one --operation takes at that rate, as in '40 Gb/s': cores and cards"
    _word(parser, "--rate", "RATE", text)
    price = _number("a price like 2000 or 0.04", 0, 1e7)
    _word(parser, "--price-card", "PRICE", "with --rate: what one card costs", type=price)
    text = "with --rate: what one core costs an hour, in the same currency"
    _word(parser, "--price-core", "PRICE", text, type=price)
    _path(parser, "--workload", "FILE", "a pipeline to be placed, as in workloads/")
    _flag(parser, "--measure", "measure this host first, which takes about a minute")
    _word(parser, "--data", "PATH", "measure this host on that file or directory first")
    text = "write what to do as a placement file, for --placement-file of other verbs"
    _path(parser, "--placement-out", "FILE", text)
    text = "what the placement file calls the --card (default: its emulation)"
    _word(parser, "--device", "NAME", text)
    _flag(parser, "--explain", "show each size of buffers, and what each verdict rests on")
    _json(parser)


def _compare(parser: Parser) -> None:
    _existing_run(parser, "before", "A", _RUN)
    _existing_run(parser, "after", "B", "another one (default: @)", nargs="?", default="@")
    text = "the relative difference that counts as a change (default: the box's, or 0.05)"
    _word(
        parser,
        "--threshold",
        "SHARE",
        text,
        type=_number("a share like 0.05 or 5%", 0, 10, "share"),
    )
    text = "compare this metric; can be repeated (default: those that the box asks for)"
    _several(parser, "--metric", "NAME", text)
    _flag(parser, "--all", "show every figure, not only what changed")
    _flag(parser, "--strict", "exit with 103 if a verdict is ambiguous")
    text = "compare figures of different provenance, or modes of the card, too"
    _flag(parser, "--across", text)
    text = "write the whole comparison as a page or as Markdown into B"
    parser.add_argument("--format", choices=("html", "md"), help=text)
    _word(parser, "--out", "FILE", "write it there instead; - for stdout", type=Path)
    _json(parser)


def _audit(parser: Parser) -> None:
    text = "only plant mistakes; do not run anything twice (a second instead of about fifteen)"
    _flag(parser, "--no-noise", text)
    _json(parser)


def _facts(parser: Parser) -> None:
    parser.description = (
        "Search published figures, and compare the model with them.\n\n"
        "  overside facts [WORD ...]      facts and orderings that hold all words\n"
        "  overside facts show ID         one fact, with all that a reader has to know of it\n"
        "  overside facts ask ID          what to type to see the model's answer about it\n"
        "  overside facts check [FIELD]   every figure and ordering beside the model's prediction"
    )
    text = "`show ID`, `check [FIELD]`, or words to search for"
    _word(parser, "words", "WORD", text, nargs="*")
    _json(parser)
    _word(parser, "--paper", "P", "of that study only: coproc, dpbento, ...")
    _word(parser, "--device", "D", "about that device only: bf2, octeon, host")
    parser.add_argument(
        "--use",
        choices=("calibrate", "validate", "context", "all"),
        help="facts for that use only (default: all; of `check` validate, the held-out facts)",
    )
    _word(parser, "--facts", "FILE", "another collection of the same form (YAML, up to 4 MiB)")


def _runs(parser: Parser) -> None:
    _path(parser, "--out", "DIR", "where the runs are (default: %(default)s)", default=RESULTS)
    text = "show the N newest (default: %(default)s)"
    _word(parser, "--last", "N", text, type=_count, default=20)
    _json(parser)


def _clean(parser: Parser) -> None:
    _flag(parser, "--runs", "remove runs only")
    _flag(parser, "--data", "remove made and fetched data only")
    _flag(parser, "--files", "remove unfinished files of killed compress and decompress only")
    _path(parser, "--out", "DIR", "where the runs are (default: %(default)s)", default=RESULTS)
    text = "look for unfinished files in DIR and below it (default: the current directory)"
    _path(parser, "--below", "DIR", text, default=Path())
    days = _number("a number of days", -1e-9, 100_000)
    _word(parser, "--older-than", "DAYS", "remove only what is older", type=days, default=0.0)
    _flag(parser, "--yes", "do not ask")
    _json(parser)


def _data(parser: Parser) -> None:
    from overside.data.silesia import URL  # noqa: PLC0415 (other verbs need nothing of it)

    verbs = _actions(parser)
    for name, text in {
        "list": "show all data sets: which are here, and how to get the others",
        "make": "make data sets from a seed",
        "fetch": "download the Silesia corpus, or resume a download that was broken off",
        "verify": "read data sets again and compare them with their digests",
    }.items():
        sub = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        _json(sub, "print JSON to stdout")
        if name != "fetch":
            sub.add_argument("--seed", type=int, default=0, help="seed of made data (default: 0)")
        if name == "make":
            sub.add_argument("names", nargs="+", metavar="NAME")
            _flag(sub, "--again", "make it again even if it exists")
        elif name == "fetch":
            sub.add_argument("name", nargs="?", default="silesia", metavar="NAME")
            sub.add_argument(
                "--url", default=URL, help=f"download from this address (default: {URL})"
            )
        elif name == "verify":
            _word(
                sub,
                "names",
                "NAME",
                "data sets to read again (default: all that are here)",
                nargs="*",
            )


def _plugin(parser: Parser) -> None:
    actions = _actions(parser)
    new = actions.add_parser("new", help="write a plug-in that works, to be changed")
    _word(new, "name", "NAME", "what boxes call it")
    new.add_argument(
        "--dir", type=Path, default=Path(), help="make its folder in this directory (default: .)"
    )
    check = actions.add_parser("check", help="exercise a plug-in and say what is wrong with it")
    _path(check, "folder", "DIR", "the plug-in's folder")
    seconds = _seconds(0, 86_400)
    text = "seconds that one call of run may take (default: %(default)g)"
    _word(check, "--timeout", "S", text, type=seconds, default=60.0)
    _flag(check, "--allow-scripts", "run it even if it says that it changes this system")
    for action in (new, check):
        _json(action, "print JSON to stdout")


def _simulate(parser: Parser) -> None:
    text = "a file scenario/1, a preset or a scenario; see --list"
    _word(parser, "what", "FILE|NAME", text, nargs="?")
    _several(parser, "--set", "KEY=VALUE[,...]", "set a key; several values are a sweep")
    _word(parser, "--profile", "P", "a profile's name, or a profile file")
    text = (
        "this machine's costs as a run measured them, or a profile file; for kv also a run of box "
        "kv-stages, or what `overside kv profile --json` printed"
    )
    _existing_run(parser, "--from", "RUN", text, dest="from_file")
    _flag(parser, "--list", "list scenarios and presets, or with NAME a scenario's keys")
    _flag(parser, "--explain", "list all that is unknown, and the published facts behind it")
    _json(parser)


def _profile(parser: Parser) -> None:
    actions = _actions(parser)
    file = "a profile's name, or the path of its file"
    listed = actions.add_parser("list", help="list profiles")
    show = actions.add_parser("show", help="show what a profile says and what it does not")
    _word(show, "name", "NAME", file)
    diff = actions.add_parser("diff", help="compare two profiles value by value")
    _word(diff, "a", "A", file)
    _word(diff, "b", "B", "another")
    check = actions.add_parser("check", help="say all that is wrong with files of profiles")
    _word(check, "files", "FILE", "a profile's file", nargs="+")
    write = actions.add_parser("from-run", help="write a profile from a run's samples")
    _existing_run(write, "run", "RUN", "the run's directory")
    _word(write, "--device", "D", "device of the run to describe")
    _path(write, "--out", "FILE", "file to write (default: stdout)")
    _word(write, "--name", "NAME", "name of the profile (default: that of FILE, or of the device)")
    parameters = actions.add_parser("parameters", help="list what profiles may say")
    for action in (listed, show, diff, check, write, parameters):
        _json(action)


def _calibrate(parser: Parser) -> None:
    _word(
        parser, "--device", "D", "device to measure; `overside devices` lists them (default: cpu)"
    )
    _path(parser, "--out", "FILE", "file to write (default: NAME.toml)")
    _word(parser, "--name", "NAME", "name of the profile (default: that of FILE, or of D)")
    text = "measure for about T, as in 90s, 10min, 1h (default: 10min)"
    _word(parser, "--time", "T", text, type=_seconds(1 - 1e-9, 86_400), default=600.0)
    text = "measure OP, as in compress-deflate; may be repeated (default: the usual ones)"
    _several(parser, "--operation", "OP", text)
    _flag(parser, "--quick", "try it: a few seconds, wide intervals")
    _word(
        parser,
        "--network",
        "DEST",
        "measure what copies by D cost a stream of traffic to DEST as well: an agent of "
        "`overside agents list`",
    )
    _flag(parser, "--no-memory", "do not measure memory")
    _path(parser, "--results", "DIR", "keep the run in DIR (default: %(default)s)", default=RESULTS)
    _existing_run(parser, "--resume", "RUN", "resume a calibration that was stopped")
    _json(parser, "print what was written as JSON")


def _flow(parser: Parser) -> None:
    serve = _actions(parser).add_parser(
        "serve-table",
        help="serve tables by Arrow Flight SQL",
        description="Serve Parquet and Arrow files as tables by Arrow Flight SQL, read-only.",
    )
    text = "a table's name in SQL, and its file, or its directory of files"
    _word(serve, "tables", "NAME=PATH", text, nargs="+", type=_table)
    text = "IP address to listen at, with or without a port (default: 127.0.0.1:31337)"
    _word(serve, "--listen", "ADDRESS", text, type=_address, default=("127.0.0.1", 31337))
    text = "file whose first line is the password; required where other machines can connect"
    _path(serve, "--password-file", "FILE", text)
    text = "directory with server.pem and server.key, and ca.pem for client certificates"
    _path(serve, "--tls-keys", "DIR", text)
    text = "required: admit only clients with a certificate that ca.pem signed"
    serve.add_argument("--tls-clients", choices=("none", "required"), default="none", help=text)
    text = "memory of all statements together, as in 2GiB (default: half of the machine's)"
    _word(serve, "--memory", "SIZE", text, type=_size("64MiB", "1024TiB"))
    text = "time of a statement until its last row is taken, in seconds (default: %(default)g)"
    seconds = _seconds(0, 86_400)
    _word(serve, "--timeout", "S", text, type=seconds, default=600.0)
    text = "statements at a time; others wait (default: %(default)s)"
    _word(serve, "--statements", "N", text, type=_count, default=8)
    _word(serve, "--threads", "N", "threads of all statements (default: one a core)", type=_count)
    text = "serve metrics for Prometheus at http://ADDRESS/metrics, to anyone who can connect"
    _word(serve, "--metrics", "IP:PORT", text, type=_address)
    text = "on shutdown, wait this long for clients to take their rows (default: %(default)g)"
    seconds = _seconds(-1e-9, 3600)
    _word(serve, "--drain", "S", text, type=seconds, default=10.0)
    _json(serve, "print the address as JSON")


def _fleet(parser: Parser) -> None:
    run = _actions(parser).add_parser(
        "run",
        help="run a box on machines of a Ray cluster at once",
        description="Run a box on machines of a Ray cluster at once, and merge what they measured.",
    )
    _word(run, "box", "BOX", "a box's path, or the name of a ready-made one")
    text = "only machines with this resource of Ray's, or with this label, as KEY=VALUE"
    _word(run, "--label", "LABEL", text)
    text = (
        "the cluster: HOST:PORT, or auto for the one this machine is part of (default: %(default)s)"
    )
    _word(run, "--ray-address", "ADDRESS", text, default="auto")
    _selection(run)
    text = "make the run's directory in DIR (default: %(default)s)"
    _path(run, "--out", "DIR", text, default=RESULTS)
    _json(run, "print the run as JSON to stdout")
    _word(run, "--seed", "N", "override the box's seed", type=_seed)
    text = "each machine measures for at most S seconds, overriding the box's max_s"
    seconds = _seconds(0, 604_800)
    _word(run, "--timeout", "S", text, type=seconds)
    text = "run scripts and plug-ins that may change the machines"
    _flag(run, "--allow-scripts", text)


def _table(text: str) -> tuple[str, Path]:
    """`name=path`."""
    name, equals, path = text.partition("=")
    if not (equals and path and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=PATH with a name of letters, digits and _"
        )
    return name, Path(path)


def _address(text: str) -> tuple[str, int]:
    """`IP`, `IP:PORT` or `[IP]:PORT`."""
    host, _, port = (text, "", "31337") if _is_ip(text) else text.rpartition(":")
    if not (_is_ip(host) and re.fullmatch(r"[0-9]{1,5}", port) and int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address like 127.0.0.1:31337")
    return host.strip("[]"), int(port)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _size(least: str, most: str) -> Callable[[str], int]:
    """Reads `512MiB` or a number of bytes, between two sizes."""
    low, high = (amounts.number(end, "bytes") or 0 for end in (least, most))

    def read(text: str) -> int:
        size = int(text) if re.fullmatch(r"[0-9]{1,16}", text) else amounts.number(text, "bytes")
        if not isinstance(size, int) or not low <= size <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a size from {least} to {most}")
        return size

    return read


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1024")
    return int(text)


#: What the verbs do, in one line, and what adds their arguments.
VERBS: Mapping[str, tuple[str, Callable[[Parser], None]]] = {
    "doctor": ("Find what this machine lacks and what makes it noisy, with fixes", _json),
    "list": ("List tasks, variants, boxes, profiles or data sets", _list),
    "validate": ("Check a box", _validate),
    "plan": ("Show a box's tests and their time without running", _plan),
    "run": ("Run a box and write its report", _run),
    "runs": ("List runs, the newest first", _runs),
    "report": ("Write a run's report, or print its summary", _report),
    "advise": ("Recommend what to run where, from measured and published figures", _advise),
    "compare": ("Compare two runs test by test", _compare),
    "audit": ("Check that the harness catches planted errors, and measure its noise", _audit),
    "facts": ("Search published figures, and compare the model with them", _facts),
    "clean": ("Remove leftovers of runs, data sets and killed compressors", _clean),
    "data": ("List, make, fetch or verify data sets", _data),
    "plugin": ("Create a plug-in", _plugin),
    "simulate": ("Model a scenario: throughput, latency, cores, bottleneck", _simulate),
    "profile": ("Show, compare, check or write device profiles", _profile),
    "calibrate": (
        "Measure what the model needs to know of a device, and write its profile",
        _calibrate,
    ),
    "flow": ("Partition, repack, make and serve Arrow tables", _flow),
    "fleet": ("Run a box on the machines of a Ray cluster at once", _fleet),
}
