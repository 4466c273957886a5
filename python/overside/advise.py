"""Advice on where to run operations: builds the model's question from a run, returns its answer.

The model (`overside._core.advise`) compares this host's measured CPU rates with devices that were
measured in the same run, and with the cards that profiles describe. Without a run, this host's
cores get the rates of published ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overside import _core, runs, strict_json
from overside.bench.statistics import Estimate, RunView, TestSummary
from overside.errors import UserError, as_user_error
from overside.report import groups
from overside.report.groups import Group
from overside.tasks.common import Json, operation_parameter, restores

#: File in a run's directory with the last query about it, so that its report gives the same
#: answer.
QUERY_FILE = "advise.json"
QUERY_SCHEMA = "advise/1"
#: No profile or workload is longer.
FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class File:
    """A text and its name."""

    name: str
    text: str

    @staticmethod
    def read(path: Path, form: str = "TOML") -> File:
        """A file that should be in that form. Raises `UserError`."""
        try:
            if not path.is_file():
                raise UserError(f"{path} is not a file", f"name a {form} file")
            if path.stat().st_size > FILE_BYTES_MAX:
                raise UserError(f"{path} is longer than {FILE_BYTES_MAX} bytes")
            return File(str(path), path.read_text("utf-8"))
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UserError(f"{path} is not text in UTF-8") from None


@dataclass(frozen=True)
class Query:
    """Query for advice: the part of the question that is not in the run's figures."""

    #: Names of profiles that are there.
    profiles: tuple[str, ...]
    #: Profiles of one's own.
    files: tuple[File, ...] = ()
    workload: File | None = None
    #: Operations, or the beginnings of their names (`compress`); all that are known if none.
    operations: tuple[str, ...] = ()
    #: Buffers of only that size, in bytes of the uncompressed side.
    size_bytes: int | None = None

    def json(self) -> Json:
        """For `QUERY_FILE`, without fields that a report of all operations and sizes ignores."""
        return {
            "schema": QUERY_SCHEMA,
            "profiles": list(self.profiles),
            "files": [[one.name, one.text] for one in self.files],
            "workload": [self.workload.name, self.workload.text] if self.workload else None,
        }

    @staticmethod
    def of_run(path: Path) -> Query | None:
        """Returns the last query about a run; `None` if there was none, or it cannot be read."""
        try:
            found = strict_json.loads(File.read(path / QUERY_FILE, "JSON").text)
            if found["schema"] != QUERY_SCHEMA:
                return None
            workload = found["workload"]
            return Query(
                tuple(str(name) for name in found["profiles"]),
                tuple(File(str(name), str(text)) for name, text in found["files"]),
                File(str(workload[0]), str(workload[1])) if workload else None,
            )
        except (UserError, ValueError, KeyError, TypeError, IndexError):
            return None


def default_profiles() -> tuple[str, ...]:
    """The cards whose engines a host's jobs can go to, with the newest software."""
    return tuple(
        str(one["name"])
        for one in json.loads(_core.profiles())
        if one.get("operations")
        and one.get("initiator", "host") == "host"
        and one.get("processor", "engine") == "engine"
        and "newer" not in one
    )


def query_of(view: RunView) -> Query:
    """Returns the last query about a run, or a query about all cards if there was none.

    Raises `ValueError` if the profiles cannot be read.
    """
    return Query.of_run(view.path) or Query(default_profiles())


def answer(view: RunView | None, query: Query, cores: str = "all") -> Json:
    """The advice; docs/measure/advise.md has its form. `cores` as in `question`.

    Raises `UserError` for a profile, a workload or an operation that cannot be used.
    """
    workload = query.workload
    remedy = "docs/measure/advise.md and docs/measure/profiles.md say what they hold"
    with as_user_error("", ValueError, remedy=remedy):
        text = _core.advise(
            json.dumps(narrowed(question(view, cores), query)),
            list(query.profiles),
            [(one.name, one.text) for one in query.files],
            (workload.name, workload.text) if workload else None,
        )
    advice: Json = json.loads(text)
    return advice


def narrowed(asked: Json, query: Query) -> Json:
    """The question, limited to the requested operations and size; without any, examples such as a
    study's patterns are no part of it, but where a workload is asked about.

    Raises `UserError` for an unknown operation.
    """
    known = [one["operation"] for one in asked["measured"]]
    for name in query.operations:
        if known and not any(_is_of(one, name) for one in known):
            raise UserError(
                f"nothing is known of the operation {name!r}",
                f"of this host there are {', '.join(dict.fromkeys(known))}",
            )
    measured = [
        one
        for one in asked["measured"]
        if any(_is_of(one["operation"], name) for name in query.operations)
        or (not query.operations and (query.workload or not one.get("is_example")))
    ]
    return asked | {"measured": measured, "buffer_bytes": query.size_bytes}


def _is_of(operation: str, name: str) -> bool:
    return operation == name or operation.startswith(f"{name}-")


def check(query: Query) -> None:
    """Raises `UserError` for a profile or a workload that cannot be used."""
    answer(RunView(Path(), {}, {}, []), query)


def question(view: RunView | None, cores: str = "all") -> Json:
    """Returns the rates of this host in the model's form, in bytes a second.

    They are from a run, or from published figures if `view` is `None`.

    The CPU's rates are those of `all` cores of this host, or of `one`. What all do is scaled from
    fewer where they were not measured together.
    """
    if view is None:
        asked: Json = json.loads(_core.published_question(1 if cores == "one" else cores_here()))
        return asked
    cpu = view.environment.get("cpu")
    threads = cpu.get("online", cpu.get("threads")) if isinstance(cpu, Mapping) else None
    known = threads if isinstance(threads, int) and threads > 0 else 0
    return {
        "host": {"threads": known} if known else {},
        "measured": list(_measured(view, 1 if cores == "one" else known)),
    }


def cores_here() -> int:
    """The physical cores of this machine; the processors where they cannot be counted."""
    from overside.bench import environment  # noqa: PLC0415 (not needed where a run says it)

    cpu = environment.capture().get("cpu")
    found = cpu.get("cores") or cpu.get("online") if isinstance(cpu, Mapping) else None
    return found if isinstance(found, int) and found > 0 else os.cpu_count() or 1


def _measured(view: RunView, cores: int) -> Iterator[Json]:
    # What jobs take that are run again is another question, too: the model is of one try.
    once = [g for g in groups.groups(view) if g.parameters.get("output_size") is None]
    found = [group for group in once if group.operation is not None]
    # Contexts that are set up again are another question than what the CPU does best.
    static = [g for g in found if g.parameters.get("setting") in (None, "static")]
    anew = [g for g in found if g not in static]
    for group in static:
        rates = [rate for tests in _on_cpu(group) if (rate := _cpu(tests, cores)) is not None]
        if not rates:
            continue
        alike = [one for one in anew if _work(one) == _work(group)]
        ratio, level = rates[-1][0].metrics.get("ratio"), group.parameters.get("level")
        yield {
            "operation": group.operation,
            "title": group.title + (f" ({group.detail})" if group.detail else ""),
            "patterns": group.patterns,
            **({"level": level} if isinstance(level, int) else {}),
            "ratio": ratio.median if ratio is not None and ratio.median > 0 else None,
            "cpu": [rate for _, rate in rates],
            "devices": [
                one
                for own in (group, *alike)
                for test in own.of("measured")
                for one in _device(test)
            ],
        }


def _work(group: Group) -> str:
    work = {name: value for name, value in group.parameters.items() if name != "setting"}
    return json.dumps([group.task, work], sort_keys=True, default=str)


def _has_rate(test: TestSummary, timings: Sequence[str]) -> bool:
    throughput = test.metrics.get("throughput")
    return test.timing in timings and throughput is not None and throughput.low > 0


def _on_cpu(group: Group) -> list[list[TestSummary]]:
    """The CPU's tests at each size, ascending."""
    found: dict[int, list[TestSummary]] = {}
    for test in group.of("measured"):
        size = groups.size_bytes(test)
        alone = test.parameters.get("device") in (None, "cpu")
        placed = test.parameters.get("placement") in (None, "cpu")
        # The CPU target of a placement has the device of its sweep.
        if size is None or not _has_rate(test, ("real", "virtual")) or not placed:
            continue
        if not alone and test.parameters.get("placement") is None:
            continue
        found.setdefault(size, []).append(test)
    return [_one_clock(found[size]) for size in sorted(found)]


def _one_clock(tests: Sequence[TestSummary]) -> list[TestSummary]:
    """The tests in real time; those in virtual time if there are no others."""
    return [test for test in tests if test.timing == "real"] or list(tests)


def _cpu(tests: Sequence[TestSummary], cores: int) -> tuple[TestSummary, Json] | None:
    """Returns the rate of `cores` cores at one size, and the test that gives the best evidence.

    If `cores` is 0, it is the fastest test. A rate of fewer cores is scaled.
    """
    most = max(map(_threads, tests))
    if cores == 0 or (cores > 1 and most >= cores):
        return _rate_of(max(tests, key=_median), 1.0)
    exact = [test for test in tests if _threads(test) == cores]
    if cores == 1 and exact:
        return _rate_of(max(exact, key=_median), 1.0)
    best = max(tests, key=lambda test: _median(test) / _threads(test))
    return _rate_of(best, cores / _threads(best))


def _rate_of(test: TestSummary, scale: float) -> tuple[TestSummary, Json]:
    rate = _rate(test.metrics["throughput"])
    form = {
        "bytes": groups.size_bytes(test),
        "bytes_per_s": {end: value * scale for end, value in rate.items()},
        "threads": max(round(_threads(test) * scale), 1),
        "core_bytes_per_s": _core_rate(test),
        "library": _library(test),
        "evidence": "measured" if scale == 1.0 else "scaled",
    }
    return test, form


def _library(test: TestSummary) -> str:
    """`ISA-L level 1, system data`."""
    level, data = test.parameters.get("level"), test.parameters.get("data")
    text = groups.library(test) + (f" level {level}" if level is not None else "")
    return f"{text}, {os.path.basename(str(data))} data" if data else text


def _median(test: TestSummary) -> float:
    return test.metrics["throughput"].median


def _threads(test: TestSummary) -> int:
    threads = test.parameters.get("threads")
    return threads if isinstance(threads, int) and threads > 0 else 1


def _device(test: TestSummary) -> Iterator[Json]:
    """Yields the rates that a test measured on a real device; nothing for the CPU."""
    device = test.parameters.get("device")
    placement = test.parameters.get("placement") or "device"
    shared = placement == "device" or str(placement).startswith("split:")
    size = groups.size_bytes(test)
    if device in (None, "cpu") or not shared or size is None or not _has_rate(test, ("real",)):
        return
    yield {
        "device": str(device),
        "placement": str(placement),
        "setting": str(test.parameters.get("setting") or "static"),
        "completion": str(test.parameters.get("completion") or "poll"),
        "bytes": size,
        "bytes_per_s": _rate(test.metrics["throughput"]),
        "core_bytes_per_s": _core_rate(test),
    }


def _rate(megabytes: Estimate) -> Json:
    return {
        "low": megabytes.low * 1e6,
        "typ": megabytes.median * 1e6,
        "high": megabytes.high * 1e6,
    }


def _core_rate(test: TestSummary) -> Json | None:
    """Bytes a second of CPU time."""
    cost = test.metrics.get("cpu_cost")
    if cost is None or cost.low <= 0:
        return None
    return {"low": 1e9 / cost.high, "typ": 1e9 / cost.median, "high": 1e9 / cost.low}


def newest(out: Path) -> Path | None:
    """The newest run in a directory of runs that measured anything."""
    return next((run.path for run in runs.entries(out) if run.is_measured), None)


def measure(out: Path, data: str | None, workload: File | None, command: Sequence[str]) -> Path:
    """Measures the rates of this host that advice needs: the box `quick` on its CPU, on the user's
    data if there are any, and the other operations of a workload. Returns the run.

    Raises `UserError`.
    """
    from overside.bench import box as boxes  # noqa: PLC0415 (not needed for advice alone)
    from overside.bench import launch, plan  # noqa: PLC0415
    from overside.bench.runner import Runner  # noqa: PLC0415

    here = boxes.machine()
    path = boxes.find("quick")
    form, digest = boxes.read(path)
    form["name"] = "advise"
    form["description"] = "What advice needs of this host: what its CPU does."
    if workload is not None:
        form["tasks"] += list(
            _stages(form, json.loads(_core.workload(workload.name, workload.text)))
        )
    for entry in form["tasks"]:
        entry["exclude"] = []
        entry["parameters"]["device"] = ["cpu"]
        if data is not None:
            entry["parameters"]["data"] = [os.path.abspath(data)]
    box = boxes.build(form, path, digest, here)
    tests = plan.plan(box, here, [])
    begun = launch.start(box, tests, out, command)
    with begun.run:
        Runner(begun, quiet=False).run()
    return begun.run.path


def _stages(form: Json, workload: Json) -> Iterator[Json]:
    """Entries of a box for the stages that it does not measure yet."""
    templates = {entry["task"]: entry for entry in form["tasks"]}
    known = {_entry_operation(entry, name) for entry in form["tasks"] for name in _kinds(entry)}
    for stage in workload["stages"]:
        name, patterns = stage["task"], stage["patterns"]
        task, _, kind = name.partition("-")
        if task not in templates or (name in known and not patterns):
            continue
        entry = json.loads(json.dumps(templates[task]))
        entry["description"] = f"the workload's stage {name}"
        parameters = entry["parameters"]
        if completed := operation_parameter(task):
            parameters[completed[0]] = [kind]
        if patterns:
            parameters["patterns"] = [patterns]
            parameters["data"] = templates["match"]["parameters"]["data"]
        # What the library of another format is called is not this one's name.
        if name not in known:
            parameters["variant"] = ["auto"]
            parameters.pop("level", None)
        yield entry


def _kinds(entry: Json) -> list[str]:
    completed = operation_parameter(entry["task"])
    if completed is None:
        return [""]
    parameter, default = completed
    return [str(one) for one in entry["parameters"].get(parameter, [default])]


def _entry_operation(entry: Json, kind: str) -> str:
    return f"{entry['task']}-{kind}" if kind else str(entry["task"])


def placement_file(advice: Json, question_of: Json, target: str | None, device: str | None) -> str:
    """The placement file for one of the advice's targets, whose jobs go to `device`; without a
    target, everything stays on the CPU.

    Raises `UserError`.
    """
    ratios = {one["operation"]: one["ratio"] or 1.0 for one in question_of["measured"]}
    rules: list[Json] = []
    for one in advice["operations"]:
        name = one["operation"]
        if any(rule["operation"] == name for rule in rules):
            # Of several levels or data sets, the first that was measured stands for all.
            continue
        found = next((t for t in one["targets"] if t["name"] == target), None)
        if found is not None:
            scale = ratios[name] if restores(name) else 1.0
            rules += [_rule(name, found, part, scale, device) for part in found["ranges"]]
    with as_user_error("no placement file can be made", ValueError):
        return _core.placement_file(json.dumps(rules))


def _rule(name: str, target: Json, part: Json, scale: float, device: str | None) -> Json:
    """One rule; sizes are those of inputs as they lie there."""
    rule: Json = {
        "operation": name,
        "from_bytes": max(round(part["from_bytes"] * scale), 1),
        "placement": part["placement"],
        "chunk_bytes": min(max(part["chunk_bytes"], 1 << 10), 64 << 20),
    }
    if "below_bytes" in part:
        rule["below_bytes"] = round(part["below_bytes"] * scale)
    if part["placement"] != "cpu":
        rule["device"] = device
    return rule
