"""Placements of one piece of work: the throughput for each share of the bytes on the device.

A sweep is one operation on one data set with one device beside the CPU, or several, over shares and
settings. TT is the throughput of one target alone, OT that of several together. C1: a device is
worth using if its TT beats the CPU's. C2: splitting is worth it if OT beats every TT. Both are
judged by the intervals: where they overlap, it is undecided. Points of different timing are never
compared: a sweep has the points of one clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from overside.bench.statistics import Estimate, RunView, TestSummary
from overside.report import best, formatting, groups
from overside.tasks.common import Json

#: Parameters that belong to one target, or that define how the work is shared.
_OF_DEVICE = ("device", "variant", "timing", "depth")
_OF_CPU = ("threads", "cores", "cpu_variant")
#: A task's placements on the device alone and on both, as the study of co-processing names them.
_IN_STUDY = {
    "compress": ("cDPU", "cCOMP"),
    "decompress": ("dDPU", "cDECOMP"),
    "match": ("rDPU", "cREG"),
}
_LEFT_OUT = {*_OF_DEVICE, *_OF_CPU, "placement", "setting", "batch", "completion"}

#: Settings in the order they are shown, and their names.
SETTINGS = {"static": "static", "reconfiguration": "set up again for each stream"}


#: Warning about jobs that a card's own cores would start.
STAND_IN = (
    "Not representative: these jobs are for the card's own cores to start, so the CPU target would "
    "be those; a core of this machine stands in for them."
)


@dataclass(frozen=True)
class Criterion:
    """Result of checking a criterion, with the figures that decide it."""

    name: str
    #: `None` if it is undecided.
    holds: bool | None
    text: str

    @property
    def word(self) -> str:
        """`C1 holds`."""
        if self.holds is None:
            return f"{self.name} cannot be told"
        return f"{self.name} {'holds' if self.holds else 'does not hold'}"


@dataclass(frozen=True)
class Point:
    """One placement that was measured."""

    test: TestSummary
    #: Percent of the bytes that it asks to be on the device; `None`: adaptive.
    asked: float | None

    @property
    def throughput(self) -> Estimate:
        """MB/s of the uncompressed side, both targets together."""
        return self.test.metrics["throughput"]

    @property
    def share(self) -> float:
        """Percent of the bytes that really were on the device."""
        found = self.test.metrics.get("device_share")
        return found.median if found is not None else self.asked or 0.0

    @property
    def devices(self) -> list[str]:
        """The names of the devices beside the CPU; none of the CPU alone."""
        return [] if self.asked == 0.0 else str(self.test.parameters["device"]).split("+")

    @property
    def shares(self) -> list[float]:
        """Percent for each device, where they are asked for."""
        text = str(self.test.parameters["placement"])
        return _shares(text) if text.startswith("split:") else []

    @property
    def alone(self) -> bool:
        """`True` if one target does all the work."""
        return self.asked == 0.0 or (
            self.asked == 100.0 and (len(self.devices) == 1 or 100.0 in self.shares)
        )

    @property
    def name(self) -> str:
        """`CPU alone`, `40 %`, `device alone`, `adaptive`; of several devices `90 + 10 %`, and the
        one that does it all by its name."""
        if self.asked is None:
            return "adaptive"
        if len(self.devices) < 2:
            return {0.0: "CPU alone", 100.0: "device alone"}.get(self.asked, f"{self.asked:g} %")
        if not self.shares:
            return "devices together"
        if self.alone:
            return f"{formatting.device(self.devices[self.shares.index(100.0)])} alone"
        return f"{' + '.join(f'{share:g}' for share in self.shares)} %"

    @property
    def in_study(self) -> str:
        """Name of the point in the study of co-processing: `fCPU`, `cDPU`, `cCOMP`.

        Empty if the study has no such point.
        """
        device, split = _IN_STUDY.get(self.test.task, ("", ""))
        if self.asked is None or not device or len(self.devices) > 1:
            return ""
        return {0.0: "fCPU", 100.0: device}.get(self.asked, split)


@dataclass(frozen=True)
class Series:
    """All shares in one setting."""

    #: `static` or `reconfiguration`.
    setting: str
    #: With a share, ascending.
    points: tuple[Point, ...]
    adaptive: Point | None

    @property
    def title(self) -> str:
        """The setting as readers know it."""
        return SETTINGS.get(self.setting, formatting.clean(self.setting, 40))

    def at(self, asked: float) -> Point | None:
        """The point of a share."""
        return next((point for point in self.points if point.asked == asked), None)

    @property
    def optimum(self) -> Point | None:
        """The fastest share; `None` where there is nothing to choose from."""
        if len(self.points) < 2:
            return None
        return _fastest(self.points)

    @property
    def level(self) -> list[Point]:
        """Other shares that are as fast as the optimum within the intervals."""
        top = self.optimum
        if top is None:
            return []
        return [p for p in self.points if p is not top and p.throughput.high >= top.throughput.low]

    @property
    def all(self) -> tuple[Point, ...]:
        """With adaptive, last."""
        return (*self.points, *([self.adaptive] if self.adaptive else []))


@dataclass(frozen=True)
class Sweep:
    """One operation with one device beside the CPU, or several."""

    title: str
    detail: str
    #: The device's name in the box.
    device: str
    #: The chunk in bytes.
    chunk_bytes: int | None
    #: Library and threads of the CPU target: `libdeflate, 1 thread`; empty without one.
    cpu: str
    series: tuple[Series, ...]
    #: The weakest of its tests'.
    provenance: str
    #: Reason why there are no points to show; empty if there are.
    reason: str
    #: Tests that are not shown because their times mean nothing.
    left_out: int

    @property
    def devices(self) -> list[str]:
        """The devices beside the CPU."""
        return self.device.split("+")

    @property
    def label(self) -> str:
        """The device as readers know it."""
        return formatting.device(self.device)

    @property
    def note(self) -> str:
        """Sentence about the points that are left out, with the reason; empty if none are."""
        if not self.left_out:
            return ""
        return (
            f"{formatting.plural(self.left_out, 'point')} omitted: this machine is too slow to "
            "emulate the card in real time, or the timing is functional."
        )

    @property
    def is_stand_in(self) -> bool:
        """The jobs are the card's own cores' to start; this machine's core stands in for them."""
        found = (point.test.placement or {} for one in self.series for point in one.all)
        return any(one.get("initiator") == "soc" for one in found)

    @property
    def missing(self) -> list[str]:
        """Terms of the device's time that no published fact gives."""
        found: dict[str, None] = {}
        for one in self.series:
            for point in one.all:
                terms = (point.test.model or {}).get("missing") or ()
                found.update((formatting.clean(term, 200), None) for term in terms)
        return list(found)


def placed(test: TestSummary) -> bool:
    """`True` for a test of a placement."""
    return test.parameters.get("placement") is not None


def sweeps(view: RunView) -> list[Sweep]:
    """The sweeps of a run, in the order in which its tests were planned."""
    tests = [test for test in view.tests if placed(test)]
    data = {str(test.parameters.get("data")) for test in view.tests}
    cpu = [test for test in tests if test.parameters["placement"] == "cpu"]
    found: dict[str, list[TestSummary]] = {}
    for test in tests:
        if test.parameters["placement"] != "cpu":
            found.setdefault(_key(test, _OF_DEVICE), []).append(test)
    out = []
    for own in found.values():
        work = _key(own[0], ())
        clocks = {_clock(test) for test in own}
        beside = [
            test
            for test in cpu
            if _key(test, ()) == work and _same_cpu(test, own) and _clock(test) in clocks
        ]
        out.append(_sweep([*beside, *own], own[0], len(data) > 1))
    return out


def _key(test: TestSummary, own: Sequence[str]) -> str:
    work = {n: v for n, v in test.parameters.items() if n not in _LEFT_OUT or n in own}
    return json.dumps([test.task, work], sort_keys=True, default=str)


def _clock(test: TestSummary) -> str:
    """The clock of a test's times: `virtual`, or real time for all other timings."""
    return "virtual" if test.parameters.get("timing") == "virtual" else "real"


def _same_cpu(test: TestSummary, own: Sequence[TestSummary]) -> bool:
    """Returns `True` if the CPU target of a test is that of the splits, or there are no splits."""
    splits = [t for t in own if t.parameters["placement"] != "device"]
    mine = [test.parameters.get(name) for name in _OF_CPU]
    return not splits or any([t.parameters.get(n) for n in _OF_CPU] == mine for t in splits)


def _sweep(tests: Sequence[TestSummary], lead: TestSummary, many: bool) -> Sweep:
    shown = [t for t in tests if groups.timed(t) and "throughput" in t.metrics]
    series = [one for name in SETTINGS if (one := _series(shown, name)).all]
    passed = [t for t in tests if groups.verified(t) and t.parameters["placement"] != "cpu"]
    known = [t.provenance for t in passed if t.provenance]
    order = list(formatting.PROVENANCE)
    return Sweep(
        title=formatting.operation(lead.task, lead.parameters),
        detail=", ".join(_detail(lead, many)),
        device=formatting.clean(lead.parameters.get("device"), 80),
        chunk_bytes=groups.size_bytes(lead),
        cpu=next((text for test in tests if (text := _cpu(test))), ""),
        series=tuple(series) if passed else (),
        provenance=max((k for k in known if k in order), key=order.index, default="measured"),
        reason="" if passed else formatting.clean(lead.reason or "nothing was measured", 600),
        left_out=sum(groups.verified(t) for t in tests) - len(shown),
    )


def _cpu(test: TestSummary) -> str:
    """Returns the library and the threads of a test's CPU target; empty if it did not run."""
    target = (test.placement or {}).get("cpu") or {}
    variant, threads = (target.get("applied") or {}).get("variant"), test.parameters.get("threads")
    if not variant:
        return ""
    count = formatting.plural(threads, "thread") if isinstance(threads, int) else ""
    return ", ".join(filter(None, (formatting.library(variant), count)))


def _detail(test: TestSummary, many_data: bool) -> Iterator[str]:
    parameters = test.parameters
    if parameters.get("level") is not None:
        yield f"level {formatting.value(parameters['level'])}"
    if parameters.get("patterns"):
        yield f"patterns {formatting.value(parameters['patterns'])}"
    if many_data:
        yield f"on “{formatting.value(parameters.get('data'))}”"


def _series(tests: Sequence[TestSummary], setting: str) -> Series:
    mine = [t for t in tests if t.parameters.get("setting", "static") == setting]
    points = [Point(t, _percent(t.parameters["placement"])) for t in mine]
    fixed = sorted((p for p in points if p.asked is not None), key=lambda p: p.asked or 0.0)
    free = [p for p in points if p.test.parameters["placement"] == "adaptive"]
    return Series(setting, tuple(fixed), free[0] if free else None)


def _percent(placement: object) -> float | None:
    """The share of the bytes that is asked to go to the device; `None` where it is chosen while
    running, and for other values."""
    text = {"cpu": "0", "device": "100"}.get(str(placement), str(placement))
    try:
        return sum(_shares(text))
    except ValueError:
        return None


def _shares(text: str) -> list[float]:
    return [float(share) for share in text.removeprefix("split:").split("+")]


def verdicts(series: Series) -> list[Criterion]:
    """C1 and C2."""
    alone = [point for point in series.points if point.alone]
    cpu = next((point for point in alone if point.asked == 0.0), None)
    devices = [point for point in alone if point.asked == 100.0]
    if cpu is None or not devices:
        side = "the CPU" if cpu is None else "the device"
        text = f"{side} alone has no result."
        return [Criterion("C1", None, text), Criterion("C2", None, text)]
    return [_c1(cpu, _fastest(devices)), _c2(series, [cpu, *devices])]


def _fastest(points: Sequence[Point]) -> Point:
    return max(points, key=lambda one: one.throughput.median)


def _c1(cpu: Point, device: Point) -> Criterion:
    text = (
        f"the {device.name} does {rate(device)}, the CPU alone {rate(cpu)} (TT)"
        f"{_times(device, cpu)}."
    )
    return Criterion("C1", _faster(device, cpu), text)


def _c2(series: Series, alone: Sequence[Point]) -> Criterion:
    splits = [point for point in series.points if not point.alone]
    if not splits:
        return Criterion("C2", None, "no split was measured.")
    top, better = _fastest(splits), _fastest(alone)
    side = "side" if len(alone) == 2 else "target"
    text = (
        f"the best split, {_on_device(top)}, does {rate(top)} (OT), the "
        f"{'better' if side == 'side' else 'best'} {side}, the {better.name}, {rate(better)} (TT)"
        f"{_times(top, better)}."
    )
    faster = [_faster(top, one) for one in alone]
    holds = False if False in faster else (None if None in faster else True)
    return Criterion("C2", holds, text)


def _faster(one: Point, other: Point) -> bool | None:
    """Returns `True` if `one` is surely faster, `False` if `other` is.

    `None` if the intervals overlap, or there are too few rounds.
    """
    a, b = one.throughput, other.throughput
    if min(a.n, b.n) < best.ROUNDS_TO_COMPARE:
        return None
    if a.low > b.high:
        return True
    return False if a.high < b.low else None


def _times(one: Point, other: Point) -> str:
    if _faster(one, other) is None:
        few = min(one.throughput.n, other.throughput.n) < best.ROUNDS_TO_COMPARE
        return ": too few rounds to tell" if few else ": the intervals overlap"
    ratio = best.speed_up(one.throughput, other.throughput)
    if ratio is None:
        return ""
    spread = f" ({formatting.span(ratio.low, ratio.high)})" if ratio.low != ratio.high else ""
    return f": {formatting.number(ratio.typical)} times{spread}"


def rate(point: Point) -> str:
    """`1,480 MB/s (1,470–1,490)`."""
    estimate = point.throughput
    return f"{formatting.number(estimate.median)} MB/s ({best.interval(estimate)})"


def sentences(series: Series) -> list[tuple[str, str]]:
    """Returns the results of a setting as sentences, each with a word in front."""
    out = []
    top = series.optimum
    if top is not None:
        level = series.level
        same = f"; statistically tied with it: {best.names([p.name for p in level])}"
        out.append(("Best", f"{_on_device(top)}: {rate(top)}{same if level else ''}."))
    out += [(verdict.word, verdict.text) for verdict in verdicts(series)]
    if series.adaptive is not None:
        out.append(("Adaptive", _adaptive(series.adaptive, top)))
    saved = _saved(series)
    if saved:
        out.append(("Host CPU", saved))
    return out


def brief(series: Series) -> str:
    """Summary on one line: the best share, C1 and C2, and how near adaptive came."""
    top, adaptive = series.optimum, series.adaptive
    parts = [f"best with {_on_device(top)}, {rate(top)}"] if top else []
    parts += [verdict.word for verdict in verdicts(series)]
    if adaptive is not None and top is not None:
        parts.append(f"adaptive {_times_best(adaptive, top)} times the best share")
    return f"{'; '.join(parts)}."


def _on_device(point: Point) -> str:
    if point.alone or not point.name.endswith("%"):
        return f"the {point.name}"
    where = "devices" if len(point.devices) > 1 else "device"
    return f"{point.name} of the bytes on the {where}"


def _adaptive(adaptive: Point, top: Point | None) -> str:
    text = f"{rate(adaptive)} with {formatting.number(adaptive.share)} % of the bytes on the device"
    if top is None:
        return f"{text}."
    return f"{text}: {_times_best(adaptive, top)} times the best fixed share."


def _times_best(adaptive: Point, top: Point) -> str:
    return formatting.number(adaptive.throughput.median / top.throughput.median)


def _saved(series: Series) -> str:
    cpu, top = series.at(0.0), series.optimum
    if cpu is None or top is None or top is cpu:
        return ""
    alone, now = (p.test.metrics.get("cpu_cost") for p in (cpu, top))
    if alone is None or now is None or alone.median <= 0:
        return ""
    gone = 1 - now.median / alone.median
    what = "saved" if gone >= 0 else "more"
    return (
        f"{formatting.number(now.median)} CPU seconds per GB at the best share, "
        f"{formatting.number(alone.median)} with the CPU alone: "
        f"{formatting.number(abs(gone) * 100)} % {what}. What emulation burns is on another ledger."
    )


def reason(series: Series) -> str:
    """Returns the reason for the last adaptive decision, in numbers; empty if there was none."""
    found = (series.adaptive.test.placement or {}) if series.adaptive else {}
    return formatting.clean(found.get("decision") or "", 1_000)


def events(sweep: Sweep) -> list[str]:
    """Returns the distinct problems on the device, of all tests."""
    found: dict[str, None] = {}
    for series in sweep.series:
        for point in series.all:
            told = (point.test.placement or {}).get("events") or ()
            found.update((formatting.clean(text, 400), None) for text in told)
    return list(found)


COLUMNS = (
    "Setting",
    "Placement",
    "On the device, %",
    "OT, MB/s",
    "CPU target, MB/s",
    "Device target, MB/s",
    "Engine, MB/s",
    "CPU use, %",
    "CPU s/GB",
    "Rounds",
)


def table(sweep: Sweep) -> list[tuple[str, ...]]:
    """Returns a row for each point, as `COLUMNS`; the optimum of each setting is marked."""
    rows = []
    for series in sweep.series:
        top = series.optimum
        for point in series.all:
            figures = (
                _figure(point.test, name)
                for name in (
                    "device_share",
                    "throughput",
                    "cpu_target_throughput",
                    "device_target_throughput",
                    "engine_throughput",
                    "cpu_utilisation",
                    "cpu_cost",
                )
            )
            name = f"{point.name}, {point.in_study}" if point.in_study else point.name
            name = f"{name} (best)" if point is top else name
            rows.append((series.title, name, *figures, str(point.throughput.n)))
    return rows


def _figure(test: TestSummary, name: str) -> str:
    estimate = test.metrics.get(name)
    if estimate is None:
        return "–"
    if estimate.low == estimate.high:
        return formatting.number(estimate.median)
    return f"{formatting.number(estimate.median)} ({formatting.span(estimate.low, estimate.high)})"


def as_json(sweep: Sweep) -> Json:
    """For programs."""
    return {
        "title": sweep.title,
        "detail": sweep.detail,
        "device": sweep.device,
        "chunk_bytes": sweep.chunk_bytes,
        "cpu": sweep.cpu or None,
        "provenance": sweep.provenance,
        "reason": sweep.reason or None,
        "stand_in": sweep.is_stand_in,
        "missing": sweep.missing,
        "settings": [_series_json(series) for series in sweep.series],
    }


def _series_json(series: Series) -> Json:
    top = series.optimum
    return {
        "setting": series.setting,
        "optimum": top.test.parameters["placement"] if top else None,
        "as_fast": [point.test.parameters["placement"] for point in series.level],
        "verdicts": {v.name: {"holds": v.holds, "text": v.text} for v in verdicts(series)},
        "points": [
            {
                "test": point.test.id,
                "placement": point.test.parameters["placement"],
                "in_study": point.in_study or None,
                "device_share": point.share,
                "throughput": point.throughput.median,
            }
            for point in series.all
        ],
    }
