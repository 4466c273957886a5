"""The summary of a run for a terminal: the answer first, on one screen.

Lines that do not fit into `LINES_MAX` are left to the report: first the details of the verdict,
then the last lines but for warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overside import verdict
from overside.bench.statistics import RunView
from overside.report import (
    best,
    formatting,
    nodes,
    published,
    run_details,
    study_charts,
    sweeps,
    view_model,
)
from overside.screen import BOLD, FAINT, GREEN, RED, YELLOW, Page
from overside.tasks.common import Json
from overside.verdict import RunVerdict, Verdict, picture

#: With the other lines of `overside run`, 48; the sentence and the picture come first.
LINES_MAX = 46
#: Most lines of the first screen of advice.
ADVICE_LINES_MAX = 33
#: The most verdicts of advice, which may have no report that has the others.
ADVICE_VERDICTS_MAX = 12
#: The fewest lines that the verdict may have, whatever else there is.
VERDICT_LINES_MIN = 16
#: The lines that the picture may have without taking some of the verdict's.
PICTURE_LINES = 8

#: The most kinds of warnings and of problems; the report has all.
NOTICES_MAX, WARNINGS_MAX = 3, 2

#: The most verdicts, answers, fastest options and sweeps; the report has all.
VERDICTS_MAX, ANSWERS_MAX, FASTEST_MAX, SWEEPS_MAX = 5, 6, 6, 3

#: The most tests by node, and beside published values; the report has all.
NODE_ROWS_MAX = STUDY_ROWS_MAX = 6

#: Outcomes of tests whose reasons the summary gives.
_TOLD = {formatting.STATUS["failed"], formatting.STATUS["missing"]}

#: The most characters of why a test has no result.
REASON_MAX = 300


@dataclass(frozen=True)
class _Section:
    """Section below the verdict."""

    heading: str
    label: str
    style: str
    items: Sequence[Page]
    #: The lines that the verdict leaves for it; lines left over are added.
    claim: int
    #: Number of further items, which only the report has.
    more: int = 0
    #: `True` if sections above leave its lines to it as well.
    is_kept: bool = False

    @property
    def lines(self) -> int:
        """With its heading, and a line about omitted ones."""
        return 2 + sum(len(item.lines) for item in self.items) + (self.more > 0)


def summary(view: RunView, width: int, colour: bool) -> str:
    """The verdict, the fastest ways here, and warnings, `width` columns wide."""
    page = Page(width, colour=colour)
    found = verdict.of_run(view)
    where = run_details.cpu(view)
    page.line(found.headline, RED if found.caution else BOLD)
    title = f"{view_model.title(view)}{f' on {where}' if where else ''}"
    page.line(f"{title}; {view_model.counts_words(view)}", FAINT)
    for alert in view_model.alerts(view):
        page.line(f"! {alert}", RED, indent="  ")
    drawn = _picture(page, found)
    sections = [one for one in _sections(view, page) if one.items]
    claimed = sum(min(one.claim, one.lines) for one in sections)
    room = LINES_MAX - len(page.lines) - claimed
    least = VERDICT_LINES_MIN - max(drawn - PICTURE_LINES, 0)
    _verdict(page, found, max(room, least), VERDICTS_MAX)
    for index, one in enumerate(sections):
        behind = sum(min(two.claim, two.lines) for two in sections[index + 1 :] if two.is_kept)
        _section(page, one, LINES_MAX - behind)
    return page.text()


def _sections(view: RunView, page: Page) -> Iterator[_Section]:
    problems = [one for one in view_model.problems(view) if one.status in _TOLD]
    items = [_problem(page, one) for one in problems[:NOTICES_MAX]]
    yield _Section("Failed tests", "", RED, items, 7, len(problems) - NOTICES_MAX)
    by_node = nodes.table(view)
    if by_node is not None:
        items = [_item(page, _node_row(by_node, row)) for row in by_node.rows[:NODE_ROWS_MAX]]
        more = len(by_node.rows) + by_node.more - NODE_ROWS_MAX
        yield _Section("By node", "", GREEN, items, 8, more)
    figures = published.reproductions(view, published.core()) if view.tests else []
    rows = [row for one in figures for row in study_charts.rows(one.pairs)]
    items = [_item(page, study_charts.sentence(row)) for row in rows[:STUDY_ROWS_MAX]]
    names = formatting.listing(one.figure.name for one in figures)
    heading = f"{names}: this run, and its ratio to each published value"
    yield _Section(heading, "", GREEN, items, 8, len(rows) - STUDY_ROWS_MAX)
    shared = sweeps.sweeps(view)
    kinds = formatting.listing(dict.fromkeys(one.provenance for one in shared if not one.reason))
    items = [_sweep(page, one) for one in shared[:SWEEPS_MAX]]
    heading = "Sharing work between CPU and device"
    yield _Section(heading, kinds, YELLOW, items, 14, len(shared) - SWEEPS_MAX)
    fastest = best.advise(view)
    items = []
    for line in best.short_lines(fastest)[:FASTEST_MAX]:
        part = page.like()
        if not items:
            part.line(best.interval_words(view), FAINT)
        part.line(line, indent="  ")
        items.append(part)
    yield _Section("Fastest here", "measured", GREEN, items, 7, len(fastest) - FASTEST_MAX)
    warnings = view_model.warnings(view)
    items = [_warning(page, one) for one in warnings[:WARNINGS_MAX]]
    more = len(warnings) - WARNINGS_MAX
    yield _Section("Warnings", "", YELLOW, items, 4, more, is_kept=True)


def _node_row(found: nodes.NodeTable, row: nodes.NodeRow) -> str:
    pairs = zip(found.nodes, row.cells, strict=True)
    cells = "; ".join(f"{formatting.clean(node, 60)} {cell}" for node, cell in pairs if cell)
    return f"{row.what} ({row.metric}): {cells}"


def _section(page: Page, section: _Section, lines_max: int) -> None:
    """Adds the items of a section that fit into the remaining lines.

    A last line gives the number of items that only the report has.
    """
    room = lines_max - len(page.lines) - 2
    shown: list[Page] = []
    for item in section.items:
        is_last = len(shown) + 1 == len(section.items) and section.more <= 0
        if len(item.lines) + (0 if is_last else 1) > room:
            break
        shown.append(item)
        room -= len(item.lines)
    if not shown:
        return
    page.heading(section.heading, section.label, section.style)
    for item in shown:
        page.lines += item.lines
    _rest(page, len(section.items) - len(shown) + max(section.more, 0))


def _rest(page: Page, count: int) -> None:
    if count > 0:
        page.line(f"and {count:,} more in the report", FAINT)


def _item(page: Page, text: str, style: str = "") -> Page:
    part = page.like()
    part.line(text, style, indent="  ")
    return part


def _verdict(page: Page, found: RunVerdict, room: int, most: int) -> None:
    """Adds the verdict's lines, `most` at most, in as much detail as there is room for."""
    details = [(detail, most) for detail in ("all", "shared", "saved", "short", "brief")]
    details += [("brief", count) for count in range(most - 1, 0, -1)]
    for detail, count in details:
        part = page.like()
        _lines(part, found, detail, count)
        if len(part.lines) <= room:
            break
    page.lines += part.lines


def _picture(page: Page, found: RunVerdict) -> int:
    """Adds the picture of the verdicts that are shown, plain in ten seconds. Returns its lines."""
    # A row of a narrow one takes two lines.
    rows = VERDICTS_MAX if page.width >= picture.ONE_LINE else VERDICTS_MAX - 2
    shown = picture.of(found.verdicts[:rows])
    lines = ["", *shown.lines(page.width)] if shown is not None else []
    page.lines += lines
    return len(lines)


def _lines(page: Page, found: RunVerdict, detail: str, count: int) -> None:
    shown = found.verdicts[:count]
    if shown or found.other_answers:
        page.lines.append("")
    for one in shown:
        page.line(_in_detail(one, detail), _colour(one), indent="  ")
    _rest(page, len(found.verdicts) - len(shown))
    if detail != "all" and shown:
        page.line(_shared_confidence(shown))
    for text in dict.fromkeys(one.next_words for one in shown):
        if text:
            page.line(text, BOLD, indent="  ")
    for text in found.unable if detail == "all" else ():
        page.line(text, FAINT, indent="  ")
    for answer in found.other_answers[:ANSWERS_MAX]:
        page.line(answer.line, indent="  ")
    _rest(page, len(found.other_answers) - ANSWERS_MAX)
    if found.folded:
        cards = dict.fromkeys(one.name for one in found.folded)
        text = f"Modelled, not measured, and left to the report: {', '.join(cards)}."
        page.line(text, FAINT, indent="  ")


def _in_detail(one: Verdict, detail: str) -> str:
    """A verdict without its next step, which stands below all of them."""
    head = f"{one.subject} [{one.provenance.upper()}]: {one.decided}"
    match detail:
        case "all":
            return f"{head}. {one.figures} {one.confidence_words}"
        case "shared":
            return f"{head}. {one.figures}"
        case "saved":
            return f"{head}; {'; '.join(filter(None, (one.brief, one.bound, one.saved)))}."
        case "short":
            return f"{head}; {'; '.join(filter(None, (one.brief, one.saved_briefly)))}."
    return f"{head}; {one.brief}."


def _shared_confidence(verdicts: Sequence[Verdict]) -> str:
    """`Low confidence: busy machine (5), interval wider than 2 times (4).`"""
    levels = [one.confidence for one in verdicts]
    least = min(levels, key=("low", "medium", "high").index)
    reasons = Counter(reason.partition(" (and ")[0] for one in verdicts for reason in one.reasons)
    texts = [
        reason if count == len(verdicts) else f"{reason} ({count} of {len(verdicts)})"
        for reason, count in reasons.most_common(3)
    ]
    why = f": {'; '.join(texts)}" if texts else ""
    some = f" for {levels.count(least)} of {len(levels)}" if len(set(levels)) > 1 else ""
    return f"{least.capitalize()} confidence{some}{why}."


def _colour(one: Verdict) -> str:
    if one.decision == "cannot-tell":
        return YELLOW
    return GREEN if one.is_measured else ""


def advice(
    source: str, found: RunVerdict, advised: Json, *, width: int, colour: bool, explain: bool
) -> str:
    """Returns the advice in `width` columns: the verdict, and with `explain` its basis.

    Of a workload it is only the workload's answer. `source` describes the origin of the CPU's
    rates.
    """
    page = Page(width, colour=colour)
    if advised["plans"]:
        page.line(advised["answer"], BOLD)
        page.line(source, FAINT)
        page.lines.append("")
        for line in advised["lines"]:
            page.line(line, indent="  ")
        if advised["next"]:
            page.line(f"Next: {advised['next']}.", BOLD, indent="  ")
    else:
        page.line(found.headline, RED if found.caution else BOLD)
        page.line(source, FAINT)
        _picture(page, found)
        room = ADVICE_LINES_MAX - len(page.lines) - 3
        _verdict(page, found, 1 << 20 if explain else room, ADVICE_VERDICTS_MAX)
    for operation in advised["operations"] if explain and not advised["plans"] else ():
        page.lines.append("")
        page.line(operation["title"], BOLD)
        for target in operation["targets"]:
            _target(page, target)
    if explain and advised["plans"]:
        page.heading(advised["workload"], "modelled", YELLOW)
    for plan in advised["plans"] if explain else ():
        page.line(plan["name"] + (f": {plan['card']}" if plan["card"] else ""), BOLD, indent="  ")
        for task, where, enters, cores in plan["stages"]:
            at = "" if cores == "–" else f", {cores} cores"
            page.line(f"  {task}: {where}, {enters} in{at}", indent="    ")
        for sentence in plan["sentences"]:
            page.line(f"  {sentence}", indent="  ")
    if advised["citations"]:
        count = formatting.plural(len(advised["citations"]), "published fact")
        each = "stage" if advised["plans"] else "size"
        more = "" if explain else f"; --explain shows each {each}"
        page.lines.append("")
        page.line(f"Rests on {count}: --json and the report list them{more}.", FAINT)
    return page.text()


def _target(page: Page, target: Json) -> None:
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


def _sweep(page: Page, sweep: sweeps.Sweep) -> Page:
    part = page.like()
    detail = f" ({sweep.detail})" if sweep.detail else ""
    part.line(f"{sweep.title} with {sweep.label}{detail}", BOLD)
    if sweep.reason:
        part.line(f"  Not possible: {sweep.reason}", indent="  ")
    if sweep.is_stand_in:
        part.line(f"  {sweeps.STAND_IN}", YELLOW, indent="  ")
    if sweep.note:
        part.line(f"  {sweep.note}", YELLOW, indent="  ")
    for series in sweep.series:
        part.line(f"  {series.title.capitalize()}: {sweeps.brief(series)}", indent="    ")
    return part


def _problem(page: Page, one: view_model.Problem) -> Page:
    """Returns the lines about failed tests.

    Skipped tests are only counted above; the report has the reasons.
    """
    reason = one.reason if len(one.reason) <= REASON_MAX else f"{one.reason[: REASON_MAX - 1]}…"
    return _item(page, f"- {one.status}: {reason} ({formatting.plural(len(one.tests), 'test')})")


def _warning(page: Page, one: view_model.Notice) -> Page:
    more = f" (and {len(one.messages) - 1} like it)" if len(one.messages) > 1 else ""
    remedy = f" Remedy: {one.remedy}." if one.remedy else ""
    return _item(page, f"- {one.messages[0][0]}{more}.{remedy}")
