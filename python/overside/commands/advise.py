"""Say what should run where."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from overside import _core, advise, screen, verdict
from overside.advise import Query
from overside.bench import store
from overside.bench.statistics import RunView, load_run
from overside.commands import Arguments, output
from overside.errors import Exit, UserError, as_user_error
from overside.report import formatting, terminal, view_model
from overside.report.advice import in_words
from overside.verdict import RunVerdict


def main(args: Arguments) -> int:
    """Runs the verb."""
    query = _query(args)
    path = _run(args, query)
    view = load_run(path) if path is not None else None
    if view is not None and view.is_merged:
        raise UserError(
            f"{path} was merged from runs of several machines",
            f"advise by the run of one of them: --run {path}/runs/{min(view.nodes)}",
        )
    if view is not None:
        view = view.here()
    question = advise.narrowed(advise.question(view), query)
    if not question["measured"]:
        raise UserError(
            f"{path} measured nothing that advice can be given on",
            "`overside run quick` measures this host",
            Exit.NOTHING_SELECTED,
        )
    if args.rate is not None:
        prices = {"card": args.price_card, "core_hour": args.price_core}
        query = replace(query, workload=_at_rate(args.rate, question, prices))
    advice = advise.answer(view, query)
    if view is None:
        found = verdict.of_published(query, advice)
    else:
        found = verdict.of_run(view, query, advice)
        _remember(view.path, query)
    target, device = _target(args, advice)
    if args.placement_out is not None:
        text = _head(path, target, device)
        text += advise.placement_file(advice, question, target, device)
        store.write_output(args.placement_out, text)
    if args.json:
        about: dict[str, Any] = {"run": None if path is None else str(path)}
        if args.placement_out is not None:
            about["placement_file"] = str(args.placement_out)
        output.document("advice/1", **{"verdict": found.json()} | advice | about)
    else:
        source, is_measured = _source(view, question, query), view is not None
        _print(source, found, advice, is_measured=is_measured, explain=args.explain)
        if path is not None:
            _say(f"`overside report {path}` shows this as a page")
        if args.placement_out is not None:
            to = device or "the CPU alone"
            _say(f"placements for {to}: {args.placement_out}")
    return Exit.OK


def _query(args: Arguments) -> Query:
    if args.run is not None and (args.measure or args.data is not None):
        raise UserError("--run is measured already", "leave out --measure and --data")
    if args.device is not None and args.placement_out is None:
        raise UserError("--device goes into the placement file", "add --placement-out FILE")
    if args.rate is not None and args.workload is not None:
        raise UserError("a workload says its rate itself", "leave out --rate, or --workload")
    if args.rate is None and (args.price_card is not None or args.price_core is not None):
        remedy = "add --rate, or put [prices] into the --workload"
        raise UserError("prices are compared at a rate", remedy)
    files = tuple(advise.File.read(Path(name)) for name in args.card if _is_path(name))
    names = tuple(name for name in args.card if not _is_path(name))
    workload = advise.File.read(args.workload) if args.workload is not None else None
    with as_user_error("", ValueError, remedy="`overside profile check` says what is wrong"):
        chosen = names if args.card else advise.default_profiles()
    query = advise.Query(chosen, files, workload, tuple(args.operation), args.size)
    # What is wrong with any of it is said before anything is measured.
    advise.check(query)
    return query


def _at_rate(
    rate: str, question: dict[str, Any], prices: Mapping[str, float | None]
) -> advise.File:
    """The workload that is one operation at a rate, with those prices that are given.

    Raises `UserError` where it is not clear which.
    """
    names = list(dict.fromkeys(one["operation"] for one in question["measured"]))
    if len(names) != 1:
        raise UserError(
            f"--rate is of one operation, and there are {', '.join(names)}",
            f"add --operation {names[0]}",
        )
    one = question["measured"][0]
    patterns = f"patterns = {json.dumps(one['patterns'])}\n" if one["patterns"] else ""
    level = f"level = {one['level']}\n" if one.get("level") is not None else ""
    buffer = question["buffer_bytes"] or one["cpu"][-1]["bytes"]
    text = (
        f'schema = "workload/1"\nname = {json.dumps(one["title"])}\nrate = {json.dumps(rate)}\n'
        f'buffer = "{buffer} B"\n[[stages]]\ndo = "{names[0]}"\n{level}{patterns}'
    )
    given = [f"{name} = {price}\n" for name, price in prices.items() if price is not None]
    if given:
        text += f"[prices]\n{''.join(given)}"
    return advise.File("--rate", text)


def _is_path(name: str) -> bool:
    return name.endswith(".toml") or os.sep in name


def _run(args: Arguments, query: Query) -> Path | None:
    """The run to advise by; `None`: by published figures."""
    if args.run is not None:
        return Path(args.run)
    if args.measure or args.data is not None:
        _say("measuring this host, which takes about a minute")
        return advise.measure(args.out, args.data, query.workload, ["overside", *sys.argv[1:]])
    found = advise.newest(args.out)
    if found is not None:
        _say(f"newest run: {found}")
    return found


def _source(view: RunView | None, question: dict[str, Any], query: Query) -> str:
    """Returns the source of the CPU's rates, in words."""
    if view is not None:
        return f"from the run of {view_model.title(view)}"
    workload = query.workload
    asked = json.loads(_core.workload(workload.name, workload.text))["cores"] if workload else None
    cores = formatting.plural(asked or question["host"]["threads"], "core")
    whose = "of the workload's host" if asked else "of this host"
    return f"from published rates of another host's cores, for the {cores} {whose}: not measured"


def _remember(path: Path, query: Query) -> None:
    """Keeps what was asked beside the run. That it cannot be written changes no answer."""
    try:
        store.write_atomically(path / advise.QUERY_FILE, json.dumps(query.json()))
    except OSError as error:
        _say(f"{path} cannot be written ({error.strerror}): its report will not show this workload")


def _target(args: Arguments, advice: dict[str, Any]) -> tuple[str | None, str | None]:
    """Returns the target whose advice the placement file has, and the name of its device there.

    Both are `None` if no device was measured and no card was chosen.
    """
    targets = [target for one in advice["operations"] for target in one["targets"]]
    measured = next((t["name"] for t in targets if t["provenance"] == "measured"), None)
    if measured is not None:
        return measured, args.device or measured
    modelled = sorted({t["name"] for t in targets if t["provenance"] == "modelled"})
    if len(modelled) == 1 and args.card:
        return modelled[0], args.device or f"emulated:{modelled[0]}"
    if args.device is not None:
        raise UserError("--device NAME is which card?", "give one --card")
    return None, None


def _head(path: Path | None, target: str | None, device: str | None) -> str:
    """Returns the comment at the top of the placement file: the sources of its rules."""
    source = "published figures of another host" if path is None else f"the run {path.name}"
    lines = [f"Made by `overside advise` from {source}."]
    if target is None:
        lines += ["No device was measured and no card chosen (--card): all stays on the CPU."]
    elif device == target:
        lines += [f"{device} was measured in that run."]
    else:
        lines += [f"Modelled from the published profile {target}; not measured on such a card."]
    if device is not None and device.startswith("emulated:"):
        lines += ["The device is emulated: it shows how a card would be used, and saves nothing."]
    lines += ["Sizes are bytes of inputs. What no rule speaks of runs on the CPU."]

    return "".join(f"# {formatting.clean(line, 300)}\n" for line in lines)


def _print(
    source: str,
    found: RunVerdict,
    advice: dict[str, Any],
    *,
    is_measured: bool,
    explain: bool,
) -> None:
    width, colour = screen.columns(), screen.has_colour(sys.stdout)
    said = in_words(advice)
    if not is_measured:
        said["next"] = said["next"] or "`--measure` measures this host's cores"
    print(terminal.advice(source, found, said, width=width, colour=colour, explain=explain), end="")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
