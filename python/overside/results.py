"""Measuring from Python, and reading runs again: `overside.run` and `overside.load`."""

from __future__ import annotations

import hashlib
import html
import json
import shlex
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from overside import _core, runs
from overside.bench import box as boxes
from overside.bench import launch, plan, statistics
from overside.bench.box import Box
from overside.drawing import Chart, complete
from overside.errors import Exit, UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from overside.bench.statistics import RunView
    from overside.verdict import RunVerdict

#: The most rows that a notebook shows of a run.
ROWS_SHOWN = 20


def run(
    box: str | Path | Mapping[str, Any],
    *,
    out: str | Path = "results",
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    filters: Mapping[str, str] | None = None,
    seed: int | None = None,
    max_s: float | None = None,
    allow_scripts: bool = False,
    quiet: bool = False,
) -> Run:
    """Measures a box, as `overside run` does, and returns the run.

    Args:
        box: A path, the name of a ready-made box (`"quick"`), or the box itself as a dict
            (docs/measure/boxes.md).
        out: The directory in which the run's own directory is made.
        name: Names the run's directory. Default: the time and the box's name.
        settings: Other values for parameters, as of `--set`: `{"compress.level": [1, 3],
            "measure.rounds": 3}`.
        filters: Which tests to keep, as of `--filter`: `{"device": "cpu*"}`. All must match.
        seed: Overrides the box's seed.
        max_s: Seconds that measuring takes at most, overriding the box's.
        allow_scripts: Whether plug-ins that may change this machine are run; otherwise their
            tests are skipped.
        quiet: Shows no progress on a terminal.

    Returns:
        The run, in any state: see `Run.state` and `Run.exit_code`.

    Raises:
        UserError: There is no such box, it is not valid, it leaves no test, or `out` cannot be
            written to.
        KeyboardInterrupt: It was interrupted. What was measured is kept and can be resumed.
    """
    from overside.bench.runner import Runner  # noqa: PLC0415 (`load` needs nothing of it)

    if threading.current_thread() is not threading.main_thread():
        raise UserError(
            "overside.run was called in a thread that gets no interrupts",
            "call it in the main thread, or start `overside run`",
        )
    if name is not None and not runs.NAME.fullmatch(name):
        raise UserError(f"{name!r} cannot name a run", "use letters, digits, `.`, `_` and `-`")
    here = boxes.machine()
    overrides = [f"{key}={_text(value)}" for key, value in (settings or {}).items()]
    chosen = _box(box, overrides, here)
    if seed is not None:
        chosen.seed = chosen.form["seed"] = seed
    pairs = list((filters or {}).items())
    tests = plan.plan(chosen, here, pairs)
    if not tests:
        raise boxes.nothing_selected(pairs)
    command = ["overside", "run", chosen.path]
    command += [word for override in overrides for word in ("--set", override)]
    command += [word for key, glob in pairs for word in ("--filter", f"{key}={glob}")]
    begun = launch.start(chosen, tests, Path(out), command, name)
    with begun.run:
        runner = Runner(begun, max_s=max_s, quiet=quiet, consent=lambda _: allow_scripts)
        code = runner.run()
    if runner.disk_error:
        raise UserError(
            runner.disk_error, f"make room, then: overside run --resume {begun.run.path}"
        )
    if code == Exit.INTERRUPTED:
        raise KeyboardInterrupt(f"resume: overside run --resume {shlex.quote(str(begun.run.path))}")
    return load(begun.run.path)


def load(run: str | Path = "@", *, out: str | Path = "results") -> Run:
    """Reads a run that `overside run` or `overside.run` left behind.

    Args:
        run: Its directory, its name in `out`, `@` for the newest there, or `@1` for the one before.
            It may be incomplete, or still be measured.
        out: The directory with the runs.

    Returns:
        The run as it is now.

    Raises:
        UserError: It is no run's directory, or a file in it is damaged.
    """
    return Run(statistics.load_run(runs.find(str(run), Path(out))))


class Run:
    """A run: its tests, their figures, charts and verdict. In a notebook it shows itself.

    It does not change when its files do.
    """

    def __init__(self, view: RunView) -> None:
        """Wraps the result of `overside.bench.statistics.load_run`."""
        self._view = view

    @property
    def path(self) -> Path:
        """Directory of the run."""
        return self._view.path

    @property
    def manifest(self) -> dict[str, Any]:
        """Manifest: the tests of the run, their data, machine and method (results.md)."""
        return self._view.manifest

    @property
    def machine(self) -> dict[str, Any]:
        """The machine that it was measured on (results.md); empty if nothing is known."""
        return self._view.environment

    @property
    def state(self) -> str:
        """`complete`, `incomplete`, `interrupted`, or `running`, which a killed run also keeps."""
        return str(self.manifest.get("state", "running"))

    @property
    def exit_code(self) -> int | None:
        """Exit code of the run (docs/exit-codes.md); `None` while it runs."""
        code = self.manifest.get("exit_code")
        return code if isinstance(code, int) else None

    def __len__(self) -> int:
        """The number of its tests."""
        return len(self._view.tests)

    def verdict(self) -> RunVerdict:
        """Recommends a place for each operation and device, a line each, as the report has it.

        Returns:
            The verdict; `str()` of it is its text, `.json()` a dict for programs. Speed-ups are
            ratios, sizes bytes, saved CPU time a share in percent.
        """
        from overside import verdict  # noqa: PLC0415 (it loads the model)

        return verdict.of_run(self._view)

    def report(self, format: Literal["html", "md", "csv", "json"] = "html") -> str:  # noqa: A002
        """The run's report, as `overside report` writes it.

        Args:
            format: `html` (a page that works offline), `md`, `csv` or `json`.

        Returns:
            The text of the file.

        Raises:
            ValueError: There is no such format.
        """
        from overside import report  # noqa: PLC0415

        return report.render(self._view, format)

    def to_arrow(self, rows: Literal["estimates", "samples"] = "estimates") -> pa.Table:
        """The figures as an Arrow table, which pandas, polars and DuckDB read.

        Args:
            rows: `estimates`: a row for each test and metric, with `median`, `low` and `high` (the
                95 % interval, or the range of fewer than six rounds), `minimum`, `maximum`,
                `rounds`, and the `unit` of these. `samples`: a row for each sample, with a column
                for each metric, whose unit is in the field's metadata. A test without any has one
                row of nulls among the estimates, and none among the samples.

        Returns:
            A `pyarrow.Table`. Parameters are columns by their names: numbers where all values are
            numbers, otherwise text; one that is called like another column begins with
            `parameter_`. Columns whose names end in `_ns` and `_s` are nanoseconds and seconds.

        Raises:
            ImportError: pyarrow is missing.
            ValueError: `rows` is something else.
        """
        from overside import tables  # noqa: PLC0415

        match rows:
            case "estimates":
                return tables.estimates(self._view)
            case "samples":
                return tables.samples(self._view)
        raise ValueError(f"rows is 'estimates' or 'samples', not {rows!r}")

    @cached_property
    def charts(self) -> tuple[Chart, ...]:
        """All charts of its report, in the report's order."""
        return tuple(_charts(self._view))

    def chart(
        self,
        metric: str | None = None,
        *,
        task: str | None = None,
        provenance: Literal["measured", "emulated"] | None = None,
    ) -> Chart:
        """The first chart that fits.

        Args:
            metric: What it shows: `throughput`, `latency`, `cpu_cost`, `stages`, ...
            task: The task whose tests it shows: `compress`, `network`, ...; `placement` for work
                that CPU and device share.
            provenance: `measured` or `emulated`.

        Returns:
            The chart, which a notebook shows, and which has `.svg()`, `.png()` and `.save(path)`.

        Raises:
            UserError: No chart fits; the message lists those there are.
        """
        for one in self.charts:
            if (
                metric in (None, one.metric)
                and task in (None, one.task)
                and provenance in (None, one.provenance)
            ):
                return one
        known = sorted({f"{one.task}: {one.metric} ({one.provenance})" for one in self.charts})
        wanted = " ".join(filter(None, (task, metric, provenance))) or "any"
        raise UserError(
            f"{self.path} has no chart of {wanted}",
            f"there are {', '.join(known)}" if known else "no test of it has figures to draw",
        )

    def __repr__(self) -> str:
        return f"<Run {self.manifest.get('id', self.path.name)}: {len(self)} tests, {self.state}>"

    def _repr_html_(self) -> str:
        return self.verdict()._repr_html_() + _table(self._view)


def _text(value: object) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, str):
        return json.dumps([value])
    return json.dumps(list(value) if isinstance(value, Sequence) else value)


def _box(box: str | Path | Mapping[str, Any], overrides: Sequence[str], here: Any) -> Box:
    if not isinstance(box, Mapping):
        return boxes.load(str(box), overrides, here)
    text = json.dumps(box)
    path = Path(f"{box.get('name', 'box')}.json")
    form = boxes.parse(text, path)
    for override in overrides:
        boxes.apply(form, override)
    return boxes.build(form, path, hashlib.sha256(text.encode()).hexdigest(), here)


def _charts(view: RunView) -> Iterator[Chart]:
    from overside.report import charts, groups, sweep_charts, sweeps  # noqa: PLC0415

    for group in groups.groups(view):
        for provenance in ("measured", "emulated"):
            for one in charts.charts(group, provenance):
                yield _chart(one, group.task, group.title, group.detail)
    for sweep in sweeps.sweeps(view):
        for one in sweep_charts.charts(sweep):
            yield _chart(one, "placement", sweep.title, sweep.detail)


def _chart(one: Any, task: str, title: str, detail: str) -> Chart:
    name = f"{title}: {one.title[:1].lower()}{one.title[1:]}"
    where = f"{detail}, {one.provenance}" if detail else one.provenance
    return Chart(
        task=task,
        metric=one.id.removesuffix(f"-{one.provenance}"),
        title=name,
        caption=one.caption,
        provenance=one.provenance,
        spec=complete(one.spec, name, where),
        columns=one.columns,
        rows=one.rows,
    )


def _table(view: RunView) -> str:
    """The first tests with the metric that decided about further rounds."""
    varied = [
        name
        for name in dict.fromkeys(name for test in view.tests for name in test.parameters)
        if len({json.dumps(test.parameters.get(name)) for test in view.tests}) > 1
    ]
    rows = []
    for test in view.tests[:ROWS_SHOWN]:
        name = next((name for name in test.asked if name in test.metrics), None)
        figure = test.metrics[name] if name else None
        unit = view.metric(test.task, name)["unit"] if name else ""
        said = (
            f"{_core.number(figure.median)} {unit} ({_core.number(figure.low)}–"
            f"{_core.number(figure.high)})"
            if figure
            else test.reason or test.status
        )
        parameters = [test.parameters.get(name, "") for name in varied]
        rows.append((test.task, *parameters, name or "", said, test.provenance or ""))
    head = ("task", *varied, "metric", "median (interval)", "provenance")
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    left = len(view.tests) - len(rows)
    more = f"<p>{left} more tests: <code>.to_arrow()</code> has all.</p>" if left > 0 else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{more}"
