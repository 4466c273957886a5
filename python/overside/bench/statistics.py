"""Statistics of a run's samples: estimates with intervals, and the run as reports see it.

The unit of repetition is the round, one fresh process. A test has at most one sample a round, so
`n` is a number of rounds, and nothing here ever treats what happens inside one sample as
repetition. docs/measure/measuring.md explains the choices.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median

from overside.bench import store
from overside.tasks.common import ALL, LOCAL, Json

#: Fewer rounds than this give a range only: 6 is the least for which the extremes hold the median
#: with 95 % confidence (1 - 2 * 0.5**6 = 97 %).
ROUNDS_FOR_INTERVAL = 6
#: From here on the interval is a bootstrap over rounds.
ROUNDS_FOR_BOOTSTRAP = 20
RESAMPLES = 2000
#: Normal consistency of the median absolute deviation.
MAD_TO_SIGMA = 1.4826


#: Possible outcomes of a test.
STATUSES = ("ok", "invalid", "failed", "skipped", "missing")
#: The share of late completions above which emulated timing is invalid.
LATE_LIMIT = 0.01
#: Metrics that no clock takes part in: valid whatever the timing.
CLOCKLESS_METRICS = frozenset({"ratio"})


@dataclass(frozen=True)
class Estimate:
    """A metric over the rounds of a test."""

    median: float
    #: The ends of the 95 % interval of the median, or of the range.
    low: float
    high: float
    #: `interval`, or `range` where there are too few rounds for an interval; `bounds` where the
    #: ends are those of an emulated device's published values.
    kind: str
    #: Median absolute deviation from the median.
    mad: float
    minimum: float
    maximum: float
    #: Rounds.
    n: int

    @property
    def width(self) -> float:
        """Width of the interval relative to the median; infinite where that is zero."""
        if self.high == self.low:
            return 0.0
        return (self.high - self.low) / abs(self.median) if self.median else math.inf


@dataclass(frozen=True)
class Outlier:
    """A sample far from the others of its test. It is named, and counted like the others."""

    metric: str
    round: int
    value: float


@dataclass
class TestSummary:
    """One test of a run with all figures of its samples."""

    __test__ = False  # not a test of pytest

    id: str
    task: str
    parameters: Json
    #: Metrics that the box asked for; `metrics` has all there are.
    asked: list[str]
    block: int
    node: str
    #: `ok`; `invalid` (its emulated timing is: too much came late); `failed` (at least one sample
    #: failed); `skipped`; `missing` (not measured yet).
    status: str
    #: Message for users that explains why the test has no result; `None` if it has one.
    reason: str | None
    #: Kind of the first failure (docs/measure/results.md), else `None`.
    error_kind: str | None
    #: The weakest of its samples'; `None` without a sample.
    provenance: str | None
    #: Weakest timing of its samples; `None` without a sample.
    timing: str | None
    #: Library, device and driver of the last round; a warning reports differences between rounds.
    applied: Json | None
    #: The way through the card (modes.md) in all rounds, joined where they differ; `None`
    #: without a card.
    card_mode: str | None
    verified: bool
    #: Estimate of each metric, from the samples that are ok.
    metrics: dict[str, Estimate]
    #: Values of each metric before they were summed up: metric -> round -> value.
    values: dict[str, dict[int, float]] = field(repr=False)
    #: Median over the rounds, in nanoseconds (docs/measure/results.md, `stages`).
    stages: dict[str, float]
    #: Median over the rounds, CPU seconds a sample: `host_s`, `dpu_s`, `emulator_s`.
    cpu: dict[str, float]
    #: Completions later than the profile's time, as a share of the jobs: the mean over the rounds.
    #: `None` for a real device.
    late_share: float | None
    model: Json | None
    #: Lowest and highest figure that the published values allow, by metric (results.md, `bounds`).
    bounds: dict[str, list[float]]
    #: Shares of CPU and device in the last round (results.md, `placement`); `None` if the
    #: device was measured alone.
    placement: Json | None
    #: Slices of the last round over time (results.md, `series`); `None` if it has none.
    series: Json | None
    #: `{"kind", "message", "remedy"}`, each once.
    warnings: list[Json]
    outliers: list[Outlier]
    #: Work of all rounds that are ok.
    work: Json
    check: Json | None
    #: Latency histograms of its rounds; `latency` merges them.
    histograms: list[str] = field(default_factory=list, repr=False)

    def bounded(self, metric: str) -> Estimate | None:
        """The estimate of a metric; of an emulated device with the ends that the published values
        allow."""
        found, ends = self.metrics.get(metric), self.bounds.get(metric)
        if found is None or ends is None:
            return found
        low, high = min(found.low, ends[0]), max(found.high, ends[1])
        return replace(found, low=low, high=high, kind="bounds")

    def latency(self) -> Json | None:
        """All rounds' latencies in one histogram, in nanoseconds, as
        `overside._core.merge_histograms` gives it; `None` if there is none."""
        if not self.histograms:
            return None
        from overside import _core  # noqa: PLC0415 (not needed by who only wants figures)

        merged: Json = json.loads(_core.merge_histograms(self.histograms))
        return merged


@dataclass
class RunView:
    """A run as reports and comparisons see it."""

    path: Path
    #: manifest.json (docs/measure/results.md).
    manifest: Json
    #: nodes/local.json; empty if it is missing.
    environment: Json
    tests: list[TestSummary]
    #: Environments of other nodes that measured; of each machine of a merged run.
    nodes: Json = field(default_factory=dict)

    @property
    def is_merged(self) -> bool:
        """`True` if it was made of runs of several machines (`overside fleet run`)."""
        return "fleet" in self.manifest

    def here(self) -> RunView:
        """Returns the run without the tests of other nodes; a merged run as it is."""
        if self.is_merged:
            return self
        own = [test for test in self.tests if test.node == LOCAL]
        return replace(self, tests=own, nodes={})

    def metric(self, task: str, name: str) -> Json:
        """`{"unit", "better", "description"}` of a task's metric."""
        known: Json = self.manifest.get("metrics", {})
        unknown = {"unit": "", "better": "higher", "description": ""}
        info: Json = known.get(f"{task}.{name}") or known.get(name) or unknown
        return info

    def json(self) -> Json:
        """All statistics, for programs."""
        return {
            "schema": "run-view/1",
            "manifest": self.manifest,
            "environment": self.environment,
            **({"nodes": self.nodes} if self.nodes else {}),
            "tests": [asdict(test) for test in self.tests],
        }


def estimate(values: Sequence[float]) -> Estimate:
    """Median with its 95 % interval.

    Up to 19 rounds the interval is made of order statistics: it ends at the values which a
    binomial distribution puts outside the median with at most 2.5 % on each side, so it holds
    whatever the distribution is. From 20 on it is the percentile bootstrap over rounds.
    """
    if not values:
        raise ValueError("an estimate needs at least one value")
    ordered = sorted(values)
    n = len(ordered)
    middle = median(ordered)
    if n < ROUNDS_FOR_INTERVAL:
        kind, low, high = "range", ordered[0], ordered[-1]
    elif n < ROUNDS_FOR_BOOTSTRAP:
        rank = _interval_rank(n)
        kind, low, high = "interval", ordered[rank - 1], ordered[n - rank]
    else:
        kind = "interval"
        low, high = _bootstrap_interval(ordered)
    return Estimate(
        median=middle,
        low=low,
        high=high,
        kind=kind,
        mad=median([abs(value - middle) for value in ordered]),
        minimum=ordered[0],
        maximum=ordered[-1],
        n=n,
    )


@cache
def _interval_rank(n: int) -> int:
    """The largest k for which the k-th smallest and the k-th largest of n values hold the median
    between them with at least 95 %."""
    below = 0.0
    rank = 0
    for k in range(n):
        below += math.comb(n, k) / 2**n
        if below > 0.025:
            break
        rank = k + 1
    return rank


@cache
def _resampled_middles(n: int) -> list[tuple[int, int, int]]:
    """For n ordered values: which two of them are in the middle of a resample, and how often that
    happens in `RESAMPLES` of them. The same for all data of that length, so drawn once."""
    draw = random.Random(n)  # noqa: S311 (not for secrets)
    middles: Counter[tuple[int, int]] = Counter()
    for _ in range(RESAMPLES):
        ranks = sorted(draw.choices(range(n), k=n))
        middles[ranks[(n - 1) // 2], ranks[n // 2]] += 1
    return [(low, high, count) for (low, high), count in middles.items()]


def resampled_medians(values: Sequence[float]) -> list[tuple[float, int]]:
    """The medians of `RESAMPLES` resamples in ascending order, each with how often it came."""
    ordered = sorted(values)
    return sorted(
        ((ordered[low] + ordered[high]) / 2, count)
        for low, high, count in _resampled_middles(len(ordered))
    )


def _bootstrap_interval(ordered: Sequence[float]) -> tuple[float, float]:
    medians = resampled_medians(ordered)
    return weighted_quantile(medians, 0.025), weighted_quantile(medians, 0.975)


def weighted_quantile(ordered: Sequence[tuple[float, int]], share: float) -> float:
    """The value below which `share` of the counts lie, of values in ascending order."""
    rank = share * sum(count for _, count in ordered)
    passed = 0
    for value, count in ordered:
        passed += count
        if passed >= rank:
            return value
    return ordered[-1][0]


def outliers(values: Mapping[int, float], metric: str) -> list[Outlier]:
    """The rounds whose value is further than 3.5 robust standard deviations, and further than
    2 %, from the median. With fewer than 6 rounds nothing is called that."""
    if len(values) < ROUNDS_FOR_INTERVAL:
        return []
    figures = estimate(list(values.values()))
    limit = max(3.5 * MAD_TO_SIGMA * figures.mad, 0.02 * abs(figures.median))
    return [
        Outlier(metric, number, value)
        for number, value in sorted(values.items())
        if abs(value - figures.median) > limit
    ]


#: Weakest last.
_PROVENANCE = ("measured", "emulated", "modelled", "published")
#: Kinds of timing; the last gives the least information about a device.
_TIMING = ("real", "virtual", "paced", "replay", "functional")


def summarise(test: Json, samples: Sequence[Json], late_limit: float = LATE_LIMIT) -> TestSummary:
    """Summarises the samples of one test of a manifest.

    `late_limit` is the share of late completions above which emulated timing is invalid.
    """
    good = [sample for sample in samples if sample.get("status") == "ok"]
    failed = [sample for sample in samples if sample.get("status") == "failed"]
    skipped = [sample for sample in samples if sample.get("status") == "skipped"]
    late_share = _late_share(good)
    status, reason, kind = _status(test, good, failed, skipped)
    if status == "ok" and late_share is not None and late_share > late_limit:
        status, reason = "invalid", _late_reason(good, late_limit)
    by_metric: dict[str, dict[int, float]] = {}
    for sample in good:
        for name, value in sample.get("metrics", {}).items():
            by_metric.setdefault(name, {})[sample["round"]] = value
    last: Json = good[-1] if good else {}
    asked = list(test.get("metrics") or ())
    return TestSummary(
        id=test["id"],
        task=test["task"],
        parameters=_counted(test["parameters"], last.get("threads")),
        asked=asked,
        block=test.get("block") or 0,
        node=test.get("node", LOCAL),
        status=status,
        reason=reason,
        error_kind=kind,
        provenance=_weakest(good, "provenance", _PROVENANCE),
        timing=_weakest(good, "timing", _TIMING),
        applied=last.get("applied"),
        card_mode=" / ".join(sorted({sample.get("card_mode") or "none" for sample in good}))
        if any(sample.get("card_mode") for sample in good)
        else None,
        verified=bool(test.get("verified", True)) and not failed,
        metrics={name: estimate(list(values.values())) for name, values in by_metric.items()},
        values=by_metric,
        stages=_medians(good, "stages"),
        cpu=_medians(good, "cpu"),
        late_share=late_share,
        model=last.get("model"),
        bounds=last.get("bounds") or {},
        series=last.get("series"),
        placement=last.get("placement"),
        warnings=[*_distinct_warnings(samples), *_changes(good)],
        outliers=[
            outlier
            for name, values in by_metric.items()
            if name in asked
            for outlier in outliers(values, name)
        ],
        work={
            key: sum(sample.get("work", {}).get(key) or 0 for sample in good)
            for key in ("jobs", "bytes", "compressed_bytes")
        },
        check=last.get("check"),
        histograms=[sample["histogram"] for sample in good if sample.get("histogram")],
    )


def _counted(parameters: Json, cores: int | None) -> Json:
    """The parameters, with the number of cores where all of them were asked for."""
    if cores is None:
        return parameters
    return {name: cores if value == ALL else value for name, value in parameters.items()}


def _status(
    test: Json, good: list[Json], failed: list[Json], skipped: list[Json]
) -> tuple[str, str | None, str | None]:
    """Status, reason, and kind of failure."""
    if failed:
        error = failed[0].get("error") or {}
        many = f" ({len(failed)} of {len(failed) + len(good)} rounds)" if good else ""
        return "failed", f"{error.get('message', 'failed')}{many}", error.get("kind", "internal")
    if test.get("status") == "skipped":
        return "skipped", test.get("reason"), None
    if good:
        return "ok", None, None
    if skipped:
        return "skipped", skipped[0].get("reason"), None
    return "missing", "not measured yet", None


def _medians(samples: Sequence[Json], key: str) -> dict[str, float]:
    collected: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in (sample.get(key) or {}).items():
            if value is not None:
                collected.setdefault(name, []).append(value)
    return {name: median(values) for name, values in collected.items()}


def _weakest(samples: Sequence[Json], key: str, order: Sequence[str]) -> str | None:
    """The samples' value that stands last in `order`."""
    found = {sample[key] for sample in samples if sample.get(key) in order}
    return max(found, key=order.index) if found else None


def _late_share(samples: Sequence[Json]) -> float | None:
    """The mean of the rounds' shares. All rounds together would not do: an invalid round is a slow
    one, and among faster rounds its few jobs are lost."""
    paced = [one for one in samples if one.get("late") is not None and one.get("timing") != "real"]
    shares = [share for sample in paced if (share := _late(sample)) is not None]
    return sum(shares) / len(shares) if shares else None


def _late(sample: Json) -> float | None:
    """Returns the share of a sample's completions that were late, from 0 to 1; `None` if unknown.

    A placement has one time for all its completions: the share of its time during which a
    completion was overdue.
    """
    devices = (sample.get("placement") or {}).get("devices")
    if devices:
        overdue = [device.get("overdue_ns") for device in devices]
        part = sum(overdue) if all(isinstance(ns, int) for ns in overdue) else None
        whole = sample.get("elapsed_ns")
    else:
        jobs = (sample.get("work") or {}).get("jobs")
        part, whole = sample["late"], sample.get("late_of", jobs)
    if not isinstance(part, int) or not isinstance(whole, int) or whole == 0:
        return None
    return part / whole


def _late_reason(samples: Sequence[Json], limit: float) -> str:
    placed = any((sample.get("placement") or {}).get("devices") for sample in samples)
    what = "of the time a completion was overdue" if placed else "of the completions came late"
    return (
        f"the emulated timing is invalid: more than {limit * 100:g} % {what}; use timing=virtual, "
        "or give the emulation a processor of its own (fewer threads), or larger buffers"
    )


def _changes(samples: Sequence[Json]) -> list[Json]:
    """A warning where not all rounds ran the same: an update between a run and its resumption."""
    found: dict[str, dict[str, None]] = {}
    for sample in samples:
        ran = _ran(sample)
        for name, value in ran.items():
            if value is not None:
                found.setdefault(name, {})[str(value)] = None
    differ = [f"{name} {', then '.join(some)}" for name, some in found.items() if len(some) > 1]
    if not differ:
        return []
    return [
        {
            "kind": "changed",
            "message": f"not the same ran in all rounds: {'; '.join(differ)}",
            "remedy": "measure it in a new run",
        }
    ]


def _ran(sample: Json) -> Json:
    """Returns the timing of a sample, and the device and library that ran it.

    For a placement, returns those of each target; a target may have had no part.
    """
    placement = sample.get("placement")
    if not placement:
        return {"timing": sample.get("timing"), **(sample.get("applied") or {})}
    devices = enumerate(placement.get("devices") or [], 1)
    parts = {"cpu": placement.get("cpu") or {}}
    parts |= {f"device{number if number > 1 else ''}": device for number, device in devices}
    targets = {target: part.get("applied") or {} for target, part in parts.items()}
    return {
        f"{target} target's {name}": v
        for target, about in targets.items()
        for name, v in about.items()
    }


def _distinct_warnings(samples: Sequence[Json]) -> list[Json]:
    """Each kind of warning once. Those that differ only in their figures are the same; the first
    stands for all, with the number of rounds."""
    found: dict[tuple[str, ...], Json] = {}
    rounds: Counter[tuple[str, ...]] = Counter()
    for sample in samples:
        for warning in sample.get("warnings") or ():
            key = tuple(re.sub(r"[0-9][0-9.,]*", "#", str(part)) for part in warning.values())
            found.setdefault(key, warning)
            rounds[key] += 1
    return [
        warning
        if rounds[key] == 1
        else warning | {"message": f"{warning['message']} ({rounds[key]} rounds)"}
        for key, warning in found.items()
    ]


def load_run(path: Path) -> RunView:
    """Reads a run directory, whatever state it is in.

    Raises `UserError` if it is none.
    """
    manifest = store.read_manifest(path)
    return RunView(
        path=path,
        manifest=manifest,
        environment=store.read_environment(path),
        tests=load_tests(path, manifest),
        nodes=store.read_nodes(path),
    )


def load_tests(path: Path, manifest: Json) -> list[TestSummary]:
    """A summary of each of a manifest's tests, by the samples in the run's directory."""
    limit = manifest.get("late_limit")
    late_limit = float(limit) if isinstance(limit, int | float) else LATE_LIMIT
    by_test: dict[str, list[Json]] = {}
    for sample in store.read_samples(path):
        by_test.setdefault(sample["test"], []).append(sample)
    return [summarise(one, by_test.get(one["id"], ()), late_limit) for one in manifest["tests"]]


def counts(tests: Iterable[TestSummary]) -> dict[str, int]:
    """Number of tests by outcome, `unverified` among those that are `ok`."""
    every = list(tests)
    found = Counter(test.status for test in every)
    return {
        "tests": len(every),
        **{status: found[status] for status in STATUSES},
        "unverified": sum(test.status == "ok" and not test.verified for test in every),
    }
