"""A comparison of two runs as people read it: the changes, figure by figure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import overside
from overside.bench.comparison import MetricComparison, RunComparison
from overside.bench.statistics import RunView
from overside.report import formatting, markdown, page, run_details, vega, view_model
from overside.report.charts import Chart
from overside.tasks.common import Json

#: Files of a comparison that are written into the second run's directory.
FILES = {"html": "comparison.html", "md": "comparison.md"}

COLUMNS = ("test", "metric", "A", "B", "change", "95 % interval", "limit", "verdict")
VERDICTS = ("faster", "slower", "same", "ambiguous")

#: Parameters whose values are enough as names.
USUAL = ("device", "variant", "format", "level", "buffer_size")

#: The most figures in a chart, and in the table of a page.
DRAWN_MAX, ROWS_MAX = 40, 2_000
#: Provenances whose figures share a chart, the weakest last.
KINDS = ("measured", "emulated")

ABOUT = (
    "Each point is B over A, its line the 95 % interval. A verdict needs a change beyond the "
    "limit, which is the threshold, or the noise where that is larger. Intervals are cut where the "
    "axis ends; the table has them whole."
)


def rows(entries: Sequence[MetricComparison]) -> list[list[str]]:
    """A row of `COLUMNS` for each figure."""
    names = _parameter_names(entries)
    return [_row(one, names[one.task]) for one in entries]


def counts(result: RunComparison, threshold: float) -> str:
    """Returns the number of figures for each verdict, and the definition of a change."""
    each = ", ".join(f"{result.count(verdict)} {verdict}" for verdict in VERDICTS)
    return f"{each}; a change is more than {threshold:.0%}, or than the noise where that is larger"


def doubts(result: RunComparison) -> str:
    """Returns the advice for figures that changed, but perhaps by chance; empty without any."""
    many = sum(entry.doubt == "tests" for entry in result.compared)
    if not many:
        return ""
    return (
        f"{many} of the ambiguous changed, but that may be chance among so many: measure more "
        "rounds (--set measure.rounds=10), or compare fewer metrics (--metric)"
    )


def left_out(result: RunComparison) -> Iterator[str]:
    """Yields each reason for which tests were not compared, with the number of tests."""
    for reason, count in Counter(test["reason"] for test in result.not_compared).items():
        yield f"{formatting.plural(count, 'test')}: {reason}"


def headline(result: RunComparison) -> str:
    """The answer."""
    if not result.compared:
        return "Nothing could be compared."
    if result.conditions:
        return "No verdicts: the machine was not in the same condition."
    slower, faster = result.count("slower"), result.count("faster")
    if not slower and not faster:
        ambiguous = result.count("ambiguous")
        rest = f", {ambiguous} of them ambiguous" if ambiguous else ""
        return f"No change was found in {formatting.plural(len(result.compared), 'figure')}{rest}."
    parts = [
        f"{count} {'is' if count == 1 else 'are'} {word}"
        for count, word in ((slower, "slower"), (faster, "faster"))
        if count
    ]
    figures = formatting.plural(len(result.compared), "figure")
    return f"Of {figures}, {' and '.join(parts)} in B."


def render(
    name: str, before: RunView, after: RunView, result: RunComparison, threshold: float
) -> str:
    """The comparison in one of the formats of `FILES`."""
    provenance = _provenance(before, after)
    context = _context(before, after, result, threshold, provenance)
    return _markdown(context) if name == "md" else _page(context, result, provenance)


def _context(
    before: RunView,
    after: RunView,
    result: RunComparison,
    threshold: float,
    provenance: Mapping[str, str],
) -> Json:
    shown = _first_changed(result.compared)[:ROWS_MAX]
    return {
        "version": overside.__version__,
        "title": f"{view_model.title(after)}: two runs compared",
        "headline": headline(result),
        "runs": [
            {
                "name": name,
                "id": formatting.clean(view.manifest.get("id") or view.path.name, 200),
                "when": run_details.when(view.manifest.get("started")),
                "built": run_details.built(view.manifest),
                "cpu": run_details.cpu(view),
            }
            for name, view in (("A", before), ("B", after))
        ],
        "counts": counts(result, threshold),
        "alerts": [formatting.clean(one) for one in result.conditions],
        "notes": [formatting.clean(one) for one in (*result.notes, doubts(result)) if one],
        "left_out": [formatting.clean(one) for one in left_out(result)],
        "columns": (*COLUMNS, "provenance"),
        "rows": [
            {"verdict": one.verdict, "cells": row, "provenance": provenance[one.test]}
            for one, row in zip(shown, rows(shown), strict=True)
        ],
        "more": len(result.compared) - len(shown),
    }


def _provenance(before: RunView, after: RunView) -> dict[str, str]:
    """The weaker of both runs', by test."""
    first = {test.id: test.provenance for test in before.tests}
    both = {test.id: {first.get(test.id), test.provenance} for test in after.tests}
    return {
        name: next((kind for kind in reversed(KINDS) if kind in kinds), "")
        for name, kinds in both.items()
    }


def _first_changed(entries: Sequence[MetricComparison]) -> list[MetricComparison]:
    """Sorts the figures: changes first, and within each verdict the largest first."""
    order = ("slower", "faster", "ambiguous", "same")

    def far(one: MetricComparison) -> float:
        value = one.ratio.value
        return abs(math.log(value)) if 0 < value < math.inf else math.inf

    return sorted(entries, key=lambda one: (order.index(one.verdict), -far(one)))


def _page(context: Json, result: RunComparison, provenance: Mapping[str, str]) -> str:
    kinds = {
        kind: [one for one in result.compared if provenance[one.test] == kind] for kind in KINDS
    }
    charts = [chart for kind, entries in kinds.items() if (chart := _chart(entries, kind))]
    specs = {chart.id: chart.spec | {"config": vega.CONFIG} for chart in charts}
    return page.render("comparison.html.j2", specs, context | {"charts": charts, "about": ABOUT})


def _chart(entries: Sequence[MetricComparison], provenance: str) -> Chart | None:
    """Draws the figures and their ratios; `None` without a ratio that can be drawn."""
    entries = [
        one
        for one in _first_changed(entries)
        if all(0 < end < math.inf for end in (one.ratio.low, one.ratio.value, one.ratio.high))
    ]
    drawn = entries[:DRAWN_MAX]
    if not drawn:
        return None
    points = [
        {
            "label": f"{row[0]} · {row[1]}",
            "value": one.ratio.value,
            "low": one.ratio.low,
            "high": one.ratio.high,
            "verdict": one.verdict,
            "change": row[4],
            "interval": row[5],
        }
        for one, row in zip(drawn, rows(drawn), strict=True)
    ]
    told = ("label", "change", "interval", "verdict")
    more = len(entries) - len(drawn)
    return Chart(
        f"changes-{provenance}",
        "B over A",
        f"{more} more are in the table below." if more else "",
        provenance,
        vega.changes(points),
        ("Figure", "Change", "95 % interval", "Verdict"),
        tuple(tuple(str(one[key]) for key in told) for one in points),
    )


def _markdown(context: Json) -> str:
    lines = [f"# {markdown.escape(context['title'])}", "", markdown.prose(context["headline"]), ""]
    lines += [f"- no verdicts: {markdown.prose(one)}" for one in context["alerts"]]
    lines += [f"- {markdown.prose(one)}" for one in context["notes"]]
    lines += [f"- not compared: {markdown.prose(one)}" for one in context["left_out"]]
    for run in context["runs"]:
        told = ", ".join(text for text in (run["when"], run["built"], run["cpu"]) if text)
        lines.append(f"- {run['name']}: {markdown.code(run['id'])}, {markdown.escape(told)}")
    lines += ["", markdown.prose(context["counts"]) + ".", ""]
    cells = ([*row["cells"], row["provenance"]] for row in context["rows"])
    lines += markdown.table(context["columns"], (list(map(markdown.escape, row)) for row in cells))
    if context["more"]:
        lines += [f"{context['more']:,} more figures: `overside compare A B --all`.", ""]
    return "\n".join(lines)


def _parameter_names(entries: Sequence[MetricComparison]) -> dict[str, list[str]]:
    """Returns by task the parameters that a line shows: the usual ones, then those that differ
    between its tests."""
    names: dict[str, list[str]] = {}
    for task in {entry.task for entry in entries}:
        tests = [entry.parameters for entry in entries if entry.task == task]
        keys = dict.fromkeys(key for test in tests for key in test)
        differ = [key for key in keys if any(t.get(key) != tests[0].get(key) for t in tests)]
        names[task] = [key for key in keys if key in USUAL]
        names[task] += [key for key in differ if key not in USUAL]
    return names


def _row(entry: MetricComparison, names: Sequence[str]) -> list[str]:
    ratio = entry.ratio
    parts = []
    for key in names:
        value = entry.parameters.get(key)
        if value is not None:
            text = formatting.parameter(entry.task, key, value)
            parts.append(text if key in USUAL else f"{key}={text}")
    spread = "identical"
    if ratio.kind != "identical":
        kind = " (range)" if ratio.kind == "range" else ""
        spread = f"{_change(ratio.low)} to {_change(ratio.high)}{kind}"
    return [
        " ".join([entry.task, *parts]),
        entry.metric,
        _figure(entry.before, entry.unit),
        _figure(entry.after, entry.unit),
        _change(ratio.value),
        spread,
        f"{entry.threshold:.1%}",
        entry.verdict,
    ]


def _figure(value: float, unit: str) -> str:
    """A figure with its unit, sizes and times in the unit that fits them."""
    if unit == "bytes":
        return formatting.size(value)
    if unit == "s":
        return formatting.duration(value)
    return f"{formatting.number(value)} {unit if unit != '-' else ''}".rstrip()


def _change(ratio: float) -> str:
    """B against A: `-4.1%`, from twice as much on `2.3x`."""
    if not math.isfinite(ratio):
        return "any"
    return f"{formatting.times(ratio)}x" if ratio >= 2 else f"{ratio - 1:+.1%}"
