"""What a simulated scenario comes to, in the first lines of its answer.

The model compares the options of a scenario with its baseline, as it compares devices with the CPU
(`scenarios.toml` says by what). Here the comparisons become sentences: the best option that is
better for certain, else that the baseline stays, else that it cannot be told yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from overside.report import formatting
from overside.tasks.common import Json
from overside.verdict.decision import WIDE, Ratio, saved_words

#: The most conditions that have a line of their own.
LINES_MAX = 6


def lines(report: Json) -> list[str]:
    """The verdict of a report of the model, a line for each of its conditions."""
    compared = report.get("compared")
    if not compared:
        return list(_extremes(report["rows"]))
    by_conditions: dict[tuple[tuple[str, str], ...], list[Json]] = {}
    for row in compared["rows"]:
        conditions = tuple((name, value) for name, value in row["conditions"])
        by_conditions.setdefault(conditions, []).append(row)
    if compared.get("key") is None:
        # Each row is a condition of its own: they share a sentence where they come to the same.
        out = [_ratio(compared, rows[0], conditions) for conditions, rows in by_conditions.items()]
    else:
        out = [_choice(compared, rows, conditions) for conditions, rows in by_conditions.items()]
    left_out = len(out) - LINES_MAX
    more = [f"{formatting.plural(left_out, 'more condition')}: see the table."]
    return out[:LINES_MAX] + (more if left_out > 0 else [])


def _choice(compared: Json, rows: Sequence[Json], conditions: Sequence[tuple[str, str]]) -> str:
    """One condition: which option, and how much against the baseline."""
    key, base = compared["key"].replace("_", " "), f"{compared['key']} {compared['baseline']}"
    lead = _where(conditions)
    known = [row for row in rows if row.get("ratio")]
    if not known:
        why = next((row["why"] for row in rows if row.get("why")), "nothing was published")
        return f"{lead}cannot tell: {formatting.clean(why, 200)}."
    best = max(known, key=lambda row: row["ratio"]["typ"])
    figure = f"{compared['figure']}: {Ratio.of(best)} {base}"
    if best["verdict"] == "yes":
        saved = saved_words(best.get("host_cpu_saved"))
        extra = f"; {saved}" if saved and best.get("host_cpu_saved", {}).get("typ") else ""
        wide = f" ({WIDE})" if _is_wide(best) else ""
        return f"{lead}{key} {best['option']} is best. {_upper(figure)}{wide}{extra}."
    if best["verdict"] == "no":
        return f"{lead}keep {base}. Next is {best['option']}, {figure}."
    return f"{lead}cannot tell {best['option']} from {base}. {_upper(figure)}."


def _ratio(compared: Json, row: Json, conditions: Sequence[tuple[str, str]]) -> str:
    """One row whose figure is a ratio to the baseline."""
    lead, base = _where(conditions), compared["baseline"]
    if not row.get("ratio"):
        return f"{lead}cannot tell: {formatting.clean(row.get('why') or 'unknown', 200)}."
    words = {"yes": "faster than", "no": "slower than"}.get(row["verdict"], "cannot be told from")
    return f"{lead}{words} {base}: {Ratio.of(row)} it."


def _is_wide(row: Json) -> bool:
    ratio = Ratio.of(row)
    return ratio is not None and ratio.is_wide


def _where(conditions: Sequence[tuple[str, str]]) -> str:
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in conditions)
    return f"{_upper(words)}: " if words else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _extremes(rows: Sequence[Json]) -> Iterator[str]:
    """Where nothing is compared: the best and the worst row by the first figure that has a better
    direction."""
    told = [(row, figure) for row in rows if (figure := _first(row)) is not None]
    if not told:
        return
    name = told[0][1]["name"]
    same = [(row, figure) for row, figure in told if figure["name"] == name]
    best = max(same, key=lambda pair: _goodness(pair[1]))
    worst = min(same, key=lambda pair: _goodness(pair[1]))
    text = f"{_upper(name)}: {_amount(best[1])}{_label(best[0])}"
    if _goodness(best[1]) > _goodness(worst[1]):
        text += f" at best, {_amount(worst[1])}{_label(worst[0])} at worst"
    yield text + "."


def _first(row: Json) -> Json | None:
    figures = [row["throughput"], row["latency"], row["host_cores"], *row["more"]]
    for figure in figures:
        if figure is not None and "typ" in figure and figure["better"] != "neither":
            return dict(figure)
    return None


def _goodness(figure: Mapping[str, float]) -> float:
    typ = float(figure["typ"])
    return -typ if str(figure["better"]) == "lower" else typ


def _amount(figure: Json) -> str:
    typ = formatting.number(figure["typ"])
    spread = "" if figure["low"] == figure["high"] else f" ({_span(figure)})"
    return f"{typ} {figure['unit']}{spread}"


def _span(figure: Json) -> str:
    return formatting.span(figure["low"], figure["high"])


def _label(row: Json) -> str:
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in row["labels"])
    return f" with {words}" if words else ""
