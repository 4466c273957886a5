"""List the figures of the studies, and the tests of each that can run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from overside import _core, screen
from overside.bench import box, plan, studies
from overside.bench.studies import Figure
from overside.commands import Arguments, output, table
from overside.errors import Exit
from overside.tasks.common import Json, Machine

#: The most reasons for skipped tests that are shown of one figure.
_REASONS_MAX = 5


def main(args: Arguments) -> int:
    """Runs the verb."""
    some = studies.chosen(args.name) if args.name else list(studies.figures().values())
    here = box.machine()
    # Several figures may have one box.
    boxes = {one.box: one for one in some if one.box}
    plans = {name: _plan(one, here) for name, one in boxes.items()}
    if args.json:
        entries = [
            asdict(one) | {"name": one.name, "here": plans.get(one.box), "series": len(one.series)}
            for one in some
        ]
        output.document("studies/1", figures=entries, counts=studies.counts(some))
    elif len(some) == 1:
        _print_one(some[0], plans.get(some[0].box))
    else:
        _print(some, plans)
    return Exit.OK


def _plan(figure: Figure, here: Machine) -> Json:
    """Tests of a figure's box, those that can run here, and the seconds that they take."""
    chosen = box.load(figure.name, (), here)
    tests = plan.plan(chosen, here)
    reasons = Counter(test.reason for test in tests if test.reason)
    can_run = len(tests) - sum(reasons.values())
    seconds = min(plan.estimated_s(tests, chosen.measure), chosen.measure.max_s)
    return {
        "path": chosen.path,
        "tests": len(tests),
        "can_run": can_run,
        "seconds": round(seconds, 1) if can_run else None,
        "skipped": [{"reason": why, "tests": many} for why, many in reasons.most_common()],
    }


def _print(some: Sequence[Figure], plans: Json) -> None:
    rows = []
    for one in some:
        needs = dict.fromkeys(need.partition(":")[0] for need in one.needs)
        text = "; ".join(filter(None, (one.caption, one.reason and f"no box: {one.reason}")))
        rows.append([one.id, *_here(plans.get(one.box)), ", ".join(needs) or "-", text])
    print(table.text(["figure", "here", "time", "the study's needs", ""], rows))
    count = studies.counts(some)
    print(
        f"\n{count['with_box']} of {count['figures']} figures and tables have a box; a machine "
        f"without card and network card runs {count['plain']}, in whole or in part.\n"
        "`overside studies S1.7` shows one, `overside run figure:S1.7` measures it."
    )


def _here(planned: Json | None) -> tuple[str, str]:
    """`12 of 12` tests and their time; dashes for none."""
    if planned is None:
        return "-", "-"
    time = _core.duration(planned["seconds"]) if planned["seconds"] else "-"
    return f"{planned['can_run']} of {planned['tests']}", time


def _print_one(figure: Figure, planned: Json | None) -> None:
    page = screen.Page(screen.columns(), colour=False)
    page.line(f"{figure.name}, {figure.label}: {figure.caption or 'content unknown'}", indent="  ")
    many, time = _here(planned)
    lines = {
        "Study": figure.conditions,
        "Here": figure.differs,
        "Needs": "; ".join(figure.needs),
        "Box": f"overside run {figure.name}" if planned else f"none: {figure.reason}",
        "See": ", ".join(figure.see),
        "Tests": f"{many} can run here, about {time}" if planned else "",
        "Facts": ", ".join(figure.facts),
    }
    for name, text in lines.items():
        if text:
            page.line(f"  {name + ':':<7}{text}", indent=" " * 9)
    for one in planned["skipped"][:_REASONS_MAX] if planned else ():
        page.line(f"  {one['tests']} skipped: {one['reason']}", indent=" " * 9)
    print(page.text(), end="")
