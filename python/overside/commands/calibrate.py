"""Measure what the model needs of a device, and write its profile."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

from overside import _core, strict_json
from overside.bench import box, launch, plan, statistics, store
from overside.bench.launch import Launch
from overside.bench.runner import Runner
from overside.calibration import figures, memory, writing
from overside.calibration import plan as calibration
from overside.commands import Arguments, output
from overside.errors import Exit, UserError, as_user_error
from overside.tasks.common import Json, Machine

#: File of a calibration in the run's directory: the arguments, and the rounds of the memory's
#: figures.
STATE = "calibration.json"
#: The share of the time that measuring memory gets, and the rounds it is measured in.
_MEMORY_SHARE, _MEMORY_ROUNDS = 0.15, 6
_QUICK_S = 8.0


def main(args: Arguments) -> int:
    """Runs the verb."""
    here = box.machine()
    if args.resume is not None:
        launch, state = _resumed(args, here)
    else:
        launch, state = _begun(args, here)
    with launch.run:
        code = _measure(args, launch, state)
    return _write(args, launch.run.path, state, here, code)


def _begun(args: Arguments, here: Machine) -> tuple[Launch, Json]:
    device = args.device or "cpu"
    out, name = _target(args, device)
    time_s = min(args.time, _QUICK_S) if args.quick else args.time
    capabilities = calibration.operations(device, args.operation, here, quick=args.quick)
    with_memory = device == "cpu" and not args.no_memory
    jobs_s = time_s * (1 - _MEMORY_SHARE) if with_memory else time_s
    form = calibration.box(device, capabilities, jobs_s, quick=args.quick, network=args.network)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrate.json"
        path.write_text(json.dumps(form), encoding="utf-8")
        chosen = box.load(str(path), [], here)
    tests = plan.plan(chosen, here)
    begun = launch.start(chosen, tests, args.results, ["overside", *sys.argv[1:]])
    state: Json = {
        "schema": "calibration/1",
        "device": device,
        "name": name,
        "out": str(out),
        "quick": args.quick,
        "max_s": form["measure"]["max_s"],
        "memory": None,
        "memory_rounds": [],
    }
    if with_memory:
        rounds = 2 if args.quick else _MEMORY_ROUNDS
        state["memory"] = memory.spec(
            store.read_environment(begun.run.path),
            quick=args.quick,
            round_s=time_s * _MEMORY_SHARE / rounds,
        )
        state["memory_rounds_planned"] = rounds
    _save(begun.run.path, state)
    return begun, state


def _target(args: Arguments, device: str) -> tuple[Path, str]:
    """The file and the name in it, which are the same word."""
    fallback = re.sub(r"[^a-z0-9-]+", "-", device.lower()).strip("-") + "-measured"
    stem = args.out.stem if args.out is not None else None
    name = args.name or stem or fallback
    if not re.fullmatch(r"[a-z0-9-]{1,64}", name):
        raise UserError(
            f"{name!r} is not a profile's name",
            "use up to 64 lower-case letters, digits and hyphens: --name my-card",
        )
    out: Path = args.out or Path(f"{name}.toml")
    if out.suffix != ".toml" or out.stem != name:
        raise UserError(
            f"{out} is not the file of a profile {name}",
            f"call it {out.with_name(name + '.toml')}: a profile's file has its name",
        )
    if not out.parent.is_dir():
        raise UserError(f"there is no directory {out.parent}", "make it, or choose another --out")
    return out, name


def _save(run: Path, state: Json) -> None:
    store.write_atomically(run / STATE, json.dumps(state) + "\n")


def _resumed(args: Arguments, here: Machine) -> tuple[Launch, Json]:
    failures = (OSError, ValueError, KeyError, TypeError)
    what, remedy = f"{args.resume} is no calibration", "overside calibrate begins one"
    with as_user_error(what, *failures, remedy=remedy):
        with (args.resume / STATE).open("rb") as file:
            state: Json = strict_json.loads(file.read(1 << 20))
        known = state["schema"] == "calibration/1" and isinstance(state["memory_rounds"], list)
    if not known:
        raise UserError(f"{args.resume / STATE} is of another version", "begin a new calibration")
    if args.out is not None or args.name is not None:
        out, name = _target(args, state["device"])
        state |= {"out": str(out), "name": name}
    return launch.resume(args.resume, None, here), state


def _measure(args: Arguments, begun: Launch, state: Json) -> Exit:
    """Memory first, then jobs; what was measured is kept at each step."""
    path = begun.run.path
    _say(args, f"results go to {path}; Ctrl-C keeps them, and --resume {path} goes on")
    try:
        _measure_memory(args, path, state)
    except KeyboardInterrupt:
        begun.run.manifest |= {"state": "interrupted", "exit_code": int(Exit.INTERRUPTED)}
        begun.run.write_manifest()
        return Exit.INTERRUPTED
    runner = Runner(begun, max_s=state["max_s"], quiet=args.quiet)
    code = runner.run()
    if runner.disk_error:
        print(f"overside calibrate: {runner.disk_error}", file=sys.stderr)
    return code


def _measure_memory(args: Arguments, path: Path, state: Json) -> None:
    if state["memory"] is None:
        return
    planned = state["memory_rounds_planned"]
    while len(state["memory_rounds"]) < planned:
        number = len(state["memory_rounds"]) + 1
        began = time.monotonic()
        state["memory_rounds"].append(memory.in_a_fresh_process(state["memory"]))
        _save(path, state)
        _say(args, f"memory, round {number} of {planned}: {time.monotonic() - began:.0f} s")


def _write(args: Arguments, run: Path, state: Json, here: Machine, code: Exit) -> int:
    """Writes the profile from what there is. With too little for one, says what is missing."""
    view = statistics.load_run(run)
    known = here.device(state["device"]) or {}
    capabilities = {str(one["operation"]): one for one in known.get("capabilities", ())}
    again = f"overside calibrate --resume {run}"
    try:
        form = figures.profile(view, state["device"], state["name"], limits=capabilities.get)
    except UserError as error:
        raise UserError(
            f"no profile was written: {error.message}", f"go on: {again}", code or Exit.TEST_FAILED
        ) from None
    if state["memory_rounds"]:
        form = {"values": {}, "tables": {}} | form
        memory.write(writing.Writer(form), state["memory"], state["memory_rounds"])
    if code in (Exit.INTERRUPTED, Exit.INCOMPLETE):
        form["notes"].append("Measuring was stopped before its time: rounds or tests are missing.")
    out = Path(state["out"])
    try:
        store.write_atomically(out, _core.profile_toml(json.dumps(form)))
    except ValueError as error:
        raise UserError(f"the figures make no profile: {error}", again, Exit.TEST_FAILED) from None
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}", "choose another --out") from None
    _print_result(args, run, out, form, code)
    return code


def _print_result(args: Arguments, run: Path, out: Path, form: Json, code: Exit) -> None:
    emulated = form["provenance"] == "emulated"
    if args.json:
        output.document(
            "calibrated/1",
            profile=form["name"],
            file=str(out),
            run=str(run),
            provenance=form["provenance"],
            may_be_shared=not emulated,
            complete=code == Exit.OK,
        )
        return
    _say(args, f"profile {form['name']} ({form['provenance']}): {out}")
    if emulated:
        _say(args, "it is of an emulated device: it says nothing about a card; do not share it")
    if code in (Exit.INTERRUPTED, Exit.INCOMPLETE):
        _say(args, f"not all was measured; go on: overside calibrate --resume {run}")
    _say(
        args,
        f"look at it: overside profile show {out}\n"
        f"use it: OVERSIDE_PROFILES={out.parent} overside list profiles",
    )


def _say(args: Arguments, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)
