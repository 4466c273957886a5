"""`overside fleet run`: a box on several machines at once, merged into one run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from command import PATIENCE_S, manifest, overside, said, samples, short_box, start, tiny_box
from overside.bench import statistics
from overside.fleet import box_run, merge
from overside.fleet.merge import NodeResult
from ray_cluster import needs_ray, ray_cluster


def merged(directory: Path, run: Path, *results: NodeResult) -> Path:
    """Runs of two machines, made of one run, as one."""
    about = manifest(run)
    keys = ("version", "command", "box", "box_path", "box_digest", "seed")
    with merge.begin(directory, "two", {key: about[key] for key in keys}) as begun:
        for result in results:
            if result.code is not None:
                shutil.copytree(run, begun.path / merge.RUNS / result.node)
        merge.merge(begun, about["box"], results)
        return begun.path


@pytest.fixture
def tiny(tiny_run: tuple[Path, object]) -> Path:
    (run,) = (tiny_run[0] / "results").iterdir()
    return run


def test_a_merged_run_has_each_test_of_each_machine(tmp_path: Path, tiny: Path) -> None:
    nodes = [NodeResult("dpu-1", {"dpu": 1}, 0), NodeResult("dpu-2", {"dpu": 1}, 0)]
    run = merged(tmp_path, tiny, *nodes)
    view, one = statistics.load_run(run), statistics.load_run(tiny)
    assert len(view.tests) == 2 * len(one.tests)
    assert len({test.id for test in view.tests}) == len(view.tests)
    for test in view.tests:
        assert test.node == test.parameters["node"]
        assert test.status == "ok"
        rest = {key: value for key, value in test.parameters.items() if key != "node"}
        (same,) = (before for before in one.tests if before.parameters == rest)
        assert same.task == test.task
        assert same.metrics == test.metrics
    assert {sample["node"] for sample in samples(run)} == {"dpu-1", "dpu-2"}
    assert len(samples(run)) == 2 * len(samples(tiny))
    assert view.nodes.keys() == {"dpu-1", "dpu-2"}
    assert view.nodes["dpu-1"]["cpu"]
    assert manifest(run)["state"] == "complete"
    assert manifest(run)["exit_code"] == 0
    # Machines are told apart wherever a run is shown.
    text = overside("report", run, "--format", "md", "--out", "-", code=0).stdout
    assert r"node dpu\-1" in text
    assert r"node dpu\-2" in text
    done = overside("report", run, "--format", "csv", "--out", "-", code=0)
    assert done.stdout.count('""node"": ""dpu-1""') == done.stdout.count('""node"": ""dpu-2""') > 0
    # What one machine measured is a run like any other.
    overside("compare", run / "runs" / "dpu-1", tiny, code=0)


def test_a_machine_that_was_lost_is_told_and_the_other_is_kept(tmp_path: Path, tiny: Path) -> None:
    lost = NodeResult("dpu-2", {"dpu": 1}, None, "lost: the machine died")
    run = merged(tmp_path, tiny, NodeResult("dpu-1", {"dpu": 1}, 0), lost)
    about = manifest(run)
    assert about["state"] == "incomplete"
    assert about["exit_code"] == 5
    assert about["fleet"][1]["problem"] == lost.problem
    assert "run" not in about["fleet"][1]
    assert {test.node for test in statistics.load_run(run).tests} == {"dpu-1"}
    text = overside("report", run, "--format", "md", "--out", "-", code=0).stdout
    assert "the machine died" in text


def test_merged_runs_are_not_mistaken_for_those_of_a_machine(tmp_path: Path, tiny: Path) -> None:
    run = merged(tmp_path, tiny, NodeResult("dpu-1", {"dpu": 1}, 0))
    assert "overside fleet run" in said(overside("run", "--resume", run, code=2))
    assert f"{run}/runs/dpu-1" in overside("advise", "--run", run, code=2).stderr


@pytest.mark.parametrize("name", ["run/../manifest.json", "/etc/passwd", "run/nodes/../x.json"])
def test_only_files_of_a_run_are_unpacked(tmp_path: Path, name: str) -> None:
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    with pytest.raises(ValueError, match="does not belong"):
        box_run.unpack(out.getvalue(), tmp_path / "run")
    with pytest.raises(ValueError, match="cannot be read"):
        box_run.unpack(out.getvalue()[:20], tmp_path / "run")


def test_without_ray_it_says_what_to_install(tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"ray": None}):
        done = overside("fleet", "run", tiny_box(tmp_path), cwd=tmp_path, code=3)
    assert "pip install 'overside[fleet]'" in done.stderr
    assert not (tmp_path / "results").exists()


@needs_ray
def test_without_a_cluster_it_says_how_to_begin_one(tmp_path: Path) -> None:
    words = ("--ray-address", "127.0.0.1:1")
    done = overside("fleet", "run", tiny_box(tmp_path), *words, cwd=tmp_path, code=3)
    assert "ray start --head" in done.stderr


def box_on_words(directory: Path, **measure: Any) -> Path:
    """A box whose data all machines have: they are this one."""
    (directory / "words.txt").write_text("all work and no play makes a dull text\n" * 2000)
    parameters = {"variant": ["zlib", "libdeflate"], "level": 1, "buffer_size": 4096}
    data = {"data": str(directory / "words.txt"), "sample_bytes": 16384}
    entry = {"task": "compress", "parameters": parameters | data, "metrics": ["ratio"]}
    return short_box(directory, entry, **measure)


@needs_ray
@pytest.mark.long
def test_a_box_runs_on_all_machines_with_a_label(tmp_path: Path) -> None:
    box = box_on_words(tmp_path)
    with ray_cluster({"dpu": 1, "bf2": 1}, {"dpu": 1}, {"near_storage": 1}) as (cluster, _):
        words = ("fleet", "run", box, "--ray-address", cluster.address)
        with start(*words, "--label", "dpu", "--json", cwd=tmp_path) as process:
            out, err = process.communicate(timeout=PATIENCE_S * 3)
        assert process.returncode == 0, err
        with start(*words, "--label", "bf3", cwd=tmp_path) as process:
            _, refused = process.communicate(timeout=PATIENCE_S * 3)
        assert process.returncode == 4
        assert "bf2, dpu, near_storage" in refused
    view = json.loads(out)
    assert [one["node"] for one in view["manifest"]["fleet"]] == ["dpu-1", "dpu-2"]
    assert {test["node"] for test in view["tests"]} == {"dpu-1", "dpu-2"}
    assert all(test["status"] == "ok" for test in view["tests"])
    assert len(view["tests"]) == 4
    # Two nodes of Ray on one machine are not two machines, and the run says so.
    assert "they are one machine" in json.dumps(view["manifest"]["warnings"])
    assert "dpu-1: " in err
    assert "dpu-2: done" in err


@needs_ray
@pytest.mark.long
def test_a_machine_that_dies_takes_nothing_of_the_others_along(tmp_path: Path) -> None:
    box = box_on_words(tmp_path, rounds=60)
    with ray_cluster({"dpu": 1}, {"dpu": 1}) as (cluster, nodes):
        words = ("fleet", "run", box, "--ray-address", cluster.address, "--label", "dpu")
        with start(*words, cwd=tmp_path) as process:
            assert process.stderr is not None
            told = ""
            while "samples" not in told:
                line = process.stderr.readline()
                assert line, told
                told += line
            cluster.remove_node(nodes[1], allow_graceful=False)
            out, rest = process.communicate(timeout=PATIENCE_S * 3)
    assert process.returncode == 5, told + rest
    assert rest.count(": lost: ") >= 1
    (run,) = (tmp_path / "results").iterdir()
    by_node = {entry["node"]: entry for entry in manifest(run)["fleet"]}
    (lost,) = (node for node, entry in by_node.items() if "problem" in entry)
    (kept,) = by_node.keys() - {lost}
    assert by_node[kept]["state"] == "complete"
    tests = statistics.load_run(run).tests
    assert {test.node for test in tests} == {kept}
    assert kept in out
    assert all(len(test.values["ratio"]) == 60 for test in tests)
