"""The summary of a run for a terminal: the report's first screen in plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from overside.bench.statistics import RunView
from overside.report import best, formatting, run_details, sweeps, view_model
from overside.report.outlook import CardOutlook
from overside.tasks.common import Json

#: Escape sequences (ECMA-48, select graphic rendition).
BOLD, FAINT, GREEN, YELLOW, RED, PLAIN = (f"\x1b[{code}m" for code in (1, 2, 32, 33, 31, 0))

WIDTH_MIN, WIDTH_MAX = 40, 100

#: The most kinds of warnings and of problems; the report has all.
NOTICES_MAX = 5

#: The most operations and devices whose shares are shown; the report has all.
SWEEPS_MAX = 6

#: The most tests of plug-ins, and of tasks that measure the machine itself; the report has all.
ROWS_MAX = 20

#: The most characters of why a test has no result.
REASON_MAX = 300


def summary(
    view: RunView, cards: Sequence[CardOutlook], no_outlook: str, width: int, colour: bool
) -> str:
    """What the machine does best and what a DPU would change, `width` columns wide."""
    width = max(WIDTH_MIN, min(width, WIDTH_MAX))
    page = _Page(width, colour)
    where = run_details.cpu(view)
    page.line(f"{view_model.title(view)}{f' on {where}' if where else ''}", BOLD)
    page.line(view_model.counts_words(view))
    for alert in view_model.alerts(view):
        page.line(f"! {alert}", RED, indent="  ")
    _advice(page, view)
    _outlook(page, cards, no_outlook)
    _sweeps(page, view)
    _figures(page, view)
    _plugins(page, view)
    _problems(page, view)
    found = view_model.warnings(view)
    if found:
        page.heading("Warnings", "", YELLOW)
        for one in found[:NOTICES_MAX]:
            more = f" (and {len(one.messages) - 1} like it)" if len(one.messages) > 1 else ""
            remedy = f" Remedy: {one.remedy}." if one.remedy else ""
            page.line(f"- {one.messages[0][0]}{more}.{remedy}", indent="  ")
        page.rest(len(found) - NOTICES_MAX, "- and")
    return "\n".join(page.lines) + "\n"


def _advice(page: _Page, view: RunView) -> None:
    page.heading("What this machine does best", "measured", GREEN)
    advice = best.advise(view)
    for one in advice:
        page.line(one.group.title + (f" ({one.group.detail})" if one.group.detail else ""), BOLD)
        for sentence in best.sentences(one):
            page.line(f"  {sentence}", indent="  ")
    if advice:
        page.line(best.interval_words(view), FAINT)
    else:
        page.line(view_model.no_advice(view))


def advice(view: RunView, advised: Json, width: int, colour: bool) -> str:
    """What should run where, `width` columns wide."""
    page = _Page(max(WIDTH_MIN, min(width, WIDTH_MAX)), colour)
    page.line(f"What should run where, by {view_model.title(view)}", BOLD)
    for operation in advised["operations"]:
        page.lines.append("")
        page.line(operation["title"], BOLD)
        for target in operation["targets"]:
            _target(page, target)
    if advised["plans"]:
        page.heading(advised["workload"], "modelled", YELLOW)
    for plan in advised["plans"]:
        page.line(plan["name"] + (f": {plan['card']}" if plan["card"] else ""), BOLD, indent="  ")
        for task, where, enters, cores in plan["stages"]:
            at = "" if cores == "–" else f", {cores} cores"
            page.line(f"  {task}: {where}, {enters} enter{at}", indent="    ")
        for sentence in plan["sentences"]:
            page.line(f"  {sentence}", indent="  ")
    if advised["citations"]:
        count = formatting.plural(len(advised["citations"]), "published fact")
        page.lines.append("")
        page.line(f"Rests on {count}; --json and the report list them.", FAINT)
    return "\n".join(page.lines) + "\n"


def _target(page: _Page, target: Json) -> None:
    colour = GREEN if target["provenance"] == "measured" else YELLOW
    if target["unsupported"]:
        page.line(f"  {target['name']}: {target['unsupported']}", FAINT, indent="    ")
        return
    page.line(f"  {target['name']} [{target['provenance'].upper()}]", colour, indent="    ")
    for row in target["rows"]:
        figures = (
            "    {sizes}: {where}; {throughput} [{provenance}], {gain} the CPU alone, host CPU "
            "saved {saved}, in chunks of {chunk}"
        )
        page.line(figures.format_map(row), indent="      ")
        verdicts = "      C1, device faster than CPU: {c1}; C2, split faster than both: {c2}"
        page.line(verdicts.format_map(row), indent="      ")
    for sentence in target["sentences"]:
        page.line(f"    {sentence}", indent="    ")


def _outlook(page: _Page, cards: Sequence[CardOutlook], no_outlook: str) -> None:
    page.heading(
        "What a DPU would change", "modelled from published profiles, not measured", YELLOW
    )
    if not cards:
        page.line(no_outlook)
    for card in cards:
        page.line(f"{card.name}: {card.card}", BOLD, indent="  ")
        for title, entry in card.named():
            text = f"  {title}: {entry.headline}"
            if entry.answers:
                text += f"; faster from: {entry.faster_from}"
                text += f"; if set up anew for each buffer: {entry.faster_anew_from}"
            page.line(text, indent="    ")
        if card.unknown:
            page.line(f"  Not known: {'; '.join(card.unknown)}.", indent="  ")
        if card.facts:
            count = formatting.plural(len(card.facts), "published fact")
            page.line(f"  Rests on {count}; the report lists them.", FAINT, indent="  ")


def _sweeps(page: _Page, view: RunView) -> None:
    found = sweeps.sweeps(view)
    if not found:
        return
    kinds = formatting.listing(dict.fromkeys(one.provenance for one in found if not one.reason))
    page.heading("Sharing work between CPU and device", kinds, YELLOW)
    for sweep in found[:SWEEPS_MAX]:
        detail = f" ({sweep.detail})" if sweep.detail else ""
        page.line(f"{sweep.title} with {sweep.label}{detail}", BOLD)
        if sweep.reason:
            page.line(f"  Not possible: {sweep.reason}", indent="  ")
        if sweep.is_stand_in:
            page.line(f"  {sweeps.STAND_IN}", YELLOW, indent="  ")
        if sweep.note:
            page.line(f"  {sweep.note}", YELLOW, indent="  ")
        for series in sweep.series:
            page.line(f"  {series.title.capitalize()}")
            for name, text in sweeps.sentences(series):
                page.line(f"    {name}: {text}", indent="      ")
    page.rest(len(found) - SWEEPS_MAX, "and")


def _figures(page: _Page, view: RunView) -> None:
    found = view_model.of_figures(view)
    if found:
        page.heading("The machine itself", "measured", GREEN)
    for title in dict.fromkeys(row.operation for row in found):
        page.line(title, BOLD)
        rows = [row for row in found if row.operation == title]
        for row in rows[:ROWS_MAX]:
            size = formatting.size(row.size_bytes) if row.size_bytes else ""
            name = ", ".join(filter(None, (row.how, size, row.parameters)))
            page.line(f"  {name}: {row.others}", indent="    ")
        page.rest(len(rows) - ROWS_MAX, "  and")


def _plugins(page: _Page, view: RunView) -> None:
    found = view_model.of_plugins(view)
    if found:
        page.heading("What plug-ins measured", "", GREEN)
    for row in found[:ROWS_MAX]:
        name = ", ".join(filter(None, (row.operation, row.parameters)))
        mark = "" if row.verified else " [UNVERIFIED]"
        page.line(f"{name}: {row.others}{mark}", indent="  ")
    page.rest(len(found) - ROWS_MAX, "and")


def _problems(page: _Page, view: RunView) -> None:
    found = view_model.problems(view)
    if found:
        page.heading("Tests without a result", "", RED)
    for one in found[:NOTICES_MAX]:
        reason = one.reason if len(one.reason) <= REASON_MAX else f"{one.reason[: REASON_MAX - 1]}…"
        page.line(
            f"- {one.status}: {reason} ({formatting.plural(len(one.tests), 'test')})", indent="  "
        )
    page.rest(len(found) - NOTICES_MAX, "- and")


class _Page:
    """Lines that are wrapped and, on request, coloured."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width, self.colour = width, colour
        self.lines: list[str] = []

    def heading(self, text: str, label: str, colour: str) -> None:
        self.lines.append("")
        # Upper case marks the label for those who see no colours.
        self.line(f"{text} [{label.upper()}]" if label else text, colour)

    def rest(self, count: int, begin: str) -> None:
        """That `count` more are in the report, if there are."""
        if count > 0:
            self.line(f"{begin} {count:,} more in the report")

    def line(self, text: str, style: str = "", indent: str = "") -> None:
        wrapped = textwrap.wrap(
            text, self.width, subsequent_indent=indent, break_on_hyphens=False
        ) or [""]
        for part in wrapped:
            self.lines.append(f"{style}{part}{PLAIN}" if style and self.colour else part)
