"""Run a box and write its report."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from overside import report, screen
from overside.bench import box, launch, modes, plan, statistics
from overside.bench.launch import Launch
from overside.bench.runner import Runner
from overside.commands import Arguments, prompt
from overside.errors import Exit, UserError
from overside.plugins import sandbox, task
from overside.tasks.common import Consent


def main(args: Arguments) -> int:
    """Runs the verb."""
    if args.sandbox:
        sandbox.require()
    begun = _launch(args)
    for warning in begun.warnings:
        _say(args, f"warning: {warning}")
    with begun.run:
        _say(args, f"results go to {begun.run.path}")
        runner = Runner(
            begun,
            max_s=args.timeout,
            quiet=args.quiet,
            as_json_lines=args.json_lines,
            consent=_consent(args),
            strict=args.strict,
            card_mode=modes.BY_NAME.get(args.card_mode),
        )
        code = runner.run()
    _report(args, begun.run.path)
    _explain(args, code, runner.disk_error, begun)
    return code


def _launch(args: Arguments) -> Launch:
    if args.resume is not None:
        words = (args.set, args.filter, args.node)
        if any(words) or args.seed is not None or args.name is not None:
            raise UserError(
                "a run that is resumed keeps its tests, its seed and its name",
                "leave --set, --filter, --node, --seed and --name away, or start a new run",
            )
        return launch.resume(args.resume, args.box, box.machine())
    if args.box is None:
        raise UserError("which box?", "overside run BOX; `overside list boxes` shows some")
    here = box.machine()
    chosen = box.load(args.box, args.set, here, args.node or ())
    if args.seed is not None:
        chosen.seed = chosen.form["seed"] = args.seed
    tests = plan.plan(chosen, here, args.filter)
    if not tests:
        raise box.nothing_selected(args.filter)
    return launch.start(chosen, tests, args.out, ["overside", *sys.argv[1:]], args.name)


def _consent(args: Arguments) -> Consent:
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
        return prompt.confirmed("Run them?")

    return consent


def _say(args: Arguments, text: str) -> None:
    if not args.quiet:
        print(text, file=sys.stderr)


def _report(args: Arguments, path: Path) -> None:
    """Writes the report and prints the summary. A report that cannot be written does not make a
    run fail: every figure is in its files, and `overside report` makes the report again."""
    view = statistics.load_run(path)
    try:
        pages: Sequence[Path] = report.write(path, ("html",))
    except (OSError, UserError) as error:
        pages = ()
        print(f"overside run: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps(view.json() | {"path": str(path)}, ensure_ascii=False))
    elif not args.quiet and not args.json_lines:
        width, colour = screen.columns(), screen.has_colour(sys.stdout)
        print(report.summary(view, width, colour), end="")
    for page in pages:
        _say(args, f"report: {page}")


def _explain(args: Arguments, code: Exit, disk_error: str, begun: Launch) -> None:
    """Says on stderr why the exit code is not 0, and what to do about it."""
    path = begun.run.path
    again = f"overside run --resume {path}"
    if disk_error:
        print(f"overside run: {disk_error}\n  make room, then: {again}", file=sys.stderr)
    elif code == Exit.INCOMPLETE:
        rounds = begun.run.manifest["rounds"]
        limit = args.timeout or begun.measure.max_s
        print(
            f"overside run: hit the {limit:g} s limit after {rounds['done']} of "
            f"{rounds['planned']} rounds\n  resume: {again}",
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
