"""View of a run's tests that all formats share: counts, rows, problems, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from overside import tasks
from overside.bench import environment, statistics
from overside.bench.statistics import Estimate, RunView, TestSummary
from overside.report import formatting, groups, published, run_details
from overside.tasks.common import presentation

#: The most rows of the table of all tests in a page; a box may have 100,000 tests.
ROWS_MAX = 3_000
#: Others took no more of the cores than this during a run that was quiet.
QUIET_SHARE = 0.15
#: Metrics with a column of their own.
COLUMNS = {"throughput", "cpu_cost", "latency_p99", "ratio"}

#: Parameters with a column of their own.
SHOWN_ELSEWHERE = {"buffer_size", "device", "variant", "threads"}

STATES = {
    "complete": "complete",
    "incomplete": "incomplete: the time or the disk ran out",
    "interrupted": "interrupted",
    "running": "not finished",
}


@dataclass(frozen=True)
class Row:
    """One test in the table of all tests."""

    id: str
    operation: str
    how: str
    size_bytes: int | None
    parameters: str
    status: str
    provenance: str
    verified: bool
    #: `True` if its times can be shown as results; `False` for late or functional emulation.
    timed: bool
    #: `True` for a test of a placement.
    placed: bool
    throughput: Estimate | None
    cpu_cost: Estimate | None
    latency_p99: Estimate | None
    ratio: Estimate | None
    #: Throughput in MB/s that the published values of an emulated device allow: `234–3,170`.
    bounds: str
    #: Other metrics that the box asked for, and as text with their units.
    figures: Mapping[str, Estimate]
    others: str
    #: Reasons, late completions, outliers.
    note: str


@dataclass(frozen=True)
class Notice:
    """Warnings of one kind that have the same remedy."""

    kind: str
    remedy: str
    #: Messages, each with the number of tests that have it; 0: it is about the run.
    messages: tuple[tuple[str, int], ...]

    @property
    def of_run(self) -> bool:
        """`True` if it is about the whole run."""
        return any(tests == 0 for _, tests in self.messages)


@dataclass(frozen=True)
class Problem:
    """Reason why tests have no result: one for all tests that share it."""

    status: str
    kind: str
    reason: str
    tests: tuple[str, ...]


def counts_words(view: RunView) -> str:
    """`97 tests: 93 passed (1 unverified), 1 failed`, and the origins of emulated tests."""
    count = statistics.counts(view.tests)
    unverified = f" ({count['unverified']} unverified)" if count["unverified"] else ""
    parts = [f"{count['ok']:,} passed{unverified}"]
    for status, text in formatting.STATUS.items():
        if status != "ok" and count[status]:
            parts.append(f"{count[status]:,} {text}")
    words = f"{formatting.plural(count['tests'], 'test')}: {', '.join(parts)}"
    return "; ".join(filter(None, (words, published.origins(view).words)))


def alerts(view: RunView) -> list[str]:
    """Returns the warnings that a reader must see before any figure."""
    out = []
    name = str(view.manifest.get("state") or "running")
    count = statistics.counts(view.tests)
    if name != "complete":
        missing = count["missing"]
        rest = f"; {formatting.plural(missing, 'test')} not measured" if missing else ""
        out.append(f"This run is {state(view)}{rest}. `overside run --resume` goes on with it.")
    wrong = sum(test.error_kind == "verification" for test in view.tests)
    if wrong:
        out.append(
            f"{formatting.plural(wrong, 'test')} gave wrong results (failed verification): "
            "no figure of such a test is shown."
        )
    if count["failed"] > wrong:
        out.append(
            f"{formatting.plural(count['failed'] - wrong, 'test')} failed; see below for why."
        )
    if count["invalid"]:
        out.append(
            f"{formatting.plural(count['invalid'], 'test')} omitted, timing invalid: this machine "
            "is too slow to emulate the card in real time. Virtual timing does not depend on it."
        )
    if count["tests"] and not count["ok"]:
        out.append("No test passed: there are no results to show.")
    return out


def title(view: RunView) -> str:
    """The box's name."""
    box = run_details.mapping(view.manifest.get("box"))
    return formatting.clean(box.get("name") or view.manifest.get("id") or view.path.name, 120)


def state(view: RunView) -> str:
    """Returns the state of the run, in words."""
    name = formatting.clean(view.manifest.get("state") or "running", 40)
    return STATES.get(name, name)


def rows(view: RunView) -> Iterator[Row]:
    """All tests, in the order of the manifest, the groups together."""
    same = constants(view)
    origins = published.origins(view).by_test
    for group in groups.groups(view):
        for test in group.tests:
            row = _row(view, test, group.title, same)
            beside = origins.get(test.id)
            note = f"{beside}, of those published beside it" if beside else ""
            yield replace(row, note="; ".join(filter(None, (row.note, note))))


def of_figures(view: RunView) -> list[Row]:
    """The tests of built-in tasks whose figures are their own, not the throughput of jobs."""
    own = {
        formatting.clean(test.id, 200)
        for test in view.tests
        if test.task in tasks.NAMES
        and (not presentation(test.task)["advised"] or "throughput" not in test.metrics)
    }
    return [row for row in rows(view) if row.id in own and row.others]


def of_plugins(view: RunView) -> list[Row]:
    """The tests of plug-ins that have figures."""
    own = {formatting.clean(test.id, 200) for test in view.tests if test.task not in tasks.NAMES}
    return [row for row in rows(view) if row.id in own and row.others]


def constants(view: RunView) -> dict[str, Any]:
    """The parameters with one value in the whole run; shown once instead of in each row."""
    if len(view.tests) < 2:
        return {}
    found: dict[str, list[Any]] = {}
    for test in view.tests:
        for name, value in test.parameters.items():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    # Tests here have no node among their parameters.
    own_column = {*SHOWN_ELSEWHERE, *formatting.named(), "node"}
    return {n: v[0] for n, v in found.items() if len(v) == 1 and n not in own_column}


def parameters(values: Mapping[str, Any]) -> str:
    """Parameters in words: `depth 16, setting static`; those left to the task are left out."""
    shown = ((name, value) for name, value in values.items() if value is not None)
    return ", ".join(parameter(name, value) for name, value in shown)


def parameter(name: str, value: object) -> str:
    """One parameter in words; `sample_bytes` is a size."""
    label = formatting.clean(name, 60).replace("_", " ")
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{label.removesuffix(' bytes')} {formatting.size(value)}"
    return f"{label} {formatting.value(value)}"


def _row(view: RunView, test: TestSummary, operation: str, same: Mapping[str, Any]) -> Row:
    hidden = {*SHOWN_ELSEWHERE, *formatting.named(), *same}
    who, how = groups.label_parts(test, [test])
    device = formatting.device(test.parameters.get("device") or "")
    if device.endswith(who) or who.startswith(device):
        who = device if device.endswith(who) else who
        device = ""
    label = ", ".join(filter(None, (who, how)))
    figures = dict(_others(test))
    return Row(
        id=formatting.clean(test.id, 200),
        operation=operation,
        how=f"{device}: {label}" if device else label,
        size_bytes=groups.size_bytes(test),
        parameters=parameters({n: v for n, v in test.parameters.items() if n not in hidden}),
        status=formatting.STATUS.get(test.status, formatting.clean(test.status, 40)),
        provenance=formatting.PROVENANCE.get(test.provenance or "", ""),
        verified=test.verified,
        timed=groups.has_times(test),
        placed=test.parameters.get("placement") is not None,
        throughput=test.metrics.get("throughput"),
        cpu_cost=test.metrics.get("cpu_cost"),
        latency_p99=test.metrics.get("latency_p99"),
        ratio=test.metrics.get("ratio"),
        bounds=formatting.span(ends[0], ends[1]) if (ends := test.bounds.get("throughput")) else "",
        figures=figures,
        others="; ".join(_worded(view, name, one) for name, one in figures.items()),
        note=_note(view, test),
    )


def _others(test: TestSummary) -> Iterator[tuple[str, Estimate]]:
    """Metrics that have no column: those asked for, or all of a plug-in's without the usual."""
    plain = test.task not in tasks.NAMES and not COLUMNS & test.metrics.keys()
    for name, estimate in test.metrics.items():
        shown = groups.has_times(test) or name in statistics.CLOCKLESS_METRICS
        if shown and name not in COLUMNS and (plain or name in test.asked):
            yield name, estimate


def _worded(view: RunView, name: str, estimate: Estimate) -> str:
    spread = estimate.low != estimate.high
    span = f" ({formatting.span(estimate.low, estimate.high)})" if spread else ""
    unit = metric_unit(view, name)
    return f"{formatting.clean(name, 60)} {formatting.number(estimate.median)}{unit}{span}"


def metric_unit(view: RunView, name: str) -> str:
    """A metric's unit with a space before it; empty for numbers without one."""
    about = run_details.mapping(run_details.mapping(view.manifest.get("metrics")).get(name))
    unit = formatting.clean(about.get("unit") or "", 20)
    return f" {unit}" if unit not in {"", "-"} else ""


def _note(view: RunView, test: TestSummary) -> str:
    notes = []
    if test.reason and test.status != "invalid":
        kind = f"{formatting.clean(test.error_kind, 40)}: " if test.error_kind else ""
        notes.append(kind + formatting.clean(test.reason, 400))
    if test.status == "ok" and not test.verified:
        notes.append("unverified: nobody checked the result")
    if test.late_share:
        verdict = ": timing invalid" if test.status == "invalid" else ""
        share = formatting.number(test.late_share * 100)
        of = "completions" if test.parameters.get("placement") is None else "the time something"
        notes.append(f"{share} % of {of} late{verdict}")
    if test.timing == "functional":
        notes.append("functional: its times mean nothing")
    outliers = test.outliers if groups.has_times(test) else []
    for outlier in outliers[:3]:
        unit = metric_unit(view, outlier.metric)
        name = formatting.clean(outlier.metric, 60)
        notes.append(
            f"outlier: {name} {formatting.number(outlier.value)}{unit} in round {outlier.round}"
        )
    if len(outliers) > 3:
        notes.append(f"{len(outliers) - 3} more outliers")
    return "; ".join(notes)


def problems(view: RunView) -> list[Problem]:
    """Failed tests first, then those with invalid timing, not measured and skipped; same reasons
    together."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for status in ("failed", "invalid", "missing", "skipped"):
        for test in view.tests:
            if test.status == status:
                reason = formatting.clean(test.reason or "no reason was given", 600)
                key = (
                    formatting.STATUS[status],
                    formatting.clean(test.error_kind or "", 40),
                    reason,
                )
                found.setdefault(key, []).append(formatting.clean(_name(test), 200))
    return [Problem(*key, tests=tuple(tests)) for key, tests in found.items()]


def _name(test: TestSummary) -> str:
    size, device = groups.size_bytes(test), test.parameters.get("device")
    parts = [formatting.operation(test.task, test.parameters), formatting.device(device or "")]
    variant = test.parameters.get("variant")
    # An emulated card has no library of its own, whatever the box says.
    parts += [formatting.library(variant)] if variant and device == "cpu" else []
    parts += [formatting.size(size)] if size else []
    return ", ".join(part for part in parts if part)


def warnings(view: RunView) -> list[Notice]:
    """The run's warnings, then the tests', each once, those of one kind together."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for warning in run_details.items(view.manifest.get("warnings")):
        kind, message, remedy = _warning_key(warning)
        if kind == "load" and _was_quiet(view):
            continue  # the load before the run had gone when it began
        found.setdefault((kind, remedy), {})[message] = 0
    for test in view.tests:
        for kind, message, remedy in {_warning_key(warning): None for warning in test.warnings}:
            messages = found.setdefault((kind, remedy), {})
            if messages.get(message) != 0:
                messages[message] = messages.get(message, 0) + 1
    return [Notice(*key, messages=tuple(some.items())) for key, some in found.items()]


def _was_quiet(view: RunView) -> bool:
    """Returns `True` if the load by other programs during the run is known and was small."""
    others = environment.load_during(view.environment, view.manifest).others
    return others is not None and others < QUIET_SHARE


def _warning_key(warning: object) -> tuple[str, str, str]:
    about = run_details.mapping(warning)
    texts = [formatting.clean(about.get(key) or "", 600) for key in ("kind", "message", "remedy")]
    return (texts[0], texts[1].rstrip("."), texts[2].rstrip("."))
