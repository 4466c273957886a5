"""Answer a scenario with the model, as intervals with the facts they rest on."""

from __future__ import annotations

import argparse
import json
import signal
from pathlib import Path

from overside import _core, strict_json
from overside.advise import File
from overside.commands import output, table
from overside.errors import Exit, UserError, unknown
from overside.measured import profile_of
from overside.report import formatting
from overside.tasks.common import Json

#: The scenario whose costs were measured.
MEASURED = "kv-stages"
#: The most figures without a prediction that are named; `--explain` names all.
MISSING_MAX = 3
#: Parameters that change a figure by less than this are not named.
_NAMED_FROM = 1.02


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    if args.list:
        return _list(args)
    if args.what is None:
        raise UserError("no scenario was named", "`overside simulate --list` shows what there is")
    report = _report(args)
    if args.json:
        output.document("simulation/1", **report)
    else:
        _print(report, explain=args.explain)
    return Exit.OK


def _report(args: argparse.Namespace) -> Json:
    what, text = args.what, None
    if _is_file_name(what):
        text = File.read(Path(what)).text
    profile = None
    if args.profile is not None:
        is_file = _is_file_name(args.profile)
        profile = (args.profile, File.read(Path(args.profile)).text if is_file else None)
    settings = [_setting(words) for words in args.set]
    machine = None
    if args.from_file is not None:
        if args.from_file.is_dir() or args.from_file.suffix == ".toml":
            machine = profile_of(args.from_file)
        else:
            what, settings = _from_profile(what, args.from_file, settings)
    # A long simulation is native code, which would not notice an interrupt before its end.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        report: Json = json.loads(_core.simulate(what, text, settings, profile, machine))
    except ValueError as error:
        raise UserError(
            str(error), "`overside simulate --list NAME` shows a scenario's keys"
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)
    return report


def _from_profile(
    what: str, path: Path, settings: list[tuple[str, str]]
) -> tuple[str, list[tuple[str, str]]]:
    """The scenario of measured stages, with what `overside kv profile --json` printed; what was
    set stays."""
    if what not in ("kv", MEASURED):
        raise UserError(
            f"{path} is neither a run nor a profile, and {what} reads no other file",
            f"--from RUN; `simulate {MEASURED}` reads what `overside kv profile --json` prints",
        )
    try:
        measured = costs(strict_json.loads(File.read(path, "JSON").text))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise UserError(
            f"{path} is not what `overside kv profile --json` prints: {error!r}",
            "overside kv profile --json > profile.json",
        ) from None
    given = {key for key, _ in settings}
    return MEASURED, [*(pair for pair in measured.items() if pair[0] not in given), *settings]


def costs(profile: Json) -> dict[str, str]:
    """The keys of the scenario that a profile sets.

    The doubt is how far the throughput of a window was from that of the median one. Raises
    `LookupError` and the like where something is missing or of another kind.
    """
    stages = {name: stage["ns_per_command"] for name, stage in profile["stages"].items()}
    link = profile["link"]
    keys = {
        **stages,
        "link_communication": link["communication_ns_per_command"],
        "link_processing": link["processing_ns_per_command"],
        "client": profile["client_ns_per_command"],
    }
    rate = profile["requests_per_s"]
    doubt = max(rate["max"] / rate["median"], rate["median"] / rate["min"]) - 1.0
    return {
        **{key: f"{float(value):.6g} ns" for key, value in keys.items()},
        "doubt": f"{min(1000.0, 100.0 * doubt):.3g} %",
        "in_flight": str(int(profile["connections"]) * int(profile["pipeline"])),
        "keys": str(int(profile["records"])),
        "client_cores": str(int(profile["threads"])),
    }


def _is_file_name(word: str) -> bool:
    return word.endswith(".toml") or "/" in word


def _setting(words: str) -> tuple[str, str]:
    key, sign, value = words.partition("=")
    if not (key.strip() and sign and value.strip()):
        raise UserError(f"--set {words!r} is not KEY=VALUE", "as in --set cores=1,2,4")
    return key.strip(), value


def _list(args: argparse.Namespace) -> int:
    known = json.loads(_core.scenarios())
    if args.what is None:
        if args.json:
            output.document("scenarios/1", **known)
            return Exit.OK
        rows = [[one["name"], one["about"]] for one in known["scenarios"]]
        print(table.text(["scenario", ""], rows))
        if known["presets"]:
            rows = [[one["name"], one["about"]] for one in known["presets"]]
            print("\n" + table.text(["preset", ""], rows))
        print("\n`overside simulate --list SCENARIO` shows its keys.")
        return Exit.OK
    names = {one["name"]: one["scenario"] for one in known["presets"]}
    name = names.get(args.what, args.what)
    scenario = next((one for one in known["scenarios"] if one["name"] == name), None)
    if scenario is None:
        every = [one["name"] for one in known["scenarios"]]
        raise unknown("scenario", args.what, every, also=list(names))
    if args.json:
        output.document("scenario-keys/1", **scenario)
        return Exit.OK
    print(f"{scenario['name']}: {scenario['about']}\n")
    rows = [
        [key["name"], key["default"] or "-", key["allowed"], key["about"]]
        for key in scenario["keys"]
    ]
    print(table.text(["key", "default", "allowed", ""], rows))
    return Exit.OK


def _print(report: Json, *, explain: bool) -> None:
    """Prints a report for people; with `explain` all that is missing, and what it rests on."""
    print(f"{report['scenario']}: {report['about']}")
    print("modelled, not measured: each figure is typical (from lowest to highest)\n")
    if report["common"]:
        print(", ".join(f"{key} {value}" for key, value in report["common"].items()) + "\n")
    head, rows = _columns(report["rows"])
    print(table.text(head, rows))
    for note in report["notes"]:
        print(f"\nNote: {note.rstrip('.')}.")
    _print_dominating(report["rows"])
    missing, facts = report["missing"], report["facts"]
    shown = missing if explain else missing[:MISSING_MAX]
    if shown:
        print("\nNo prediction:")
        for one in shown:
            print(f"  {one['figure']}: {one['why']}; {one['remedy']}")
    if len(shown) < len(missing):
        print(f"  and {len(missing) - len(shown)} more: --explain lists them")
    if facts and explain:
        print("\nRests on:")
        for fact, citation in facts.items():
            print(f"  {fact}: {citation}")
    elif facts:
        what = "fact" if any(fact.startswith("run.") for fact in facts) else "published fact"
        print(f"\nRests on {formatting.plural(len(facts), what)}: --explain lists them.")


def _figures(row: Json) -> list[Json]:
    standing = [row["throughput"], row["latency"], row["host_cores"]]
    return [figure for figure in [*standing, *row["more"]] if figure is not None]


def _columns(rows: list[Json]) -> tuple[list[str], list[list[str]]]:
    """A column for each label and figure that any row has."""
    labels = list(dict.fromkeys(key for row in rows for key, _ in row["labels"]))
    figures = list(
        dict.fromkeys((one["name"], one["unit"]) for row in rows for one in _figures(row))
    )
    head = [*labels, *(f"{name}, {unit}" if unit else name for name, unit in figures)]
    head += ["method", "bottleneck"]
    lines = []
    for row in rows:
        own = dict(row["labels"])
        shown = {(one["name"], one["unit"]): _interval(one) for one in _figures(row)}
        lines.append(
            [
                *(own.get(label, "-") for label in labels),
                *(shown.get(figure, "-") for figure in figures),
                row["method"],
                row["bottleneck"] or "-",
            ]
        )
    return head, lines


def _interval(figure: Json) -> str:
    if "no_prediction" in figure:
        return "no prediction"
    typ = _core.number(figure["typ"])
    if figure["low"] == figure["high"]:
        return typ
    return f"{typ} ({_core.number(figure['low'])} to {_core.number(figure['high'])})"


def _print_dominating(rows: list[Json]) -> None:
    """Names the parameters whose doubt moves a figure most."""
    most: dict[str, float] = {}
    for row in rows:
        for figure in _figures(row):
            for influence in figure.get("influences", []):
                name, factor = influence["parameter"], influence["factor"]
                most[name] = max(most.get(name, 1.0), factor)
    named: list[tuple[str, float]] = sorted(most.items(), key=lambda item: -item[1])
    named = [(name, factor) for name, factor in named if factor >= _NAMED_FROM][:5]
    if named:
        text = ", ".join(f"{name} (x{factor:.2f})" for name, factor in named)
        print(f"\nThe doubt about these parameters moves a figure most: {text}.")
