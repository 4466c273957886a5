"""Plug-ins of dpBento, unmodified: how they are called, and what becomes of what they leave."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from overside.bench import dpbento
from overside.plugins import discovery
from overside.plugins.scripts import ScriptsPlugin, arguments
from overside.tasks.common import Test

HERE = Path(__file__).parent / "plugins"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree as dpBento's, with one class; the box stands where dpBento's stand."""
    shutil.copytree(HERE / "tree", tmp_path / "tree")
    (tmp_path / "tree" / "configs_user").mkdir()
    shutil.copy(HERE / "boxes" / "counting.json", tmp_path / "tree" / "configs_user")
    return tmp_path / "tree"


def load(tree: Path) -> ScriptsPlugin:
    plugin = discovery.find("counting", tree / "configs_user" / "counting.json")
    assert isinstance(plugin, ScriptsPlugin)
    return plugin


def planned(tree: Path) -> list[Test]:
    """The tests that the box stands for."""
    path = tree / "configs_user" / "counting.json"
    (entry,) = dpbento.load(json.loads(path.read_text()), path)["tasks"]
    limits = entry["parameters"].pop("limit")
    one = {name: values[0] for name, values in entry["parameters"].items()}
    items = one.pop("benchmark_items")
    return [
        Test(
            f"counting/{n}",
            "counting",
            {"benchmark_items": items, "limit": n, **one},
            entry["metrics"],
        )
        for n in limits
    ]


def measure(
    plugin: ScriptsPlugin, tests: list[Test], run_dir: Path, timeout_s: float = 20.0
) -> list[dict]:
    reason = plugin.prepare(run_dir, tests)
    assert reason is None
    try:
        return [plugin.sample(test, 0, timeout_s) for test in tests]
    finally:
        plugin.clean()


def replace(tree: Path, script: str, text: str) -> None:
    (tree / "benchmarks" / "counting" / script).write_text(text)


def test_it_is_called_as_dpbento_calls_it(tree: Path, tmp_path: Path) -> None:
    plugin = load(tree)
    samples = measure(plugin, planned(tree), tmp_path / "run")
    assert [sample["status"] for sample in samples] == ["ok", "ok"]
    folder = tree / "benchmarks" / "counting"
    calls = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    assert calls[0] == [
        "--benchmark_items",
        "up,down",
        "--limit",
        "10",
        "--limit_description",
        "How far to count",
        "--weights",
        "[0.5, 0.5]",
        "--aloud",
        "True",
        '--metrics=["latency", "count rate"]',
    ]
    assert calls[1][3] == "20"
    assert (folder / "reported.txt").read_text() == '--metrics=["latency", "count rate"]'
    assert (folder / "cleaned.txt").exists()
    assert not (folder / "prepared.txt").exists()


def test_figures_belong_to_their_test_and_are_unverified(tree: Path, tmp_path: Path) -> None:
    plugin = load(tree)
    assert not plugin.verified
    first, second = measure(plugin, planned(tree), tmp_path / "run")
    del first["metrics"]["counting.run_time"], second["metrics"]["counting.run_time"]
    assert first["metrics"] == {
        "counting.latency[upwards]": 2.5,
        "counting.count rate[upwards]": 30,
        "counting.latency[downwards]": 5,
        "counting.count rate[downwards]": 30,
    }
    assert second["metrics"]["counting.latency[upwards]"] == 5
    assert plugin.metrics["counting.latency[upwards]"].unit == "ms"
    # Nothing says which direction is better, so nothing is claimed.
    assert plugin.metrics["counting.latency[upwards]"].better == ""


def test_results_are_kept_before_they_are_cleaned_away(tree: Path, tmp_path: Path) -> None:
    measure(load(tree), planned(tree), tmp_path / "run")
    kept = tmp_path / "run" / "plugins" / "counting" / "results"
    assert (kept / "counting" / "results.csv").read_text().count("upwards") == 2
    assert not (tree / "output" / "counting").exists()


def test_figures_of_a_report_are_found(tree: Path, tmp_path: Path) -> None:
    """Some plug-ins keep raw files and make the CSV file of all tests in report.py."""
    replace(
        tree,
        "run.py",
        "import pathlib, sys\n"
        "raw = pathlib.Path(__file__).with_name('raw.txt')\n"
        "limit = int(sys.argv[sys.argv.index('--limit') + 1])\n"
        "raw.open('a').write(f'{limit} {limit * 7}\\n')\n",
    )
    replace(
        tree,
        "report.py",
        "import pathlib\n"
        "here = pathlib.Path(__file__)\n"
        "rows = [line.split() for line in here.with_name('raw.txt').open()]\n"
        "text = ''.join(f'{a} bytes,{b}k\\n' for a, b in rows)\n"
        "here.with_name('all.csv').write_text('Size,Throughput\\n' + text)\n",
    )
    replace(tree, "clean.py", "")
    first, second = measure(load(tree), planned(tree), tmp_path / "run")
    assert first["metrics"]["counting.Throughput"] == 70
    assert second["metrics"]["counting.Throughput"] == 140


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("import sys; sys.exit('no such disk')", "plugin", "exit status 1; it said: no such disk"),
        ("", "plugin", "left no output"),
        ("import time; time.sleep(4000)", "timeout", "did not end within 0.5 s"),
        ("import os; os.abort()", "plugin", "crashed (SIGABRT)"),
    ],
)
def test_a_failure_is_noticed(
    script: str, kind: str, message: str, tree: Path, tmp_path: Path
) -> None:
    replace(tree, "run.py", script)
    replace(tree, "clean.py", "open(__file__ + '.ran', 'w')")
    timeout_s = 0.5 if kind == "timeout" else 20.0
    sample = measure(load(tree), planned(tree)[:1], tmp_path / "run", timeout_s)[0]
    assert sample["status"] == "failed"
    assert sample["error"]["kind"] == kind
    assert sample["error"]["message"].startswith("plug-in counting ")
    assert message in sample["error"]["message"]
    assert (tree / "benchmarks" / "counting" / "clean.py.ran").exists()


def test_a_failed_prepare_fails_its_tests_and_is_cleaned_up(tree: Path, tmp_path: Path) -> None:
    replace(tree, "prepare.py", "import sys; sys.exit('no compiler')")
    replace(tree, "clean.py", "open(__file__ + '.ran', 'w')")
    samples = measure(load(tree), planned(tree), tmp_path / "run")
    for sample in samples:
        assert (
            "(prepare.py): ended with exit status 1; it said: no compiler"
            in (sample["error"]["message"])
        )
    assert (tree / "benchmarks" / "counting" / "clean.py.ran").exists()


def test_a_gigabyte_of_output_is_cut(tree: Path, tmp_path: Path) -> None:
    replace(
        tree,
        "run.py",
        "import subprocess\nsubprocess.run(['head', '-c', '1000000000', '/dev/zero'])\n",
    )
    sample = measure(load(tree), planned(tree)[:1], tmp_path / "run")[0]
    assert sample["status"] == "ok"
    assert (tmp_path / "run" / "logs" / "plugin-counting.log").stat().st_size < 17 << 20


def test_scripts_that_wait_for_enter_get_it(tree: Path, tmp_path: Path) -> None:
    replace(tree, "prepare.py", "input('press Enter')\nopen(__file__ + '.ran', 'w')\n")
    replace(tree, "clean.py", "")
    assert measure(load(tree), planned(tree)[:1], tmp_path / "run")[0]["status"] == "ok"
    assert (tree / "benchmarks" / "counting" / "prepare.py.ran").exists()


def test_pip_installs_into_an_environment_of_the_run(tree: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "tiny_package-1-py3-none-any.whl"
    about = "tiny_package-1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_package.py", "")
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    replace(
        tree,
        "prepare.py",
        "import subprocess\n"
        f"subprocess.run(['pip3', 'install', '--no-index', {str(wheel)!r}], check=True)\n",
    )
    replace(
        tree,
        "run.py",
        "import pathlib, tiny_package\n"
        "pathlib.Path(__file__).with_name('where.txt').write_text(tiny_package.__file__)\n",
    )
    replace(tree, "clean.py", "")
    assert measure(load(tree), planned(tree)[:1], tmp_path / "run")[0]["status"] == "ok"
    where = Path((tree / "benchmarks" / "counting" / "where.txt").read_text())
    assert where.is_relative_to(tmp_path / "run" / "plugins" / "counting" / "env")


def test_outside_a_tree_it_works_in_the_run(tmp_path: Path) -> None:
    """`plugins/CLASS` beside the box: nothing is compiled into the user's current directory."""
    folder = tmp_path / "plugins" / "counting"
    shutil.copytree(HERE / "tree" / "benchmarks" / "counting", folder)
    (folder / "run.py").write_text("open('here.txt', 'w')\nprint('done')\n")
    (folder / "clean.py").write_text("")
    plugin = discovery.find("counting", tmp_path / "box.json")
    assert isinstance(plugin, ScriptsPlugin)
    sample = measure(plugin, [Test("counting/0", "counting", {}, [])], tmp_path / "run")[0]
    assert sample["status"] == "ok"
    assert (tmp_path / "run" / "plugins" / "counting" / "here.txt").exists()


def test_arguments_without_items() -> None:
    assert arguments({"size": 1}) == ["--benchmark_items", "", "--size", "1"]
