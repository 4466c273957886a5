"""Check a box, and say how many of its tests can run here."""

from __future__ import annotations

from collections import Counter

from overside import screen
from overside.bench import box, plan
from overside.commands import Arguments, output
from overside.errors import Exit

#: The most reasons that are shown for people.
_REASONS_MAX = 5


def main(args: Arguments) -> int:
    """Runs the verb."""
    here = box.machine()
    chosen = box.load(args.box, (), here)
    tests = plan.plan(chosen, here)
    reasons = Counter(test.reason for test in tests if test.reason)
    can_run = len(tests) - sum(reasons.values())
    doubtful = sum(test.doubt is not None for test in tests)
    if args.json:
        output.document(
            "validate/1",
            valid=True,
            path=chosen.path,
            tests=len(tests),
            can_run=can_run,
            may_be_skipped=doubtful,
            skipped=[{"reason": why, "tests": many} for why, many in reasons.most_common()],
            warnings=[warning.json() for warning in chosen.warnings],
        )
        return Exit.OK
    for warning in chosen.warnings:
        print(f"warning: {warning}")
    many = (
        f"all {len(tests)} tests" if can_run == len(tests) else f"{can_run} of {len(tests)} tests"
    )
    page = screen.Page(screen.columns(), colour=False)
    print(f"{chosen.path}: valid; {many} can run here")
    for why, count in reasons.most_common(_REASONS_MAX):
        page.line(f"  {count} skipped: {why}", indent="    ")
    if page.lines:
        print(page.text(), end="")
    if len(reasons) > _REASONS_MAX:
        print(f"  and {len(reasons) - _REASONS_MAX} more reasons: overside plan {chosen.path}")
    if doubtful:
        print(f"  {doubtful} of these may be skipped: their data decide")
    return Exit.OK
