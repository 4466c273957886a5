"""Say what should run where."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from overside import advise, screen, verdict
from overside.advise import Query
from overside.bench import store
from overside.bench.statistics import RunView, load_run
from overside.commands import output
from overside.errors import Exit, UserError
from overside.report import formatting, terminal
from overside.report.advice import in_words
from overside.verdict import RunVerdict


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    query = _query(args)
    path = _run(args, query)
    view = load_run(path)
    if view.nodes:
        raise UserError(
            f"{path} was merged from runs of several machines",
            f"advise by the run of one of them: --run {path}/runs/{min(view.nodes)}",
        )
    question = advise.question(view)
    if not question["measured"]:
        raise UserError(
            f"{path} measured nothing that advice can be given on",
            "`overside run quick` measures this host",
            Exit.NOTHING_SELECTED,
        )
    advice = advise.answer(view, query)
    _remember(path, query)
    found = verdict.of_run(view, query, advice)
    target, device = _target(args, advice)
    text = ""
    if args.placement_out is not None:
        text = _head(path, target, device)
        text += advise.placement_file(advice, question, target, device)
        store.write_output(args.placement_out, text)
    if args.json:
        about: dict[str, Any] = {"run": str(path)}
        if args.placement_out is not None:
            about["placement_file"] = str(args.placement_out)
        output.document("advice/1", **{"verdict": found.json()} | advice | about)
    else:
        _print(view, found, advice, explain=args.explain)
        _say(f"`overside report {path}` shows this as a page")
        if args.placement_out is not None:
            to = device or "the CPU alone"
            _say(f"placements for {to}: {args.placement_out}")
    return Exit.OK


def _query(args: argparse.Namespace) -> Query:
    if args.data is not None and args.run is not None:
        raise UserError("--data measures and --run is measured already", "give one of the two")
    if args.device is not None and args.placement_out is None:
        raise UserError("--device goes into the placement file", "add --placement-out FILE")
    files = tuple(advise.File.read(Path(name)) for name in args.profile if _is_path(name))
    names = tuple(name for name in args.profile if not _is_path(name))
    workload = advise.File.read(args.workload) if args.workload is not None else None
    try:
        chosen = names if args.profile else advise.default_profiles()
    except ValueError as error:
        raise UserError(str(error), "`overside profile check` says what is wrong") from None
    query = advise.Query(chosen, files, workload)
    # What is wrong with any of it is said before anything is measured.
    advise.check(query)
    return query


def _is_path(name: str) -> bool:
    return name.endswith(".toml") or os.sep in name


def _run(args: argparse.Namespace, query: Query) -> Path:
    if args.run is not None:
        return Path(args.run)
    found = advise.newest(args.out) if args.data is None else None
    if found is not None:
        _say(f"by the newest run, {found}")
        return found
    _say("measuring this host, which takes about a minute")
    return advise.measure(args.out, args.data, query.workload, ["overside", *sys.argv[1:]])


def _remember(path: Path, query: Query) -> None:
    """Keeps what was asked beside the run. That it cannot be written changes no answer."""
    try:
        store.write_atomically(path / advise.QUERY_FILE, json.dumps(query.json()))
    except OSError as error:
        _say(f"{path} cannot be written ({error.strerror}): its report will not show this workload")


def _target(args: argparse.Namespace, advice: dict[str, Any]) -> tuple[str | None, str | None]:
    """Whose advice the placement file holds, and what the device is called in it."""
    targets = [target for one in advice["operations"] for target in one["targets"]]
    measured = next((t["name"] for t in targets if t["provenance"] == "measured"), None)
    if measured is not None:
        return measured, args.device or measured
    modelled = sorted({t["name"] for t in targets if t["provenance"] == "modelled"})
    if len(modelled) == 1 and args.profile:
        return modelled[0], args.device or f"emulated:{modelled[0]}"
    if args.device is not None:
        raise UserError("--device NAME is which card?", "give one --profile")
    return None, None


def _head(path: Path, target: str | None, device: str | None) -> str:
    """What a reader of the placement file has to know."""
    lines = [f"Made by `overside advise` from the run {path.name}."]
    if target is None:
        lines += ["No device was measured and no card chosen (--profile): all stays on the CPU."]
    elif device == target:
        lines += [f"{device} was measured in that run."]
    else:
        lines += [f"Modelled from the published profile {target}; not measured on such a card."]
    if device is not None and device.startswith("emulated:"):
        lines += ["The device is emulated: it shows how a card would be used, and saves nothing."]
    lines += ["Sizes are bytes of inputs. What no rule speaks of runs on the CPU."]

    return "".join(f"# {formatting.clean(line, 300)}\n" for line in lines)


def _print(view: RunView, found: RunVerdict, advice: dict[str, Any], *, explain: bool) -> None:
    width, colour = screen.columns(), screen.has_colour(sys.stdout)
    said = in_words(advice)
    print(terminal.advice(view, found, said, width=width, colour=colour, explain=explain), end="")


def _say(text: str) -> None:
    print(text, file=sys.stderr)
