"""Answer a scenario with the model, as intervals with the facts they rest on."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from overside import _core, screen, strict_json
from overside.advise import File
from overside.bench.statistics import RunView, TestSummary, load_run
from overside.commands import Arguments, output, table
from overside.errors import Exit, UserError, as_user_error, unknown
from overside.measured import profile_of
from overside.report import break_even, formatting
from overside.tasks.common import Json
from overside.verdict import scenario

#: The scenario whose costs were measured.
MEASURED = "kv-stages"
#: Stages of a store by which its time is measured, and the costs that a link would add on each
#: side.
STAGES = ("receive", "parse", "process", "persist", "respond", "other")
LINK = ("link_communication", "link_processing")
#: Line above the table.
TYPICAL = "each figure is typical (from lowest to highest)"
METHODS = {"closed-form": "formulas", "simulated": "simulation"}
#: The figures that have a column without `--explain`: at most, and at least on narrow terminals.
FIGURES_MAX, FIGURES_MIN = 5, 3
#: The most figures without a prediction that are named; `--explain` names all.
MISSING_MAX = 3
#: Rounds of a run that say how far one is from the median.
_ROUNDS_MIN = 3
#: Parameters that change a figure by less than this are not named.
_NAMED_FROM = 1.02


def main(args: Arguments) -> int:
    """Runs the verb."""
    if args.list:
        return _list(args)
    if args.what is None:
        raise UserError("no scenario was named", "`overside simulate --list` shows what there is")
    report = _report(args)
    if args.json:
        output.document("simulation/1", **report, verdict=scenario.lines(report))
    else:
        _print(report, explain=args.explain)
    return Exit.OK


def _report(args: Arguments) -> Json:
    what, text = args.what, None
    if _is_file_name(what):
        text = File.read(Path(what)).text
    profile = None
    if args.profile is not None:
        is_file = _is_file_name(args.profile)
        profile = (args.profile, File.read(Path(args.profile)).text if is_file else None)
    settings = [_setting(words) for words in args.set]
    machine = None
    path: Path | None = vars(args)["from"]
    if path is not None:
        is_store = what in ("kv", MEASURED)
        run = load_run(path) if path.is_dir() and is_store else None
        tests = _with_stages(run) if run is not None else []
        if run is not None and not tests and any(test.task == "kv" for test in run.tests):
            raise UserError(
                f"{path} did not measure where the store's time goes",
                "`overside run kv-stages` does, and any run of kv with --set kv.stages=true",
                Exit.NOTHING_SELECTED,
            )
        if run is not None and tests:
            what, settings = MEASURED, _measured(_profile_of(tests, run, settings), settings)
        elif path.is_dir() or path.suffix == ".toml":
            machine = profile_of(path)
        else:
            what, settings = _from_profile(what, path, settings)
    # A long simulation is native code, which would not notice an interrupt before its end.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    remedy = "`overside simulate --list NAME` shows a scenario's keys"
    try:
        with as_user_error("", ValueError, remedy=remedy):
            report: Json = json.loads(_core.simulate(what, text, settings, profile, machine))
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
    return MEASURED, _measured(measured, settings)


def _measured(
    measured: Mapping[str, str], settings: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Returns the measured settings and those of the user; the latter override the former."""
    given = {key for key, _ in settings}
    return [*(pair for pair in measured.items() if pair[0] not in given), *settings]


def _with_stages(run: RunView) -> list[TestSummary]:
    """The tests of a run that measured all stages of a store, in closed loop on this machine."""
    needed = {f"{name}_time" for name in (*STAGES, *LINK, "client")} | {"rate"}
    return [test for test in run.here().tests if test.task == "kv" and needed <= set(test.metrics)]


def _profile_of(
    tests: Sequence[TestSummary], run: RunView, settings: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """The keys that a run sets: of the test with so many requests in flight as is said, or with
    the most."""

    def in_flight(test: TestSummary) -> str:
        return str(test.parameters["connections"] * test.parameters["pipeline"])

    wanted = dict(settings).get("in_flight") or max(map(in_flight, tests), key=int)
    taken = [test for test in tests if in_flight(test) == wanted]
    if len(taken) != 1:
        there = ", ".join(sorted({in_flight(test) for test in tests}, key=int))
        raise UserError(
            f"{run.path} has {formatting.plural(len(taken), 'test')} of stages with {wanted} "
            f"requests in flight (there are {there})",
            "--set in_flight=N names one; tests of `overside run kv-stages` differ in it",
        )
    (test,) = taken

    def ns(name: str) -> Json:
        return {"ns_per_command": test.metrics[f"{name}_time"].median}

    rate = test.metrics["rate"]
    found = costs(
        {
            "stages": {name: ns(name) for name in STAGES},
            "link": {
                f"{side}_ns_per_command": test.metrics[f"link_{side}_time"].median
                for side in ("communication", "processing")
            },
            "client_ns_per_command": test.metrics["client_time"].median,
            "requests_per_s": {"min": rate.minimum, "median": rate.median, "max": rate.maximum},
            **{name: test.parameters[name] for name in ("connections", "pipeline", "records")},
            "threads": test.parameters["threads"],
        }
    )
    if rate.n < _ROUNDS_MIN:
        # The scenario's own is more than so few tell.
        del found["doubt"]
    return found


def costs(profile: Json) -> dict[str, str]:
    """The keys of the scenario that a profile sets.

    The doubt is how far the throughput of a window was from that of the median one. Raises
    `LookupError` and the like where something is missing or of another kind.
    """
    stages = {name: profile["stages"][name]["ns_per_command"] for name in STAGES}
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


def _list(args: Arguments) -> int:
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
    chosen = next((one for one in known["scenarios"] if one["name"] == name), None)
    if chosen is None:
        every = [one["name"] for one in known["scenarios"]]
        raise unknown("scenario", args.what, every, also=list(names))
    if args.json:
        output.document("scenario-keys/1", **chosen)
        return Exit.OK
    print(f"{chosen['name']}: {chosen['about']}\n")
    rows = [
        [
            key["name"],
            key["default"] or "-",
            "a profile" if key["kind"] == "profile" else key["allowed"],
            key["about"],
        ]
        for key in chosen["keys"]
    ]
    print(table.text(["key", "default", "allowed", ""], rows))
    units = {one["name"]: one["unit"] for one in chosen["figures"]}
    named = ", ".join(f"{name} ({unit})" if unit else name for name, unit in units.items())
    print("\n" + screen.wrapped(f"Figures: {named}.", "  "))
    if any(key["kind"] == "profile" for key in chosen["keys"]):
        print("`overside profile list` lists profiles.")
    return Exit.OK


def _print(report: Json, *, explain: bool) -> None:
    """Prints a report for people; with `explain` all that is missing, and what it rests on."""
    for line in scenario.lines(report):
        print(screen.wrapped(line, "  "))
    print("\n" + screen.wrapped(f"{report['scenario']}: {report['about']}", "  "))
    _print_table(report, is_whole=explain)
    for note in report["notes"]:
        print("\n" + screen.wrapped(f"Note: {note.rstrip('.')}.", "  "))
    _print_dominating(report["rows"])
    facts = report["facts"]
    by_reason: dict[str, list[str]] = {}
    for one in report["missing"]:
        by_reason.setdefault(f"{one['why']}; {one['remedy']}", []).append(one["figure"])
    missing = list(by_reason.items())
    shown = missing if explain else missing[:MISSING_MAX]
    if shown:
        print("\nNo prediction:")
        for reason, figures in shown:
            text = f"  {formatting.listing(figures)}: {break_even.with_sizes(reason)}"
            print(screen.wrapped(text, "    "))
    if len(shown) < len(missing):
        print(f"  and {len(missing) - len(shown)} more: --explain lists them")
    if facts and explain:
        print("\nRests on:")
        for fact, citation in facts.items():
            print(f"  {fact}: {citation}")
    elif facts:
        what = "fact" if any(fact.startswith("run.") for fact in facts) else "published fact"
        print(f"\nRests on {formatting.plural(len(facts), what)}: --explain lists them.")


def _print_table(report: Json, *, is_whole: bool) -> None:
    """The rows, and what all of them share; not all figures unless `is_whole`."""
    rows = report["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    how = f" (by {METHODS[methods[0]]})" if len(methods) == 1 else ""
    print(screen.wrapped(f"modelled, not measured{how}: {TYPICAL}") + "\n")
    if report["common"]:
        common = ", ".join(f"{key} {value}" for key, value in report["common"].items())
        print(screen.wrapped(common, "  ") + "\n")
    head, lines, hidden = _columns(rows, None if is_whole else FIGURES_MAX)
    if not is_whole and sys.stdout.isatty():
        # As many figures as there is room for.
        for count in range(FIGURES_MAX, FIGURES_MIN - 1, -1):
            head, lines, hidden = _columns(rows, count)
            if table.width(head, lines) <= screen.columns():
                break
    print(table.text(head, lines))
    if hidden:
        print(f"\n{formatting.plural(hidden, 'more figure')}: --explain shows all.")


def _columns(rows: list[Json], most: int | None) -> tuple[list[str], list[list[str]], int]:
    """A column for each label, and for each figure that half of the rows have, at most `most`, or,
    without a limit, for each that any has; and how many figures are left out."""
    labels = list(dict.fromkeys(key for row in rows for key, _ in row["labels"]))
    counts = Counter((one["name"], one["unit"]) for row in rows for one in scenario.figures(row))
    shared = [one for one, count in counts.items() if most is None or 2 * count >= len(rows)]
    # Where rows share nothing, as a machine's arithmetic and storage, each has its own.
    figures = (shared or list(counts))[:most]
    head = [*labels, *(f"{name}, {unit}" if unit else name for name, unit in figures)]
    # Said above the table where it is the same in all rows.
    by_method = len({row["method"] for row in rows}) > 1
    head += [*(["method"] if by_method else []), "bottleneck"]
    lines = []
    for row in rows:
        own = dict(row["labels"])
        shown = {(one["name"], one["unit"]): _interval(one) for one in scenario.figures(row)}
        lines.append(
            [
                *(own.get(label, "-") for label in labels),
                *(shown.get(figure, "-") for figure in figures),
                *([row["method"]] if by_method else []),
                row["bottleneck"] or "-",
            ]
        )
    return head, lines, len(counts) - len(figures)


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
        for figure in scenario.figures(row):
            for influence in figure.get("influences", []):
                name, factor = influence["parameter"], influence["factor"]
                most[name] = max(most.get(name, 1.0), factor)
    named: list[tuple[str, float]] = sorted(most.items(), key=lambda item: -item[1])
    named = [(name, factor) for name, factor in named if factor >= _NAMED_FROM][:5]
    if named:
        text = ", ".join(f"{name} (x{factor:.2f})" for name, factor in named)
        line = f"The doubt about these parameters moves a figure most: {text}."
        print("\n" + screen.wrapped(line, "  "))
