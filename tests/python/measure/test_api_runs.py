"""`overside.run`, `overside.load` and what they give; what Python says of all public names."""

from __future__ import annotations

import ast
import inspect
import json
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

import overside
import pytest
from command import tiny_box

ROOT = Path(__file__).resolve().parents[3]

Tiny = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def loaded(tiny_run: Tiny) -> overside.Run:
    """The run of a tiny box, of four tests."""
    (path,) = (tiny_run[0] / "results").iterdir()
    return overside.load(path)


def test_a_box_is_measured_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    box = json.loads(tiny_box(tmp_path).read_text())
    run = overside.run(
        box,
        out=tmp_path / "elsewhere",
        settings={"compress.variant": ["zlib", "isal"], "measure.rounds": 1},
        filters={"task": "compress"},
        seed=11,
        name="first",
        quiet=True,
    )
    assert (run.state, run.exit_code, len(run)) == ("complete", 0, 2)
    assert run.path.parent == tmp_path / "elsewhere"
    assert run.manifest["seed"] == 11
    assert {row["variant"] for row in run.to_arrow().to_pylist()} == {"zlib", "isal"}
    # A person can run it again, and so can Python.
    assert "--set" in run.manifest["command"]
    for found in (run.path, "first", "@"):
        again = overside.load(found, out=tmp_path / "elsewhere")
        assert again.to_arrow() == run.to_arrow()
    with pytest.raises(overside.UserError, match="@1"):
        overside.load("@1", out=tmp_path / "elsewhere")
    with pytest.raises(overside.UserError, match="cannot name a run"):
        overside.run(box, name="a/b")


def test_what_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(overside.UserError, match="there is no box nothing"):
        overside.run("nothing", out=tmp_path)
    with pytest.raises(overside.UserError, match='the key "tasks" is missing'):
        overside.run({"schema": "box/1", "name": "empty"}, out=tmp_path)
    with pytest.raises(overside.UserError, match="nothing is selected"):
        overside.run("quick", out=tmp_path, filters={"task": "none"})
    with pytest.raises(overside.UserError, match="is no run"):
        overside.load(tmp_path)
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            overside.run("quick", out=tmp_path)
        except overside.UserError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])
    assert not list(tmp_path.iterdir())


def test_estimates_are_an_arrow_table_that_others_read(loaded: overside.Run) -> None:
    import duckdb
    import polars

    table = loaded.to_arrow()
    of_ratio = polars.DataFrame(polars.from_arrow(table)).filter(polars.col("metric") == "ratio")
    assert sorted(of_ratio["task"]) == ["compress", "compress", "decompress", "decompress"]
    assert of_ratio["buffer_size"].dtype == polars.Int64
    assert set(of_ratio["status"]) == {"ok"}
    rates = (
        duckdb.from_arrow(table)
        .filter("metric = 'throughput'")
        .aggregate("count(*), min(median), max(median)")
    )
    (count, least, most) = rates.fetchall()[0]
    assert count == 4
    assert 0 < least <= most
    units = {row["metric"]: row["unit"] for row in table.to_pylist()}
    assert units["throughput"] == "MB/s"


def test_samples_are_an_arrow_table_with_units(loaded: overside.Run) -> None:
    table = loaded.to_arrow("samples")
    assert table.num_rows == 24
    assert table.schema.field("throughput").metadata == {b"unit": b"MB/s"}
    medians = {(row["test"], row["metric"]): row["median"] for row in loaded.to_arrow().to_pylist()}
    rows = table.to_pylist()
    for test in {row["test"] for row in rows}:
        rates = sorted(row["throughput"] for row in rows if row["test"] == test)
        assert medians[test, "throughput"] == pytest.approx((rates[2] + rates[3]) / 2)
    with pytest.raises(ValueError, match="estimates"):
        loaded.to_arrow("rounds")  # type: ignore[arg-type]


def test_charts_are_pictures(loaded: overside.Run, tmp_path: Path) -> None:
    chart = loaded.chart("throughput", task="compress")
    assert (chart.task, chart.metric, chart.provenance) == ("compress", "throughput", "measured")
    assert chart in loaded.charts
    assert chart.svg().startswith("<svg")
    assert "var(" not in chart.svg()
    png = chart.save(tmp_path / "chart.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width > 800
    assert height > 200
    assert json.loads(chart.save(tmp_path / "chart.json").read_text()) == chart.spec
    with pytest.raises(overside.UserError, match=r"\.svg, \.png or \.json"):
        chart.save(tmp_path / "chart.gif")
    with pytest.raises(overside.UserError, match="compress: throughput"):
        loaded.chart("beauty")


def test_a_run_shows_itself(loaded: overside.Run) -> None:
    assert "4 tests, complete" in repr(loaded)
    shown = loaded._repr_html_()
    assert shown.count("<tr>") == 5
    assert "MB/s" in shown or "ratio" in shown
    assert loaded.report("csv").startswith("test,task,")


def test_names_from_outside_are_data_in_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "<b>bold").write_text("some words\n" * 1000)
    entry = {
        "task": "compress",
        "parameters": {"data": [str(tmp_path / "<b>bold")], "buffer_size": [1024, 2048]},
    }
    box = {"schema": "box/1", "name": "names", "tasks": [entry]}
    measure = {"measure.rounds": 1, "measure.sample_s": 0.01, "measure.warmup_s": 0}
    run = overside.run(box, out=tmp_path / "results", settings=measure, quiet=True)
    assert "<b>" not in run._repr_html_()


# -- What Python says of all public names -----------------------------------------------------


def test_the_version() -> None:
    text = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{overside.__version__}"' in text


def test_every_public_name_is_described() -> None:
    for name in set(overside.__all__) - {"MAX_SIZE", "__version__"}:
        value = getattr(overside, name)
        text = inspect.getdoc(value)
        assert text, name
        if inspect.isclass(value) and issubclass(value, BaseException):
            continue
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            if not method.startswith("_"):
                assert inspect.getdoc(member), f"{name}.{method}"


def _stubs() -> dict[str, tuple[list[str], str]]:
    """Parameters and text of each public function and class of the native module."""
    module = ast.parse((ROOT / "python" / "overside" / "_core.pyi").read_text())
    found: dict[str, tuple[list[str], str]] = {}

    def add(prefix: str, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                names = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
                text = ast.get_docstring(node) or ""
                found[prefix + node.name] = ([n for n in names if n not in ("self", "cls")], text)
            elif isinstance(node, ast.ClassDef) and not prefix:
                found[node.name] = ([], ast.get_docstring(node) or "")
                add(f"{node.name}.", node.body)

    add("", module.body)
    return found


def test_what_help_says_of_native_names_is_what_editors_show() -> None:
    for name, (parameters, text) in _stubs().items():
        top, _, member = name.partition(".")
        if top not in overside.__all__ or (member.startswith("_") and member != "__new__"):
            continue
        value: Any = getattr(overside, top)
        if member == "__new__":
            text = inspect.getdoc(value) or ""  # noqa: PLW2901
        else:
            value = getattr(value, member) if member else value
            assert inspect.cleandoc(value.__doc__ or "").split() == text.split(), name
        for parameter in parameters:
            assert f"{parameter}: " in text, f"{name}: {parameter}"


@pytest.mark.parametrize(
    "function",
    [overside.run, overside.load, overside.open, overside.Run.to_arrow, overside.Run.chart],
)
def test_all_parameters_are_described(function: Any) -> None:
    text = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters:
        assert parameter == "self" or f"{parameter}: " in text, parameter
    assert "Returns:" in text
    assert "Raises:" in text
