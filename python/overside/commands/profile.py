"""Show, compare, check or write profiles of devices."""

from __future__ import annotations

import json
import re
import sys

from overside import _core
from overside.bench import statistics, store
from overside.calibration import figures
from overside.commands import Arguments, output
from overside.commands import profile_text as text
from overside.errors import Exit, as_user_error
from overside.tasks.common import Json


def main(args: Arguments) -> int:
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
    remedy = "`overside profile list` lists them; a path ends in .toml"
    with as_user_error("", ValueError, remedy=remedy):
        found: Json = json.loads(_core.profile_show(name))
    return found


def read_profiles() -> list[Json]:
    """All profiles.

    Raises `UserError` if one is not valid.
    """
    remedy = "fix the file, or name another directory with OVERSIDE_PROFILES"
    with as_user_error("the profiles cannot be read", ValueError, remedy=remedy):
        profiles: list[Json] = json.loads(_core.profiles())
    return profiles


def _list(args: Arguments) -> int:
    profiles = read_profiles()
    rows = [
        {name: one[name] for name in ("name", "card", "host_link", "mode")}
        | {"provenance": one.get("provenance", "published")}
        | {"emulated": bool(one.get("operations"))}
        for one in profiles
    ]
    output.answer(args.json, "profiles/1", {"profiles": rows}, lambda: text.listed(profiles))
    return 0


def _show(args: Arguments) -> int:
    found = shown(args.name)
    output.answer(args.json, "profile-values/1", found, lambda: text.shown(found))
    return 0


def _diff(args: Arguments) -> int:
    rows = text.differences(shown(args.a), shown(args.b))
    form, values = "profile-differences/1", {"values": rows}
    output.answer(args.json, form, values, lambda: text.compared(rows, args.a, args.b))
    return 0


def _check(args: Arguments) -> int:
    answers: list[Json] = [json.loads(_core.profile_check(name)) for name in args.files]
    lines = "\n".join(map(text.checked, answers))
    output.answer(args.json, "profile-check/1", {"profiles": answers}, lambda: lines)
    return Exit.OK if all(answer["valid"] for answer in answers) else Exit.USAGE


def _from_run(args: Arguments) -> int:
    view = statistics.load_run(args.run)
    name = args.name or (args.out.stem if args.out is not None else None)
    device = figures.device_of(view, args.device)
    name = name or re.sub(r"[^a-z0-9-]+", "-", device.lower()).strip("-") + "-measured"
    form = figures.profile(view, device, name)
    with as_user_error(f"the figures of {args.run} make no profile", ValueError):
        toml = _core.profile_toml(json.dumps(form))
    if args.out is None:
        if args.json:
            output.document("profile-form/1", **form)
        else:
            print(toml, end="")
        return 0
    with as_user_error(f"cannot write {args.out}", OSError, remedy="choose another --out"):
        store.write_atomically(args.out, toml)
    if args.json:
        output.document("profile-written/1", profile=name, file=str(args.out))
    else:
        print(f"profile {name}: {args.out}", file=sys.stderr)
    return 0


def _parameters(args: Arguments) -> int:
    known: list[Json] = json.loads(_core.parameters())
    form, values = "profile-parameters/1", {"parameters": known}
    output.answer(args.json, form, values, lambda: text.parameters(known))
    return 0
