"""Show, compare, check or write profiles of devices."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from overside.commands import profile_text as text
from overside.errors import Exit, UserError

if TYPE_CHECKING:
    from overside.tasks.common import Json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the verb's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="list profiles")
    show = actions.add_parser("show", help="show what a profile says and what it does not")
    show.add_argument("name", metavar="NAME", help="a profile's name, or the path of its file")
    diff = actions.add_parser("diff", help="compare two profiles value by value")
    diff.add_argument("a", metavar="A", help="a profile's name, or the path of its file")
    diff.add_argument("b", metavar="B", help="another")
    check = actions.add_parser("check", help="say all that is wrong with files of profiles")
    check.add_argument("files", metavar="FILE", nargs="+", help="a profile's file")
    write = actions.add_parser("from-run", help="write a profile from a run's samples")
    write.add_argument("run", metavar="RUN", type=Path, help="the run's directory")
    write.add_argument("--device", metavar="D", help="which device of the run")
    write.add_argument("--out", metavar="FILE", type=Path, help="its file (printed without one)")
    write.add_argument("--name", metavar="NAME", help="its name (as FILE's, or the device's)")
    parameters = actions.add_parser("parameters", help="list what profiles may say")
    for action in (listed, show, diff, check, write, parameters):
        action.add_argument("--json", action="store_true", help="print JSON to stdout")


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    actions = {
        "list": _list,
        "show": _show,
        "diff": _diff,
        "check": _check,
        "from-run": _from_run,
        "parameters": _parameters,
    }
    return actions[args.action](args)


def shown(name: str) -> Json:
    """All that a profile says. Raises `UserError` if there is none, or it cannot be read."""
    from overside import _core  # noqa: PLC0415 (not needed for --help)

    try:
        found: Json = json.loads(_core.profile_show(name))
    except ValueError as error:
        raise UserError(
            str(error), "`overside profile list` lists them; a path ends in .toml"
        ) from None
    return found


def read_profiles() -> list[Json]:
    """All profiles.

    Raises `UserError` if one is not valid.
    """
    from overside import _core  # noqa: PLC0415

    try:
        profiles: list[Json] = json.loads(_core.profiles())
    except ValueError as error:
        raise UserError(
            f"the profiles cannot be read: {error}",
            "mend the file, or name another directory with OVERSIDE_PROFILES",
        ) from None
    return profiles


def _list(args: argparse.Namespace) -> int:
    profiles = read_profiles()
    if args.json:
        rows = [
            {
                "name": one["name"],
                "card": one["card"],
                "host_link": one["host_link"],
                "mode": one["mode"],
                "provenance": one.get("provenance", "published"),
                "emulated": bool(one.get("operations")),
            }
            for one in profiles
        ]
        print(json.dumps(rows, ensure_ascii=False))
    else:
        print(text.listed(profiles))
    return 0


def _show(args: argparse.Namespace) -> int:
    found = shown(args.name)
    print(json.dumps(found, ensure_ascii=False) if args.json else text.shown(found))
    return 0


def _diff(args: argparse.Namespace) -> int:
    rows = text.differences(shown(args.a), shown(args.b))
    if args.json:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        print(text.compared(rows, args.a, args.b))
    return 0


def _check(args: argparse.Namespace) -> int:
    from overside import _core  # noqa: PLC0415

    answers: list[Json] = [json.loads(_core.profile_check(name)) for name in args.files]
    if args.json:
        print(json.dumps(answers, ensure_ascii=False))
    else:
        for answer in answers:
            print(text.checked(answer))
    return Exit.OK if all(answer["valid"] for answer in answers) else Exit.USAGE


def _from_run(args: argparse.Namespace) -> int:
    from overside import _core  # noqa: PLC0415
    from overside.bench import statistics, store  # noqa: PLC0415
    from overside.calibration import figures  # noqa: PLC0415

    view = statistics.load_run(args.run)
    name = args.name or (args.out.stem if args.out is not None else None)
    device = figures.device_of(view, args.device)
    name = name or re.sub(r"[^a-z0-9-]+", "-", device.lower()).strip("-") + "-measured"
    form = figures.profile(view, device, name)
    try:
        toml = _core.profile_toml(json.dumps(form))
    except ValueError as error:
        raise UserError(f"the figures of {args.run} make no profile: {error}") from None
    if args.out is None:
        print(json.dumps(form, ensure_ascii=False) if args.json else toml, end="")
        return 0
    try:
        store.write_atomically(args.out, toml)
    except OSError as error:
        raise UserError(
            f"cannot write {args.out}: {error.strerror}", "choose another --out"
        ) from None
    if args.json:
        print(json.dumps({"profile": name, "file": str(args.out)}))
    else:
        print(f"profile {name}: {args.out}", file=sys.stderr)
    return 0


def _parameters(args: argparse.Namespace) -> int:
    from overside import _core  # noqa: PLC0415

    known: list[Json] = json.loads(_core.parameters())
    print(json.dumps(known, ensure_ascii=False) if args.json else text.parameters(known))
    return 0
