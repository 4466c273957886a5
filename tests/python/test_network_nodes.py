"""The task `network` between this machine and agents, which the tests start."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from command import (
    Json,
    manifest,
    native,
    only_run,
    overside,
    running_agent,
    samples,
    write_box,
)


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An inventory with two agents of this machine, `dpu0` with keys and `dpu1` in the clear, one
    that plays no part, `shy`, and one that is not there, `gone`."""
    keys = tmp_path / "keys"
    subprocess.run([*native(), "agent", "keys", keys], check=True, stdout=subprocess.DEVNULL)
    text = '[agents.gone]\naddress = "localhost:1"\n'
    with ExitStack() as stack:
        for name, words, entry in [
            ("dpu0", ["--keys", str(keys)], 'keys = "keys"\n'),
            ("dpu1", ["--insecure"], ""),
            ("shy", ["--insecure", "--no-probes"], ""),
        ]:
            _, said = stack.enter_context(running_agent(*words))
            assert said["probes"] == (name != "shy")
            text += f'[agents.{name}]\naddress = "{said["address"]}"\n{entry}'
        inventory = tmp_path / "agents.toml"
        inventory.write_text(text)
        monkeypatch.setenv("OVERSIDE_AGENTS", str(inventory))
        yield inventory


def box(directory: Path, **parameters: object) -> Path:
    """A short box of one network entry."""
    return write_box(
        directory,
        {
            "schema": "box/1",
            "name": "net",
            "tasks": [{"task": "network", "parameters": parameters}],
            "measure": {"rounds": 2, "warmup_s": 0, "sample_s": 0.05, "max_s": 120},
        },
    )


def ends(run: Path) -> dict[str, tuple[str, str]]:
    """Source and destination of each test."""
    return {
        test["id"]: (test["parameters"]["source"], test["parameters"]["destination"])
        for test in manifest(run)["tests"]
    }


@pytest.mark.usefixtures("agents")
def test_any_two_nodes_are_measured_and_told_apart(tmp_path: Path) -> None:
    nodes = ["host", "dpu0", "dpu1"]
    path = box(tmp_path, source=nodes, destination=nodes, depth=4)
    overside("run", path, cwd=tmp_path, code=0)
    run = only_run(tmp_path)
    between = ends(run)
    assert len(between) == 9
    assert {test["block"] for test in manifest(run)["tests"]} == {0}, "they are compared"
    for sample in samples(run):
        assert sample["status"] == "ok", sample
        source, destination = between[sample["test"]]
        both = f"{source} to {destination}"
        here = (source, destination) == ("host", "host")
        assert sample["applied"]["device"] == ("host" if here else both)
        assert sample["provenance"] == "measured"
        assert (sample["cpu"]["dpu_s"] > 0) == (not here)
        assert (sample["cpu"]["host_s"] > 0) == ("host" in (source, destination))
        assert "machine_cpu" in sample["metrics"]
        kinds = {warning["kind"] for warning in sample["warnings"]}
        assert ("one-machine" in kinds) == (not here)
    page = (run / "report.html").read_text()
    for label in ("host to dpu0", "dpu0 to host", "dpu1 to dpu0", "loopback"):
        assert label in page


@pytest.mark.usefixtures("agents")
def test_streams_and_open_loop_come_back_whole(tmp_path: Path) -> None:
    path = write_box(
        tmp_path,
        {
            "schema": "box/1",
            "name": "net",
            "tasks": [
                {
                    "task": "network",
                    "parameters": {"source": "dpu0", "pattern": "stream", "slice_ms": 10},
                },
                {"task": "network", "parameters": {"source": "dpu0", "rate": 2000, "depth": 8}},
            ],
            "measure": {"rounds": 1, "warmup_s": 0, "sample_s": 0.1, "max_s": 120},
        },
    )
    overside("run", path, cwd=tmp_path, code=0)
    by_series: dict[bool, Json] = {}
    for sample in samples(only_run(tmp_path)):
        assert sample["status"] == "ok", sample
        by_series[sample.get("series") is not None] = sample
    stream, paced = by_series[True], by_series[False]
    assert len(stream["series"]["throughput"]) >= 5
    assert stream["work"]["bytes"] == stream["work"]["jobs"] * 131_072
    assert paced["work"]["jobs"] == 200
    assert paced["histogram"]


@pytest.mark.usefixtures("agents")
def test_jobs_run_beside_what_this_machine_sends_to_an_agent(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("all work and no play makes a dull text\n" * 20000)
    beside = {"jobs": "copy", "data": "words.txt", "sample_bytes": 262_144}
    path = box(tmp_path, pattern="stream", destination="dpu0", **beside)
    overside("run", path, "--set", "measure.sample_s=0.3", cwd=tmp_path, code=0)
    for sample in samples(only_run(tmp_path)):
        assert sample["status"] == "ok", sample
        begin, end = sample["series"]["jobs_s"]
        # A third of the time after this end was told to begin, which a busy machine does late.
        assert 0 < begin < end
        assert sample["metrics"]["job_throughput"] > 0


@pytest.mark.usefixtures("agents")
def test_what_cannot_be_is_said_before_anything_runs(tmp_path: Path) -> None:
    path = box(tmp_path, destination=["dpu0", "gone"], source=["host", "shy"])
    planned = json.loads(overside("plan", path, "--json", cwd=tmp_path, code=0).stdout)
    reasons = {
        (test["parameters"]["source"], test["parameters"]["destination"]): test.get("reason")
        for test in planned["tests"]
    }
    assert reasons["host", "dpu0"] is None
    assert "is `overside agent` running?" in reasons["host", "gone"]
    for parameters, expected in [
        ({"source": "dpu0", "mode": "bridge"}, "leave source and destination away"),
        ({"source": "dpu0", "jobs": "copy"}, "leave source away"),
    ]:
        path = box(tmp_path, **parameters)
        planned = json.loads(overside("plan", path, "--json", cwd=tmp_path, code=0).stdout)
        assert expected in planned["tests"][0]["reason"]


@pytest.mark.usefixtures("agents")
def test_nodes_that_nobody_added_make_a_box_invalid(tmp_path: Path) -> None:
    wrong = overside("validate", box(tmp_path, source="dpu"), cwd=tmp_path, code=2)
    said = " ".join((wrong.stdout + wrong.stderr).split())
    assert "no agent is called 'dpu'; `overside agents add dpu HOST:PORT` adds it" in said
    assert "dpu0" in said, "which is what was meant"
    overside("run", box(tmp_path, destination="elsewhere"), cwd=tmp_path, code=2)


@pytest.mark.usefixtures("agents")
def test_an_agent_that_plays_no_part_is_the_reason_why_a_test_is_skipped(tmp_path: Path) -> None:
    overside("run", box(tmp_path, destination=["shy", "dpu1"]), cwd=tmp_path)
    run = only_run(tmp_path)
    between = ends(run)
    statuses = {between[sample["test"]][1]: sample for sample in samples(run)}
    assert statuses["dpu1"]["status"] == "ok"
    assert statuses["shy"]["status"] == "skipped"
    assert "--no-probes" in statuses["shy"]["reason"]
