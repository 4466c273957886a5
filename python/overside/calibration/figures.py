"""A profile from a run: rates, costs of jobs and batches, latencies and context times of one
device, each with the rounds and conditions it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from overside import tasks
from overside.bench.statistics import RunView, TestSummary
from overside.calibration import fit, writing
from overside.calibration.writing import Writer, quantity, short
from overside.errors import Exit, UserError
from overside.tasks.common import Json
from overside.tasks.offload import QUERIES, OffloadTask

#: The key under which a test's operation stands in a profile.
_WORD = re.compile(r"[^a-z0-9-]+")
_NETWORK = re.compile(r"(--network[ =])\S+")
#: Note for the longest source in bytes if the device reports no limit: the longest that was
#: measured.
_LONGEST = "the longest buffer that was measured"
#: Parameters that change neither the library, nor the data, nor the work on them.
_KEPT = ("variant", "level", "patterns", "data", "timing")


@dataclass
class OperationTests:
    """Tests of one operation that differ in nothing but size, depth, batch and the like."""

    operation: str
    tests: list[TestSummary]
    #: The device, as boxes name it.
    device: str
    #: The fact that its figures cite.
    fact: str = ""

    def pick(self, **wanted: object) -> list[TestSummary]:
        """Returns the tests that have these parameters."""
        return [
            test
            for test in self.tests
            if all(test.parameters.get(key) == value for key, value in wanted.items())
        ]


def profile(
    view: RunView,
    device: str | None,
    name: str,
    *,
    limits: Callable[[str], Json | None] = lambda _: None,
) -> Json:
    """Builds the JSON form of a device's profile from the figures of a run.

    `limits` gives a capability by operation, where the device is at hand. Raises `UserError` if
    the run has no figures of the device.
    """
    device = device_of(view, device)
    usable = [test for test in view.tests if _is_usable(test, device)]
    groups = [
        OperationTests(operation, _one_way(operation, tests), device)
        for operation, tests in _by_operation(usable).items()
    ]
    if not groups:
        raise UserError(
            f"{view.path} has no verified figures with valid timing of {device} alone",
            "measure it: overside calibrate --device " + device,
            Exit.NOTHING_SELECTED,
        )
    writer = Writer(_head(view, device, name, usable))
    for group in groups:
        _operation(writer, group, limits(group.operation))
    _traffic(writer, [test for test in view.tests if _beside_copies(test, device)])
    if device == "cpu":
        writing.machine(writer, view.environment)
    _context_of_all(writer)
    writer.form["notes"] += writer.notes
    return {key: value for key, value in writer.form.items() if value not in ({}, [])}


def device_of(view: RunView, asked: str | None) -> str:
    """The device that was asked for, or the only one there is.

    Raises `UserError` if the run has no figures of it, or of several and none was asked for.
    """
    there = sorted({str(test.parameters.get("device")) for test in view.tests if test.metrics})
    if asked is None:
        if len(there) == 1:
            return there[0]
        raise UserError(
            f"which device of {view.path}?" if there else f"{view.path} has no figures",
            f"--device {'|'.join(there)}" if there else "run it, or resume it",
            Exit.USAGE if there else Exit.NOTHING_SELECTED,
        )
    if asked not in there:
        raise UserError(
            f"{view.path} has no figures of {asked}",
            f"it has those of {', '.join(there)}" if there else "run it, or resume it",
            Exit.NOTHING_SELECTED,
        )
    return asked


def _is_usable(test: TestSummary, device: str) -> bool:
    mine = test.parameters.get("device") == device and test.parameters.get("placement") is None
    if not mine or not isinstance(tasks.find(test.task), OffloadTask):
        return False
    return test.status == "ok" and test.verified and "rate" in test.metrics


def _by_operation(usable: Iterable[TestSummary]) -> dict[str, list[TestSummary]]:
    found: dict[str, list[TestSummary]] = {}
    for test in usable:
        task = tasks.find(test.task)
        if isinstance(task, OffloadTask):
            operation = task.operation(test.parameters)
            if operation.startswith("match-"):
                patterns = test.parameters.get("patterns") or []
                if len(patterns) != 1:
                    continue
            found.setdefault(operation, []).append(test)
    return found


def _one_way(operation: str, tests: Sequence[TestSummary]) -> list[TestSummary]:
    """The tests of one library, level and data set: those with most tests, of these the fastest.
    Of matching, all patterns of it."""
    kept = [key for key in _KEPT if not (key == "patterns" and operation.startswith("match-"))]
    ways: dict[str, list[TestSummary]] = {}
    for test in tests:
        way = repr([test.parameters.get(key) for key in kept])
        ways.setdefault(way, []).append(test)

    def rank(way: list[TestSummary]) -> tuple[int, float]:
        return len(way), max(test.metrics["throughput"].median for test in way)

    return max(ways.values(), key=rank)


def _head(view: RunView, device: str, name: str, usable: Sequence[TestSummary]) -> Json:
    manifest, cpu = view.manifest, view.environment.get("cpu") or {}
    model = cpu.get("model") or "a processor that does not say its model"
    provenances = {test.provenance for test in usable}
    emulated = provenances != {"measured"}
    libraries = sorted({str((test.applied or {}).get("library")) for test in usable})
    card = str(model) if device == "cpu" else f"{device}, on {model}"
    # A profile is shared: where the other machine is stays here.
    command = _NETWORK.sub(r"\1DEST", " ".join(map(str, manifest.get("command", ()))))
    source = (
        f"measured by Overside {manifest.get('version')} on {model}, "
        f"{cpu.get('cores') or '?'} cores, {str(manifest.get('started'))[:10]}, "
        f"run {manifest.get('id')}: {command}"
    )
    notes = ["Per-job figures are those of a caller with a full queue, not of an engine alone."]
    if emulated:
        notes.insert(
            0, "Measured on an emulated device: it says nothing about a card. Do not share it."
        )
    form = writing.empty(
        source,
        name=name,
        card=card,
        mode=f"jobs from the host; device {device}; {', '.join(libraries)}",
        provenance="emulated" if emulated else "measured",
        notes=notes,
    )
    return form if device == "cpu" else form | {"host_link": "not stated"}


def word(text: str) -> str:
    """Returns the text in a form that can be part of a fact's id."""
    return _WORD.sub("-", text.lower()).strip("-")[:60]


def _per_job_ns(test: TestSummary) -> fit.Rounds:
    return {at: 1e9 / rate for at, rate in test.values["rate"].items() if rate > 0}


def _over_rounds(test: TestSummary, metric: str) -> fit.Value | None:
    return fit.over_rounds(list(test.values[metric].values()))


def _by_size(tests: Sequence[TestSummary], metric: str) -> list[tuple[float, fit.Value]]:
    """The points of a table: a metric of one test a size."""
    return [
        (float(_size(test)), value)
        for test in _distinct(tests)
        if (value := _over_rounds(test, metric))
    ]


def _size(test: TestSummary) -> int:
    return int(test.parameters["buffer_size"])


def _full(tests: Sequence[TestSummary]) -> list[TestSummary]:
    """Returns the static tests on one thread of the queue that was measured at most sizes.

    Of several such queues it is the deepest, and then that with the largest batches.
    """
    static = [test for test in tests if _is_one_static(test)]
    queues: dict[tuple[int, int], list[TestSummary]] = {}
    for test in static:
        key = (int(test.parameters["depth"]), int(test.parameters["batch"]))
        queues.setdefault(key, []).append(test)
    if not queues:
        return []

    def rank(key: tuple[int, int]) -> tuple[int, int, int]:
        return len({_size(test) for test in queues[key]}), *key

    return sorted(queues[max(queues, key=rank)], key=_size)


def _operation(writer: Writer, group: OperationTests, limits: Json | None) -> None:
    full = _full(group.tests)
    if not full:
        return
    sample = full[0]
    conditions = (
        f"{sample.parameters['data']} data"
        f", level {sample.parameters.get('level') or 'as the library has it'}"
        if group.operation.startswith("compress-")
        else f"{sample.parameters['data']} data"
    )
    library = (sample.applied or {}).get("library")
    rounds = max(test.metrics["rate"].n for test in group.tests)
    fact = group.fact = writer.fact(
        word(group.operation),
        f"{group.operation} by {library}, {conditions}; {len(group.tests)} tests, "
        f"{rounds} rounds, every sample verified; medians and their 95 % intervals "
        "(ranges below 6 rounds)",
    )
    entry: Json = {
        "does": [group.operation],
        "basis": "uncompressed",
        "facts": [fact],
        "max_source": _limit(limits, "max_source_bytes", full, fact),
        "max_destination": _limit(limits, "max_destination_bytes", full, fact),
    }
    if group.operation.startswith("match-"):
        entry["patterns"] = _patterns(full, fact)
        if not entry["patterns"]:
            return
        writer.form["operations"].append(entry)
        return
    for completion in _ways(group):
        _completion(writer, group, entry, completion)
    _scaling(writer, group)
    _contexts(writer, group)
    if "rate" in entry:
        writer.form["operations"].append(entry)


def _ways(group: OperationTests) -> list[str]:
    """Returns the ways of waiting for completions, that with the highest throughput first."""
    best: dict[str, float] = {}
    for test in _full(group.pick(completion="poll")) + _full(group.pick(completion="event")):
        way = str(test.parameters["completion"])
        best[way] = max(best.get(way, 0.0), test.metrics["throughput"].median)
    return sorted(best, key=lambda way: -best[way])


def _limit(limits: Json | None, key: str, full: Sequence[TestSummary], fact: str) -> Json:
    told = None if limits is None else int(limits[key])
    # Beyond a TiB a device says only that it has no limit.
    if told is not None and 0 < told <= 1 << 40:
        return {"value": told, "unit": "B", "facts": [fact], "note": "as the device says"}
    longest = max(_size(test) for test in full)
    return {"value": longest, "unit": "B", "facts": [fact], "note": _LONGEST}


def _patterns(full: Sequence[TestSummary], fact: str) -> list[Json]:
    found: dict[str, list[TestSummary]] = {}
    for test in full:
        found.setdefault(test.parameters["patterns"][0], []).append(test)
    entries = []
    for asked, tests in sorted(found.items()):
        points = _by_size(tests, "throughput")
        if points:
            entries.append(
                {
                    "name": asked,
                    "pattern": QUERIES.get(asked, asked),
                    "sweep": {
                        "source_bytes": [int(size) for size, _ in points],
                        "rate": [short(value.value) for _, value in points],
                        "unit": "MB/s",
                        "facts": [fact],
                    },
                }
            )
    return entries


def _completion(writer: Writer, group: OperationTests, entry: Json, completion: str) -> None:
    """Costs and rates with one way of waiting for completions. The first way gives the
    operation's own figures."""
    mine = group.pick(completion=completion)
    full = _full(mine)
    if not full:
        return
    operation, fact = group.operation, group.fact
    line = fit.line([(float(_size(test)), _per_job_ns(test)) for test in _distinct(full)])
    slope = None if line is None else line.slope
    if "rate" not in entry:
        _rate(entry, line, full, fact)
        points = _by_size(full, "throughput")
        writer.table(f"job.rate.{operation}", "bytes", points, "MB/s", fact)
    if operation == "copy" and group.device != "cpu":
        _copies(writer, mine, completion, fact)
    small = min(_size(test) for test in mine)
    _batches(writer, [test for test in mine if _size(test) == small], slope, operation, fact)
    alone = _distinct([test for test in mine if _is_alone(test)])
    if alone:
        value = _over_rounds(alone[0], "latency_p50")
        microseconds = f"job.latency.{operation}.{completion}"
        writer.value(microseconds, value, "us", fact)
        _latency(entry, alone, line, fact)
    cost = fit.over_rounds(
        # Seconds a GB are nanoseconds a byte.
        [value * _size(full[0]) for value in full[0].values.get("cpu_cost", {}).values()]
    )
    writer.value(f"job.cpu.{operation}.{completion}", cost, "ns", fact)


def _distinct(tests: Sequence[TestSummary]) -> list[TestSummary]:
    """One test a size, the smallest first."""
    return [by for _, by in sorted({_size(test): test for test in reversed(tests)}.items())]


def _is_one_static(test: TestSummary) -> bool:
    return test.parameters.get("setting") == "static" and test.parameters.get("threads", 1) == 1


def _is_alone(test: TestSummary) -> bool:
    return test.parameters["depth"] == 1 and _is_one_static(test) and "latency_p50" in test.values


def _rate(entry: Json, line: fit.Line | None, full: Sequence[TestSummary], fact: str) -> None:
    """The engine's rate and its cost of a job: the line through the times by size, or, with one
    size or none that fits, the rate at the longest."""
    if line is None or line.slope is None:
        largest = full[-1]
        value = _over_rounds(largest, "throughput")
        if value is not None:
            note = f"with jobs of {_size(largest)} bytes; the cost of a job is in it"
            entry["rate"] = quantity(value, "MB/s", fact, note)
        return
    note = (
        f"slope of the time by size, completions by {full[0].parameters['completion']}; the times "
        f"leave the line by at most {line.misfit:.0%}"
    )
    # Bytes in a nanosecond are GB in a second.
    entry["rate"] = quantity(line.slope.inverse(1.0), "GB/s", fact, note)
    if line.constant is not None:
        note = "intercept of the time by size, with a full queue"
        entry["per_job"] = quantity(line.constant, "ns", fact, note)


def _latency(entry: Json, alone: Sequence[TestSummary], line: fit.Line | None, fact: str) -> None:
    """Adds to `entry` the time of a single job beyond its share of a full queue's time."""
    if line is None or "latency" in entry:
        return
    constant = 0.0 if line.constant is None else line.constant.value
    slope = 0.0 if line.slope is None else line.slope.value
    smallest = alone[0]
    beyond = [
        1e3 * value - constant - slope * _size(smallest)
        for value in smallest.values["latency_p50"].values()
    ]
    value = fit.over_rounds(beyond)
    if value is not None:
        note = "median round trip of the smallest job alone, less its part of a full queue's time"
        entry["latency"] = quantity(value, "ns", fact, note)


def _batches(
    writer: Writer,
    tests: Sequence[TestSummary],
    slope: fit.Value | None,
    operation: str,
    fact: str,
) -> None:
    """A doorbell's and a job's part of the time: time a job = job + doorbell / batch."""
    static = [test for test in tests if test.parameters.get("setting") == "static"]
    static = [test for test in static if test.parameters.get("threads", 1) == 1]
    depths: dict[int, list[TestSummary]] = {}
    for test in static:
        depths.setdefault(int(test.parameters["depth"]), []).append(test)
    best = max(depths.values(), key=len, default=[])
    batches = {int(test.parameters["batch"]): test for test in best}
    line = fit.line([(1.0 / batch, _per_job_ns(test)) for batch, test in sorted(batches.items())])
    if line is None:
        return
    completion = best[0].parameters["completion"]
    writer.value(f"batch.cost.{operation}.{completion}", line.slope, "ns", fact)
    if line.constant is None:
        return
    bytes_ns = 0.0 if slope is None else slope.value * _size(best[0])
    rest = line.constant.value - bytes_ns
    if rest > 0:
        share = rest / line.constant.value
        writer.value(f"job.cost.{operation}.{completion}", line.constant.scaled(share), "ns", fact)


def _beside_copies(test: TestSummary, device: str) -> bool:
    asked = test.parameters
    traffic = test.task == "network" and asked["pattern"] == "stream" and asked["jobs"] == "copy"
    return traffic and asked["device"] == device and test.status == "ok" and test.verified


def _traffic(writer: Writer, tests: Sequence[TestSummary]) -> None:
    """Adds the share of network traffic that a full stream of copies costs.

    Of several tests it takes the first.
    """
    if not tests:
        writer.notes.append(
            "What a stream of DMA costs the network was not measured: it takes a second machine, "
            "which calibrate's --network names."
        )
        return
    test = tests[0]
    before, during, after = (
        test.values.get(f"throughput_{when}", {}) for when in ("before", "during", "after")
    )
    common = sorted(set(before) & set(during))
    # Copies that outlast the traffic leave none after them. A profile's loss is less than all of
    # it: the bound stands for traffic that stood still.
    alone = {at: (before[at] + after.get(at, before[at])) / 2 for at in common}
    lost = [min(99.9, 100 * (1 - during[at] / alone[at])) for at in common]
    if not lost:
        writer.notes.append(
            "What a stream of DMA costs the network was not measured: in no sample were there "
            "copies, and traffic before them."
        )
        return
    value = fit.over_rounds(lost)
    if value is None:
        writer.notes.append("What a stream of copies costs traffic is less than what it varies by.")
        return
    fact = writer.fact(
        "traffic",
        "a stream over TCP to another machine, before, beside and after copies of "
        f"{test.parameters['buffer_size']} bytes, {test.parameters['job_depth']} in flight; "
        f"{len(common)} rounds",
    )
    writer.value("dma.contended.drop", value, "%", fact)


def _copies(writer: Writer, mine: Sequence[TestSummary], completion: str, fact: str) -> None:
    latencies = _by_size([test for test in mine if _is_alone(test)], "latency_p50")
    writer.table(f"dma.copy.latency.{completion}", "bytes", latencies, "us", fact)
    rates = _by_size(_full(mine), "throughput")
    writer.table(f"dma.copy.rate.{completion}", "bytes", rates, "MB/s", fact)
    fastest = max((value for _, value in rates), key=lambda value: value.value, default=None)
    peak = writer.form["values"].get("dma.host.peak")
    if fastest is not None and (peak is None or peak["value"] < short(fastest.value)):
        writer.value("dma.host.peak", fastest, "MB/s", fact)
    if completion == "poll":
        writer.value("dma.polled.rate", _shortest_per_s(mine), "Mops/s", fact)


def _shortest_per_s(mine: Sequence[TestSummary]) -> fit.Value | None:
    """The most of the shortest copies that one thread has got through, in millions a second."""
    least = min(_size(test) for test in mine)
    shortest = [test for test in mine if _size(test) == least and _is_one_static(test)]
    rates = [value.scaled(1e-6) for test in shortest if (value := _over_rounds(test, "rate"))]
    return max(rates, key=lambda value: value.value, default=None)


def _scaling(writer: Writer, group: OperationTests) -> None:
    """Rates by depth, by batch and by threads, at the size that has most of each."""
    static = group.pick(setting="static")
    for name, key, by in (("depth", "depth", "depth"), ("cores", "threads", "cores")):
        axes: dict[tuple[object, ...], dict[int, fit.Value]] = {}
        for test in static:
            others = ("depth", "threads", "batch")
            kept = tuple(test.parameters.get(other) for other in others if other != key)
            if key == "depth":
                # A batch is never larger than the depth, so it changes with it.
                kept = (test.parameters.get("threads", 1), test.parameters["batch"] == 1)
            value = _over_rounds(test, "throughput")
            if value is not None:
                place = (_size(test), test.parameters["completion"], *kept)
                axes.setdefault(place, {})[int(test.parameters.get(key) or 1)] = value
        best = max(axes.values(), key=len, default={})
        if len(best) > 1:
            points = [(float(at), value) for at, value in best.items()]
            writer.table(f"job.{name}.{group.operation}", by, points, "MB/s", group.fact)


def _contexts(writer: Writer, group: OperationTests) -> None:
    """Times of a context's stages of life, and of changing one that is in use."""
    for stage in ("init", "memory", "discovery", "end"):
        every = [
            value * 1e3
            for test in group.tests
            for value in test.values.get(f"stage_{stage}", {}).values()
        ]
        value = fit.over_rounds(every)
        writer.value(f"context.{stage}.{group.operation}", value, "ns", group.fact)
    anew = group.pick(setting="reconfiguration")
    for test in anew:
        static = [
            one
            for one in group.tests
            if _is_alone(one)
            and _size(one) == _size(test)
            and one.parameters["completion"] == test.parameters["completion"]
        ]
        if not static:
            continue
        before, after = _per_job_ns(static[0]), _per_job_ns(test)
        beyond = [after[at] - before[at] for at in after if at in before]
        value = fit.over_rounds(beyond)
        if value is not None:
            writer.value(f"context.reconfiguration.{group.operation}", value, "ns", group.fact)
            return
        writer.notes.append(
            f"Changing a context of {group.operation} takes less than the rounds differ."
        )
        return


def _context_of_all(writer: Writer) -> None:
    """The device's own times of contexts: over all operations, from the shortest to the longest."""
    values: Json = writer.form["values"]

    def over_all(prefix: str) -> Json | None:
        mine = [value for name, value in values.items() if name.startswith(prefix)]
        if not mine:
            return None
        middle = sorted(value["value"] for value in mine)
        return {
            "low": min(value["low"] for value in mine),
            "value": middle[len(middle) // 2],
            "high": max(value["high"] for value in mine),
            "unit": "ns",
            "facts": sorted({fact for value in mine for fact in value["facts"]}),
            "note": "over all operations that were measured",
        }

    init = over_all("context.init.")
    if init is not None:
        writer.form["device"]["context_init"] = init
    whole = over_all("context.reconfiguration.")
    if whole is None:
        return
    ends = {key: whole[key] - (init["value"] if init else 0.0) for key in ("low", "value", "high")}
    if all(value > 0 for value in ends.values()):
        note = "changing a context in use, less initialising one"
        writer.form["reconfiguration"] = whole | ends | {"note": note}
