"""The summary of a run for a terminal: the report's first screen in plain text."""

from __future__ import annotations

import textwrap

from overside import verdict
from overside.bench.statistics import RunView
from overside.report import best, formatting, run_details, sweeps, view_model
from overside.tasks.common import Json
from overside.verdict import RunVerdict, Verdict

#: Escape sequences (ECMA-48, select graphic rendition).
BOLD, FAINT, GREEN, YELLOW, RED, PLAIN = (f"\x1b[{code}m" for code in (1, 2, 32, 33, 31, 0))

WIDTH_MIN, WIDTH_MAX = 40, 100

#: The most kinds of warnings and of problems; the report has all.
NOTICES_MAX, WARNINGS_MAX = 3, 2

#: The most operations and devices whose shares are shown; the report has all.
SWEEPS_MAX = 3

#: The most verdicts, answers and fastest options; the report has all.
VERDICTS_MAX, ANSWERS_MAX, FASTEST_MAX = 5, 6, 6

#: What became of tests whose reasons the summary tells.
_TOLD = {formatting.STATUS["failed"], formatting.STATUS["missing"]}

#: The most characters of why a test has no result.
REASON_MAX = 300


def summary(view: RunView, width: int, colour: bool) -> str:
    """The verdict, what is fastest here, and what to mind, `width` columns wide."""
    page = _Page(max(WIDTH_MIN, min(width, WIDTH_MAX)), colour)
    where = run_details.cpu(view)
    page.line(f"{view_model.title(view)}{f' on {where}' if where else ''}", BOLD)
    page.line(view_model.counts_words(view))
    for alert in view_model.alerts(view):
        page.line(f"! {alert}", RED, indent="  ")
    _verdict(page, verdict.of_run(view))
    _fastest(page, view)
    _sweeps(page, view)
    _problems(page, view)
    found = view_model.warnings(view)
    if found:
        page.heading("Warnings", "", YELLOW)
        for one in found[:WARNINGS_MAX]:
            more = f" (and {len(one.messages) - 1} like it)" if len(one.messages) > 1 else ""
            remedy = f" Remedy: {one.remedy}." if one.remedy else ""
            page.line(f"- {one.messages[0][0]}{more}.{remedy}", indent="  ")
        page.rest(len(found) - WARNINGS_MAX, "- and")
    return "\n".join(page.lines) + "\n"


def _verdict(page: _Page, found: RunVerdict) -> None:
    """The verdict's lines as every format has them."""
    page.heading("Verdict", "", RED if found.caution else GREEN)
    page.line(found.headline, BOLD)
    for one in found.verdicts[:VERDICTS_MAX]:
        page.line(f"- {one.line}", _colour(one), indent="  ")
    page.rest(len(found.verdicts) - VERDICTS_MAX, "- and")
    for text in found.unable:
        page.line(f"- {text}", FAINT, indent="  ")
    for answer in found.other_answers[:ANSWERS_MAX]:
        page.line(f"- {answer.line}", indent="  ")
    page.rest(len(found.other_answers) - ANSWERS_MAX, "- and")
    if found.folded:
        cards = dict.fromkeys(one.name for one in found.folded)
        page.line(
            f"- Modelled, not measured, and left to the report: {', '.join(cards)}.",
            FAINT,
            indent="  ",
        )


def _colour(one: Verdict) -> str:
    if one.decision == "cannot-tell":
        return YELLOW
    return GREEN if one.is_measured else ""


def _fastest(page: _Page, view: RunView) -> None:
    advice = best.advise(view)
    if not advice:
        return
    page.heading("Fastest option per operation on this machine", "measured", GREEN)
    for one in advice[:FASTEST_MAX]:
        page.line(best.short_line(one), indent="  ")
    page.rest(len(advice) - FASTEST_MAX, "and")
    page.line(best.interval_words(view), FAINT)


def advice(
    view: RunView, found: RunVerdict, advised: Json, *, width: int, colour: bool, explain: bool
) -> str:
    """What should run where, `width` columns wide: the verdict, and with `explain` what it rests
    on."""
    page = _Page(max(WIDTH_MIN, min(width, WIDTH_MAX)), colour)
    page.line(f"What should run where, by {view_model.title(view)}", BOLD)
    _verdict(page, found)
    for operation in advised["operations"] if explain else ():
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
            page.line(f"  {task}: {where}, {enters} in{at}", indent="    ")
        for sentence in plan["sentences"]:
            page.line(f"  {sentence}", indent="  ")
    if advised["citations"]:
        count = formatting.plural(len(advised["citations"]), "published fact")
        more = "" if explain else "; --explain shows each size"
        page.lines.append("")
        page.line(f"Rests on {count}: --json and the report list them{more}.", FAINT)
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


def _problems(page: _Page, view: RunView) -> None:
    """What failed; what was skipped is counted above, and the report has the reasons."""
    found = [one for one in view_model.problems(view) if one.status in _TOLD]
    if found:
        page.heading("Failed tests", "", RED)
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
