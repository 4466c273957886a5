"""Run a box and write its report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.commands import box_arguments
from overside.errors import Exit, UserError

if TYPE_CHECKING:
    from overside.bench.launch import Launch

RESULTS = "results"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the verb's arguments."""
    parser.add_argument(
        "box", metavar="BOX", nargs="?", help="a box's path, or the name of a ready-made one"
    )
    box_arguments.selection(parser)
    parser.add_argument(
        "--resume", metavar="RUN", type=Path, help="go on with a run that has not been completed"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(RESULTS),
        help="make the run's directory in DIR (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the run as JSON to stdout")
    parser.add_argument(
        "--seed", metavar="N", type=box_arguments.seed, help="in place of the box's"
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=box_arguments.seconds,
        help="measure for S seconds at most, in place of the box's max_s",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 104 if the emulated timing of a test is invalid",
    )
    scripts = parser.add_mutually_exclusive_group()
    scripts.add_argument(
        "--allow-scripts",
        action="store_true",
        help="run scripts and plug-ins that may change this machine without asking",
    )
    scripts.add_argument(
        "--sandbox",
        action="store_true",
        help="confine plug-ins with bubblewrap, so that they cannot change this machine",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    from overside.bench import box  # noqa: PLC0415 (all of it is for runs, not for --help)
    from overside.bench.runner import Runner  # noqa: PLC0415
    from overside.plugins import sandbox  # noqa: PLC0415

    if args.sandbox:
        sandbox.require()
    try:
        begun = _launch(args)
    except box.InvalidBoxError as error:
        if not args.json:
            raise
        print(json.dumps(error.json()))
        return Exit.USAGE
    for warning in begun.warnings:
        _say(args, f"warning: {warning}")
    with begun.run:
        _say(args, f"results go to {begun.run.path}")
        runner = Runner(
            begun,
            max_s=args.timeout,
            quiet=args.quiet > 0,
            consent=_consent(args),
            strict=args.strict,
        )
        code = runner.run()
    _report(args, begun.run.path)
    _explain(args, code, runner.disk_error, begun)
    return code


def _launch(args: argparse.Namespace) -> Launch:
    from overside.bench import box, launch, plan  # noqa: PLC0415

    if args.resume is not None:
        if args.set or args.filter or args.seed is not None:
            raise UserError(
                "a run that is resumed keeps its tests and its seed",
                "leave --set, --filter and --seed away, or start a new run",
            )
        return launch.resume(args.resume, args.box, box.machine())
    if args.box is None:
        raise UserError("which box?", "overside run BOX; `overside list boxes` shows some")
    here = box.machine()
    chosen = box.load(args.box, args.set, here)
    if args.seed is not None:
        chosen.seed = chosen.form["seed"] = args.seed
    tests = plan.plan(chosen, here, args.filter)
    if not tests:
        raise box.nothing_selected(args.filter)
    return launch.start(chosen, tests, args.out, command_line(args))


def command_line(args: argparse.Namespace) -> list[str]:
    """The command as the user would type it again."""
    del args
    return ["overside", *sys.argv[1:]]


def _consent(args: argparse.Namespace) -> box_arguments.Consent:
    from overside.plugins import task  # noqa: PLC0415

    def consent(changes: str) -> bool:
        if args.allow_scripts:
            return True
        if args.quiet:
            return False
        print(
            "These plug-ins are programs of other people that may change this system:\n"
            f"{task.printable(changes)}",
            end="",
            file=sys.stderr,
        )
        return box_arguments.confirmed("Run them?")

    return consent


def _say(args: argparse.Namespace, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)


def _report(args: argparse.Namespace, path: Path) -> None:
    """Writes the report and prints the summary. A report that cannot be written does not make a
    run fail: its files are the truth, and `overside report` makes the report again."""
    from overside import report  # noqa: PLC0415
    from overside.bench import statistics  # noqa: PLC0415

    view = statistics.load_run(path)
    try:
        pages: Sequence[Path] = report.write(path, ("html",))
    except (OSError, UserError) as error:
        pages = ()
        print(f"overside run: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps(view.json() | {"path": str(path)}, ensure_ascii=False))
    elif not args.quiet:
        print(report.summary(view))
    for page in pages:
        _say(args, f"report: {page}")


def _explain(args: argparse.Namespace, code: Exit, disk_error: str, begun: Launch) -> None:
    """Says on stderr why the exit code is not 0, and what to do about it."""
    from overside.bench import statistics  # noqa: PLC0415

    path = begun.run.path
    again = f"overside run --resume {path}"
    if disk_error:
        print(f"overside run: {disk_error}\n  make room, then: {again}", file=sys.stderr)
    elif code == Exit.INCOMPLETE:
        limit = args.timeout or begun.measure.max_s
        print(
            f"overside run: the time, {limit:g} s, ended before the planned rounds did\n  {again}",
            file=sys.stderr,
        )
    elif code == Exit.INTERRUPTED:
        print(f"overside run: interrupted; what was measured is kept\n  {again}", file=sys.stderr)
    elif code == Exit.ABSENT:
        # Some reasons stand in the manifest, others were found by the worker.
        view = statistics.load_run(path)
        reasons = {test.reason: None for test in view.tests if test.reason}
        lines = "".join(f"\n  {reason}" for reason in list(reasons)[:10])
        print(f"overside run: no test could run here{lines}", file=sys.stderr)
    elif code == Exit.INVALID_TIMING:
        count = begun.run.manifest["counts"]
        print(
            f"overside run: the emulated timing of {count['invalid']} of {count['tests']} tests is "
            "invalid: the report says why and what helps",
            file=sys.stderr,
        )
    elif code in (Exit.TEST_FAILED, Exit.VERIFICATION_FAILED):
        what = "failed" if code == Exit.TEST_FAILED else "gave a wrong result"
        print(
            f"overside run: a test {what}; the report says which, {path}/logs more", file=sys.stderr
        )
