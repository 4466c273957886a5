"""Boxes whose tests agents measure."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Json, agents, manifest, overside, planned, ran, samples, short_box, tiny_box
from overside.bench import statistics
from overside.fleet import merge
from overside.fleet.merge import NodeResult


@pytest.fixture
def dpu0(tmp_path: Path) -> Iterator[None]:
    """An agent of this machine with keys, and one that measures nothing, `shy`."""
    data = ["--data-dir", str(tmp_path / "data")]
    with agents(tmp_path, dpu0=[*data, "--keys"], shy=["--insecure", "--no-probes"]):
        yield


def by_node(run: Path) -> dict[str, list[Json]]:
    """Samples by the node that measured them."""
    found: dict[str, list[Json]] = {}
    for sample in samples(run):
        found.setdefault(sample.get("node", "local"), []).append(sample)
    return found


@pytest.mark.usefixtures("dpu0")
def test_one_run_measures_on_two_nodes_and_tells_them_apart(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    run = ran(box, "--node", "local,dpu0")
    found = by_node(run)
    assert set(found) == {"local", "dpu0"}
    assert len(found["local"]) == len(found["dpu0"]) == 24
    assert {sample["status"] for sample in samples(run)} == {"ok"}
    assert {sample["provenance"] for sample in found["dpu0"]} == {"measured"}
    assert all(sample["cpu"]["dpu_s"] > 0 for sample in found["dpu0"])
    assert all(sample["cpu"]["host_s"] > 0 for sample in found["local"])
    # The data were sent once.
    assert len(list((tmp_path / "data").iterdir())) == 1

    view = statistics.load_run(run)
    about = view.nodes["dpu0"]
    assert about["name"] == "dpu0"
    # It says the same of the same machine.
    changing = {"available_bytes", "swap_used_bytes"}
    for topic in ("cpu", "memory", "kernel", "limits"):
        for name, value in about[topic].items():
            if name not in changing and not name.endswith("_reason"):
                assert value == view.environment[topic][name], (topic, name)
        assert about[topic].keys() == view.environment[topic].keys()
    assert about["software"]["libraries"] == view.environment["software"]["libraries"]
    # A test here is what it is without nodes.
    ids = {test["id"] for test in planned(box)}
    assert {test.id for test in view.tests if test.node == "local"} == ids
    blocks = {test["block"] for test in manifest(run)["tests"] if test["task"] == "compress"}
    assert len(blocks) == 1, "nodes are compared"

    text = overside("report", run, "--format", "md", "--out", "-", code=0).stdout
    assert "## By node" in text
    assert "| Test | Figure | local | dpu0 |" in text
    page = (run / "report.html").read_text()
    assert '<th scope="col">dpu0</th>' in page
    assert "dpu0: Cpu" in page or "dpu0: CPU" in page
    done = overside("report", run, "--json", code=0)
    assert json.loads(done.stdout)["nodes"].keys() == {"dpu0"}
    overside("compare", run, run, code=0)
    overside("advise", "--run", run, "--json", code=0)


@pytest.mark.usefixtures("dpu0")
def test_node_is_an_axis_of_a_task_and_of_no_other(tmp_path: Path) -> None:
    memory = {
        "task": "memory",
        "parameters": {"node": ["local", "dpu0"], "buffer_size": 4096, "threads": "all"},
    }
    hashing = {"task": "hash", "parameters": {"calls": "row", "buffer_size": 64}}
    run = ran(short_box(tmp_path, memory, hashing))
    found = by_node(run)
    assert len(found["local"]) == 2
    assert len(found["dpu0"]) == 1
    cores = len(os.sched_getaffinity(0))
    told = [sample.get("threads") for some in found.values() for sample in some]
    assert sorted(told, key=str) == sorted([cores, cores, None], key=str)
    threads = {test.task: test.parameters.get("threads") for test in statistics.load_run(run).tests}
    assert threads["memory"] == cores


@pytest.mark.usefixtures("dpu0")
def test_a_run_on_an_agent_alone_says_where_it_was(tmp_path: Path) -> None:
    run = ran(tiny_box(tmp_path, rounds=1), "--node", "dpu0")
    assert set(by_node(run)) == {"dpu0"}
    done = overside("report", run, "--format", "md", "--out", "-", code=0)
    assert "Measured on dpu0" in done.stdout.replace("\\", "")


@pytest.mark.usefixtures("dpu0")
def test_what_cannot_measure_is_the_reason_why_tests_are_skipped(tmp_path: Path) -> None:
    box = tiny_box(tmp_path, rounds=1)
    for test in planned(box, "--node", "gone"):
        assert "is `overside agent` running?" in test["reason"]
        assert test["node"] == "gone"
    run = ran(box, "--node", "shy", code=3)
    for sample in samples(run):
        assert "--no-probes" in sample["reason"]
    assert any(warning["kind"] == "node" for warning in manifest(run)["warnings"])


@pytest.mark.usefixtures("dpu0")
def test_nodes_that_there_are_not_are_refused_by_name(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    done = overside("run", box, "--node", "dpu1", cwd=tmp_path, code=2)
    assert "no agent is called 'dpu1'" in done.stderr
    assert "did you mean 'dpu0'" in done.stderr
    done = overside("run", box, "--set", "compress.node=nobody", cwd=tmp_path, code=2)
    assert "no agent is called 'nobody'" in done.stderr
    assert (
        "threads"
        in overside("run", box, "--set", "compress.threads=many", cwd=tmp_path, code=2).stderr
    )


@pytest.mark.usefixtures("dpu0")
def test_what_needs_python_stays_here_and_takes_no_node(tmp_path: Path) -> None:
    (test,) = planned(short_box(tmp_path, {"task": "pushdown"}), "--node", "dpu0")
    assert "DuckDB and Python" in test["reason"]
    box = short_box(tmp_path, {"task": "pushdown", "parameters": {"node": "dpu0"}})
    done = overside("run", box, cwd=tmp_path, code=2)
    assert "pushdown takes no node" in done.stderr
    assert "DuckDB and Python" in " ".join(done.stderr.split())


@pytest.mark.usefixtures("dpu0")
def test_a_store_is_measured_where_it_serves(tmp_path: Path) -> None:
    small = {"records": 100, "connections": 2, "seconds": 0.5}
    entry = {"task": "kv", "parameters": small | {"node": ["local", "dpu0"]}}
    run = ran(short_box(tmp_path, entry))
    ((here,), (there,)) = (by_node(run)[node] for node in ("local", "dpu0"))
    assert here["status"] == there["status"] == "ok"
    assert here["applied"]["variant"] == "overside, cpu-only"
    assert "dpu0" in there["applied"]["device"]
    assert there["applied"]["variant"] == "overside, dpu-only"
    assert statistics.load_run(run).nodes.keys() == {"dpu0"}
    text = overside("report", run, "--format", "md", "--out", "-", code=0).stdout
    assert "| Test | Figure | local | dpu0 |" in text


@pytest.mark.usefixtures("dpu0")
@pytest.mark.parametrize(
    ("task", "parameters", "reason"),
    [
        ("kv", {"server": "redis"}, "starts no redis"),
        ("kv", {"design": "sav"}, "leave design or node away"),
        ("kv", {"case": "CH-SH"}, "leave case or node away"),
        ("kv", {"protocol": "herd"}, "link=ucx, or leave node away"),
        ("kv", {"mode": "direct"}, "leave node and load_from away"),
        ("rdma", {"operation": "read", "transport": "ud"}, "UD"),
    ],
)
def test_what_a_node_cannot_take_is_the_reason(
    tmp_path: Path, task: str, parameters: Json, reason: str
) -> None:
    entry = {"task": task, "parameters": parameters | {"node": "dpu0"}}
    (test,) = planned(short_box(tmp_path, entry))
    assert test["status"] == "skipped"
    assert reason in test["reason"]


@pytest.mark.usefixtures("dpu0")
def test_tables_are_partitioned_on_nodes(tmp_path: Path) -> None:
    parameters = {
        "rows": 20_000,
        "passes": 1,
        "compression": ["lz4", "outer-deflate"],
        "threads": ["2", "all"],
    }
    box = short_box(tmp_path, {"task": "partition", "parameters": parameters})
    run = ran(box, "--node", "local,dpu0")
    found = samples(run)
    assert len(found) == 8
    checks: dict[str, set[str]] = {}
    for sample in found:
        assert (sample["status"], sample["provenance"]) == ("ok", "measured"), sample
        assert sample["work"]["bytes"] == 20_000 * 80
        checks.setdefault(sample.get("node", "local"), set()).add(sample["check"]["value"])
    # Both nodes make the same of the same table.
    assert len(checks) == 2
    assert checks["local"] == checks["dpu0"]
    (entry,) = manifest(run)["data"]
    assert entry["name"] == "particles, 20000 rows"


@pytest.mark.usefixtures("dpu0")
def test_a_box_of_dpbento_runs_on_a_node(tmp_path: Path) -> None:
    entry = {
        "benchmark_class": "hashing",
        "benchmark_items": ["openssl_speed"],
        "parameters": {"algorithm": "sha256", "bytes": 4096, "multi": -1},
        "metrics": ["throughput"],
    }
    box = tmp_path / "dpbento.json"
    box.write_text(json.dumps({"benchmarks": [entry]}))
    short = ("--set", "measure.rounds=1", "--set", "measure.sample_s=0.01")
    run = ran(box, "--node", "dpu0", "--set", "hash.sample_bytes=1MiB", *short)
    (sample,) = samples(run)
    assert sample["status"] == "ok", sample
    assert sample["node"] == "dpu0"
    assert sample["threads"] == len(os.sched_getaffinity(0))


@pytest.mark.usefixtures("dpu0")
def test_agents_of_machines_of_a_cluster_are_told_apart(tmp_path: Path) -> None:
    run = ran(tiny_box(tmp_path, rounds=1), "--node", "local,dpu0")
    about = manifest(run)
    results = [NodeResult(name, {}, 0) for name in ("a", "b")]
    keys = ("version", "command", "box", "box_path", "box_digest", "seed")
    with merge.begin(tmp_path, "two", {key: about[key] for key in keys}) as begun:
        for result in results:
            shutil.copytree(run, begun.path / merge.RUNS / result.node)
        merge.merge(begun, about["box"], results)
    view = statistics.load_run(begun.path)
    assert {test.node for test in view.tests} == {"a", "b", "a.dpu0", "b.dpu0"}
    assert {sample["node"] for sample in samples(begun.path)} == view.nodes.keys()
    assert len({test.id for test in view.tests}) == len(view.tests)
