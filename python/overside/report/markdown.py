"""The report as Markdown, for a pull request or a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from overside import verdict
from overside.bench.statistics import RunView
from overside.report import (
    audit,
    best,
    formatting,
    nodes,
    published,
    run_details,
    study_charts,
    sweeps,
    view_model,
)
from overside.report.best import Advice, Best
from overside.verdict import RunVerdict, Verdict

#: The most failed or skipped groups of tests that are listed.
PROBLEMS_MAX = 50

#: Columns of the verdict's picture, which is text.
PICTURE_COLUMNS = 100

#: The most tests in the table of figures.
FIGURES_MAX = 60

#: The most messages of one kind of warning.
MESSAGES_MAX = 5

#: Characters that Markdown or HTML would read as markup. GitHub also links `@name` and `#1`.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&@$-])")
#: A bar would end a table's cell even here.
_CODE = re.compile(r"`([^`|]+)`")


def escape(text: str) -> str:
    """Text from outside that stays text, also in a table's cell."""
    return _SPECIAL.sub(r"\\\1", formatting.clean(text))


def prose(text: str) -> str:
    """Escapes text from outside; text between backticks becomes code."""
    parts = _CODE.split(formatting.clean(text))
    return "".join(
        f"`{part}`" if at % 2 else _SPECIAL.sub(r"\\\1", part) for at, part in enumerate(parts)
    )


def code(text: str) -> str:
    """Text from outside in a code span, fenced longer than any run of backticks in it."""
    text = formatting.clean(text, 4_000)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table whose cells are escaped already."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def markdown(view: RunView, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """The whole report; the table of all tests is in the CSV file. `pictures` are titles with their
    files in the same directory."""
    lines = [f"# Overside report: {escape(view_model.title(view))}", ""]
    where = [run_details.cpu(view), run_details.when(view.manifest.get("started"))]
    lines += [escape(", ".join(part for part in where if part)) + "  "]
    lines += [escape(view_model.counts_words(view)), ""]
    lines += [f"> **{escape(alert)}**\n" for alert in view_model.alerts(view)]
    lines += _verdict(verdict.of_run(view))
    if pictures:
        lines += ["## Charts", ""]
        lines += [f"![{escape(title)}]({path})\n" for title, path in pictures]
    lines += _nodes(view)
    lines += _studies(view)
    lines += _sweeps(view)
    lines += _advice(view, best.advise(view))
    lines += _emulated(view)
    lines += _figures(view)
    lines += _plugins(view)
    lines += _problems(view)
    lines += _published(view)
    lines += _about(view)
    lines += _audit(view)
    return "\n".join(lines).rstrip() + "\n"


def _studies(view: RunView) -> list[str]:
    lines: list[str] = []
    for found in published.reproductions(view, published.core()) if view.tests else []:
        figure = found.figure
        lines += [f"## {escape(figure.name)}, {escape(figure.label)}", ""]
        lines += [f"{escape(part)}\n" for part in (figure.caption, figure.differs) if part]
        rows = [[*map(escape, row)] for row in study_charts.table(found.pairs)]
        lines += table(study_charts.COLUMNS, rows) if rows else []
    return lines


def _audit(view: RunView) -> list[str]:
    planted = audit.planted_mistakes(view)
    if not planted:
        return []
    rows = [[escape(one.about), escape(one.test), escape(one.outcome)] for one in planted]
    return ["## Audit", "", *table(["Planted mistake", "Planted in", "Result"], rows)]


def _nodes(view: RunView) -> list[str]:
    found = nodes.table(view)
    if found is None:
        return []
    columns = ("Test", "Figure", *map(escape, found.nodes))
    rows = [[escape(cell) or "–" for cell in (r.what, r.metric, *r.cells)] for r in found.rows]
    more = [f"{found.more:,} more are in samples.csv.", ""] if found.more else []
    words = escape(best.interval_words(view))
    return ["## By node", "", words, "", *table(columns, rows), *more]


def _advice(view: RunView, advice: Sequence[Advice]) -> list[str]:
    if not advice:
        return []
    lines = ["## Fastest option per operation on this machine (measured)", ""]
    for one in advice:
        detail = f" {escape(f'({one.group.detail})')}" if one.group.detail else ""
        for sentence in best.sentences(one):
            lines.append(f"- **{escape(one.group.title)}**{detail}: {escape(sentence)}")
    lines += ["", escape(best.interval_words(view)), ""]
    columns = ("Operation", "Buffer", "Fastest", "MB/s", "CPU s/GB", "As fast")
    rows = [_best(one, item) for one in advice for item in one.best]
    return [*lines, *table(columns, rows)]


def _best(advice: Advice, item: Best) -> list[str]:
    cost = item.winner.cpu_cost
    figures = formatting.number(item.winner.throughput.median)
    return [
        escape(f"{advice.group.title} {advice.group.detail}"),
        formatting.size(item.size_bytes) if item.size_bytes else "–",
        escape(item.winner.label),
        f"{figures} ({best.interval(item.winner.throughput)})",
        formatting.number(cost.median) if cost is not None else "–",
        escape(best.ties_words(item)) or "–",
    ]


def _verdict(found: RunVerdict) -> list[str]:
    """The verdict's lines as every format has them."""
    lines = ["## Verdict", "", f"**{prose(found.headline)}**", ""]
    if found.picture is not None:
        lines += ["```text", *found.picture.lines(PICTURE_COLUMNS), "```", ""]
    lines += [_item(one) for one in found.verdicts]
    lines += [f"- {escape(text)}" for text in found.unable]
    lines += [f"- {prose(one.line)}" for one in found.other_answers]
    if found.folded:
        lines += ["", "<details><summary>Modelled cards, not measured</summary>", ""]
        lines += [*map(_item, found.folded), "", "</details>"]
    return [*lines, ""]


def _item(one: Verdict) -> str:
    return f"- {prose(one.line)}"


def _published(view: RunView) -> list[str]:
    found = published.comparisons(view, published.core())
    if not found:
        return []
    lines = [
        "<details><summary>Published figures of others, not measured here</summary>",
        "",
        "Each was obtained under different conditions, which are named. No speed-up is computed.",
        "",
    ]
    columns = ("On", "Published", "MB/s", "What was different", "Source")
    for one in found:
        detail = f" {escape(f'({one.detail})')}" if one.detail else ""
        lines += [f"### {escape(one.title)}{detail}", ""]
        here = f"{escape(one.provenance)} here, {escape(one.chosen)}"
        lines += [f"- {here}: {escape(text)}" for text in one.measured]
        rows = [
            [
                escape(f"{figure.device}, {figure.what}"),
                escape(", ".join(filter(None, (figure.printed, figure.origin)))),
                escape(figure.rate or "–"),
                escape("; ".join(figure.differs)),
                f"{code(figure.fact)}, {escape(figure.where)}",
            ]
            for figure in one.figures
        ]
        lines += ["", *table(columns, rows)]
        lines += [f"{code(name)}: {escape(text)}  " for name, text in one.studies]
        lines += [""]
    return [*lines, "</details>", ""]


def _sweeps(view: RunView) -> list[str]:
    found = sweeps.sweeps(view)
    if not found:
        return []
    lines = ["## Sharing work between CPU and device", ""]
    words = f"TT: one target alone; OT: several together. {escape(best.interval_words(view))}"
    lines += [words, ""]
    for sweep in found:
        label = "" if sweep.reason else f" ({sweep.provenance})"
        detail = f", {escape(sweep.detail)}" if sweep.detail else ""
        lines += [f"### {escape(sweep.title)} with {escape(sweep.label)}{detail}{label}", ""]
        if sweep.reason:
            lines += [f"Not possible: {escape(sweep.reason)}", ""]
            continue
        if sweep.is_stand_in:
            lines += [f"**{escape(sweeps.STAND_IN)}**", ""]
        if sweep.note:
            lines += [f"**{escape(sweep.note)}**", ""]
        for series in sweep.series:
            lines += [
                f"- **{escape(series.title.capitalize())}, {escape(name)}**: {escape(text)}"
                for name, text in sweeps.sentences(series)
            ]
        rows = [[escape(cell) for cell in row] for row in sweeps.table(sweep)]
        lines += ["", *table([escape(name) for name in sweeps.COLUMNS], rows)]
        if sweep.missing:
            lines += [f"Not known, so it counts as zero: {escape('; '.join(sweep.missing))}.", ""]
    return lines


def _throughput(row: view_model.Row) -> str:
    found = row.throughput
    return formatting.number(found.median) if found is not None and row.timed else "–"


def _emulated(view: RunView) -> list[str]:
    rows = [
        [
            escape(row.operation),
            escape(row.how),
            formatting.size(row.size_bytes) if row.size_bytes else "–",
            _throughput(row),
            escape(row.bounds) or "–",
            escape(row.note) or "–",
        ]
        for row in view_model.rows(view)
        if row.provenance == formatting.PROVENANCE["emulated"] and not row.placed
    ]
    if not rows:
        return []
    return [
        "## How the emulated devices behaved (emulated, not a measurement of a card)",
        "",
        *table(("Operation", "Device", "Buffer", "MB/s", "Published values allow", "Notes"), rows),
    ]


def _figures(view: RunView) -> list[str]:
    """Returns the lines about tasks with figures of their own: networks, memory, stores..."""
    found = view_model.of_figures(view)
    rows = [
        [
            escape(row.operation),
            escape(", ".join(filter(None, (row.how, row.parameters)))) or "–",
            formatting.size(row.size_bytes) if row.size_bytes else "–",
            escape(row.others),
        ]
        for row in found[:FIGURES_MAX]
    ]
    if not rows:
        return []
    more = len(found) - len(rows)
    return [
        "## Figures (measured)",
        "",
        *table(("What", "How", "Size", "Figures"), rows),
        *([f"{more:,} more are in samples.csv.", ""] if more > 0 else []),
    ]


def _plugins(view: RunView) -> list[str]:
    rows = [
        [
            escape(row.operation),
            escape(row.parameters) or "–",
            escape(row.others),
            escape(row.note) or "–",
        ]
        for row in view_model.of_plugins(view)
    ]
    if not rows:
        return []
    return [
        "## What plug-ins measured",
        "",
        *table(("Plug-in", "Parameters", "Figures", "Notes"), rows),
    ]


def _problems(view: RunView) -> list[str]:
    problems = view_model.problems(view)
    lines = ["## Skipped and failed tests", ""] if problems else []
    for one in problems[:PROBLEMS_MAX]:
        kind = f" ({escape(one.kind)})" if one.kind else ""
        count = formatting.plural(len(one.tests), "test")
        lines.append(f"- **{escape(one.status)}**{kind}: {escape(one.reason)} ({count})")
    if len(problems) > PROBLEMS_MAX:
        lines.append(f"- and {len(problems) - PROBLEMS_MAX} more")
    found = view_model.warnings(view)
    lines += ["", "## Warnings", ""] if found else []
    for warning in found:
        remedy = f" Remedy: {escape(warning.remedy)}." if warning.remedy else ""
        said = [
            message + (f" ({tests} tests)" if tests > 1 else "")
            for message, tests in warning.messages
        ]
        lines.append(f"- {escape('; '.join(said[:MESSAGES_MAX]))}.{remedy}")
        if len(said) > MESSAGES_MAX:
            lines.append(f"  (and {len(said) - MESSAGES_MAX} like these)")
    return [*lines, ""]


def _about(view: RunView) -> list[str]:
    lines = ["## Method", ""]
    lines += [f"- **{escape(name)}**: {escape(text)}" for name, text in run_details.method(view)]
    lines += [f"- **Command**: {code(run_details.command(view))}"]
    for item in run_details.data(view):
        digest, origin = code(item["digest"]), escape(item["origin"])
        lines.append(f"- **Data**: {escape(item['name'])}, {item['size']}, {origin}, {digest}")
    (_, typed), *_ = run_details.again(view)
    return [*lines, "", "## How to run this again", "", *_block(typed)]


def _block(text: str) -> list[str]:
    """A block of code, indented, which no text inside can end."""
    return [*(f"    {formatting.clean(line, 400)}" for line in text.splitlines()), ""]
