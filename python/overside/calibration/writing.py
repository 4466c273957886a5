"""Writing a profile: values and tables, each with its facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from overside.calibration import fit
from overside.tasks.common import Json

#: The first part of the ids under which a run's figures are cited.
SOURCE = "run"


def empty(source: str, **about: object) -> Json:
    """A profile in which nothing is measured yet. `about` says at least its name, card and mode."""
    return {
        "schema": "profile/1",
        "host_link": "none: this machine's own cores",
        "initiator": "host",
        "provenance": "measured",
        "notes": [],
        "sources": {SOURCE: source},
        "facts": {},
        "device": {"facts": []},
        "operations": [],
        "values": {},
        "tables": {},
        **about,
    }


@dataclass
class Writer:
    """Collects a profile's values and their facts."""

    form: Json
    notes: list[str] = field(default_factory=list)

    def fact(self, name: str, says: str) -> str:
        """Adds a fact and returns its id."""
        key = f"{SOURCE}.{name}"
        self.form["facts"].setdefault(key, says)
        return key

    def value(self, name: str, value: fit.Value | None, unit: str, fact: str) -> None:
        """Adds a value, if there is one."""
        if value is not None:
            self.form["values"][name] = quantity(value, unit, fact)

    def table(
        self,
        name: str,
        by: str,
        points: Sequence[tuple[float, fit.Value]],
        unit: str,
        fact: str,
    ) -> None:
        """Adds a table, if it has points."""
        if not points:
            return
        known = dict(points)
        at = sorted(known)
        widest = max((known[x].high / known[x].low for x in at), default=1.0)
        self.form["tables"][name] = {
            "by": by,
            "at": at,
            "value": [short(known[x].value) for x in at],
            "unit": unit,
            "facts": [fact],
            "note": f"medians over rounds; the widest interval is x{widest:.2f}",
        }


def short(number: float) -> float:
    """Five significant digits: rounds are not more precise."""
    return float(f"{number:.5g}")


def quantity(value: fit.Value, unit: str, fact: str, note: str = "") -> Json:
    """A value as profiles have it."""
    form: Json = {
        "low": short(value.low),
        "value": short(value.value),
        "high": short(value.high),
        "unit": unit,
        "facts": [fact],
    }
    if note:
        form["note"] = note
    return form


def machine(writer: Writer, environment: Json) -> None:
    """Adds the figures that the operating system reports about the machine."""
    cpu, memory = environment.get("cpu") or {}, environment.get("memory") or {}
    fact = writer.fact("machine", f"what the system says of itself: {cpu.get('model')}")
    found: dict[str, tuple[float, str]] = {}
    if cpu.get("cores"):
        found["cpu.cores"] = (cpu["cores"], "count")
    if cpu.get("online"):
        found["cpu.threads"] = (max(cpu["online"], cpu.get("cores") or 0), "count")
    if cpu.get("frequency_max_khz"):
        found["cpu.clock"] = (cpu["frequency_max_khz"] / 1e3, "MHz")
    if memory.get("total_bytes"):
        found["memory.size"] = (memory["total_bytes"], "B")
    for cache in cpu.get("caches") or ():
        if cache["level"] in (2, 3) and cache["type"] != "instruction":
            copies = max(1, (cpu.get("online") or 1) // max(1, cache["shared_by"]))
            found[f"memory.l{cache['level']}"] = (cache["size_bytes"] * copies, "B")
    for name, (value, unit) in found.items():
        writer.form["values"][name] = {"value": value, "unit": unit, "facts": [fact]}
    if not found:
        del writer.form["facts"][fact]
