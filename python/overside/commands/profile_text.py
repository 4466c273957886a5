"""Profiles as text for terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from overside.commands import table
from overside.tasks.common import Json

_WIDTH = 96
#: Points of a table that are shown in full; of a longer one, the ends.
_POINTS = 6


def number(value: float) -> str:
    """Five significant digits, without an exponent where that is short."""
    text = f"{value:.5g}"
    return f"{value:.0f}" if "e+" in text and value < 1e12 else text


def listed(profiles: Sequence[Json]) -> str:
    """A line a profile."""
    rows = [
        [
            one["name"],
            one.get("provenance", "published"),
            "yes" if one.get("operations") else "no",
            f"{one['card']}; {one['host_link']}",
        ]
        for one in profiles
    ]
    return table.text(["profile", "values", "emulated", "card and link"], rows)


def shown(found: Json) -> str:
    """A profile with every value, and what it does not say."""
    profile: Json = found["profile"]
    provenance = profile.get("provenance", "published")
    lines = [
        f"{profile['name']}: {profile['card']}",
        f"  link       {profile['host_link']}",
        f"  mode       {profile['mode']}",
        f"  values     {provenance}" + _warning(provenance),
    ]
    if found["why_not_emulated"]:
        lines.append(f"  emulation  none: {found['why_not_emulated']}")
    lines += [_wrapped(f"note: {note}") for note in profile.get("notes", ())]
    rows = [[one["key"], value_text(one), ", ".join(_rests_on(one))] for one in found["values"]]
    lines += ["", table.text(["value", "", "rests on"], rows)]
    absent = profile.get("absent", {})
    if absent:
        lines += ["", "It does not do"]
        lines += [_wrapped(f"{what}: {why}") for what, why in absent.items()]
    if found["missing"]:
        lines += ["", "What it does not say"]
        rows = [[one["key"], one["about"], _remedy(one["measured_by"])] for one in found["missing"]]
        lines.append(table.text(["value", "what it is", "what gives it"], rows))
    notes = [(one["key"], one["note"]) for one in found["values"] if one.get("note")]
    if notes:
        lines += ["", "Notes on values"]
        lines += [_wrapped(f"{key}: {note}") for key, note in notes]
    if profile["facts"]:
        lines += ["", "Facts"]
        lines += [_wrapped(f"{fact}: {says}") for fact, says in profile["facts"].items()]
        lines += ["", "Sources"]
        lines += [_wrapped(f"{key}: {says}") for key, says in profile["sources"].items()]
    return "\n".join(lines)


def _warning(provenance: str) -> str:
    if provenance == "emulated":
        return ", on an emulated device: they say nothing about a card; do not share it"
    return ""


def _wrapped(line: str) -> str:
    return textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _remedy(step: str | None) -> str:
    if step is None:
        return "a source, or a measurement of your own"
    return f"overside calibrate ({step})"


def _rests_on(one: Json) -> list[str]:
    return [*one["facts"], *(["its citation"] if one.get("citation") else [])]


def value_text(one: Json) -> str:
    """`1.97 (1.03 to 2.95) GiB/s`, or a table's points."""
    unit = "" if one["unit"] == "count" else one["unit"]
    if "by" in one:
        points = list(zip(one["at"], one["value"], strict=True))
        if len(points) > _POINTS:
            points = [*points[: _POINTS - 1], points[-1]]
            gap = _POINTS - 1
        else:
            gap = 0
        parts = [f"{number(at)}: {number(value)}" for at, value in points]
        if gap:
            parts.insert(gap, "...")
        return f"by {one['by']} {', '.join(parts)} {unit}".rstrip()
    if one["value"] is None:
        return f"at most {number(one['high'])} {unit}".rstrip()
    value = number(one["value"])
    if one["low"] != one["high"]:
        value += f" ({number(one['low'])} to {number(one['high'])})"
    return f"{value} {unit}".rstrip()


def differences(a: Json, b: Json) -> list[Json]:
    """Every value that either has: both as text, and B's over A's where both are one number of
    the same dimension."""
    left = {one["key"]: one for one in a["values"]}
    right = {one["key"]: one for one in b["values"]}
    rows = []
    for key in [*left, *(key for key in right if key not in left)]:
        mine, other = left.get(key), right.get(key)
        ratio = None
        if mine and other and mine.get("base") and other.get("base"):
            same = mine["dimension"] == other["dimension"]
            ratio = other["base"] / mine["base"] if same else None
        texts = [None if one is None else value_text(one) for one in (mine, other)]
        rows.append({"key": key, "a": texts[0], "b": texts[1], "ratio": ratio})
    return rows


def compared(rows: Sequence[Json], a: str, b: str) -> str:
    """Two profiles, value by value."""
    same = sum(row["a"] == row["b"] for row in rows)
    shown_rows = [
        [
            row["key"],
            row["a"] or "not said",
            row["b"] or "not said",
            "" if row["ratio"] is None else f"x{row['ratio']:.3g}",
        ]
        for row in rows
        if row["a"] != row["b"]
    ]
    if not shown_rows:
        return f"{a} and {b} say the same: {same} values"
    text = table.text(["value", a, b, f"{b} / {a}"], shown_rows)
    return f"{text}\n\n{same} values are the same."


def checked(answer: Json) -> str:
    """Returns a line for each problem with a profile's file, or that the file is right."""
    if answer["valid"]:
        return f"{answer['file']}: profile {answer['name']} is right"
    lines = []
    for one in answer["problems"]:
        place = f"{answer['file']}:" + (f"{one['line']}:" if one.get("line") else "")
        key = f" {one['key']}:" if one["key"] else ""
        remedy = f"; {one['remedy']}" if one["remedy"] else ""
        lines.append(f"{place}{key} {one['problem']}{remedy}")
    return "\n".join(lines)


def parameters(known: Sequence[Json]) -> str:
    """Returns a table of the parameters that profiles may have in [values] and [tables]."""
    rows = [
        [
            one["name"],
            " or ".join(one["dimensions"]),
            ", ".join(one["by"]) or "-",
            one["measured_by"] or "-",
            one["about"],
        ]
        for one in known
    ]
    text = table.text(["parameter", "counted as", "table by", "calibrate", ""], rows)
    lines = [
        text,
        "",
        "`*` stands for one word, `**` for one or more.",
        "",
        "What gives the others",
    ]
    tools: dict[str, list[str]] = {}
    for one in known:
        if one["otherwise"]:
            tools.setdefault(one["otherwise"], []).append(one["name"])
    lines += [_wrapped(f"{tool}: {', '.join(names)}") for tool, names in tools.items()]
    return "\n".join(lines)
