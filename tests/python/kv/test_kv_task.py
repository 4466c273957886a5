"""The task `kv`: servers are started, loaded and counted for boxes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import overside, planned, ran, short_box
from overside.bench import network_path
from overside.bench.statistics import load_run
from overside.commands import simulate
from overside.errors import Exit
from overside.processes import ProcessError
from overside.report.groups import groups
from overside.tasks import kv, kv_cases, kv_servers
from overside.tasks.agents import HERE, Agents
from overside.tasks.programs import Programs

pytestmark = pytest.mark.begun_first

SMALL: dict[str, Any] = {"records": 500, "connections": 2}


def asked(**given: object) -> dict[str, Any]:
    return kv.TASK.normal(given)


def is_starved(sample: dict[str, Any]) -> bool:
    """`True` if other programs left too little CPU time for an answer, or for either side."""
    if "machine is too busy" in str((sample.get("error") or {}).get("message")):
        return True
    metrics = sample.get("metrics") or {}
    return any(metrics.get(name) == 0 for name in ("rate", "host_rate", "dpu_rate"))


def taken(directory: Path, metric: str, **given: object) -> tuple[Path, list[dict[str, Any]]]:
    """A run of one short sample of each test, and the samples: of longer ones where other programs
    left no time for an answer."""
    for seconds in (0.1, 1.0, 10.0):
        parameters = {**SMALL, "seconds": seconds, **given}
        place = directory / str(seconds)
        place.mkdir()
        box = short_box(place, {"task": "kv", "parameters": parameters, "metrics": [metric]})
        run = ran(box, code=None)
        samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
        if not any(map(is_starved, samples)):
            break
    return run, samples


CASES = {
    "CH-SH": ("client", "cpu-only"),
    "CD-SH": ("client-dpu", "cpu-only"),
    "CDH-SH": ("client-dpu+client", "cpu-only"),
    "L-CD-SH": ("dpu", "cpu-only"),
    "CH-SD": ("client", "dpu-only"),
    "CD-SD": ("client-dpu", "dpu-only"),
}


def test_cases_are_clients_and_a_design_by_the_studies_names() -> None:
    assert set(kv.TASK.parameters["case"].choices) == set(CASES)
    for case, (load_from, design) in CASES.items():
        by_name = asked(case=case)
        assert (by_name["load_from"], by_name["design"]) == (load_from, design)
        assert asked(load_from=load_from, design=design) == by_name
        assert kv_cases.unavailable(by_name) is None
        said = str(kv_cases.unavailable(asked(load_from=case.lower())))
        assert f"case={case}" in said
    assert asked()["case"] is None
    # Agents may have other names, as many as the case has.
    assert kv_cases.unavailable(asked(case="CD-SD", load_from="dpu7")) is None
    assert asked(case="CD-SD", load_from="dpu7")["design"] == "dpu-only"
    said = str(kv_cases.unavailable(asked(case="CDH-SH", load_from="dpu7")))
    assert "load_from=client-dpu+client" in said
    assert "design=cpu-only, not lat" in str(
        kv_cases.unavailable(asked(case="CH-SH", design="lat"))
    )


def test_the_box_of_cases_has_them_all(tmp_path: Path) -> None:
    tests = planned("kv-cases", cwd=tmp_path)
    found = {(test["parameters"]["case"], test["parameters"]["value_size"]) for test in tests}
    assert found == {(case, size) for case in CASES for size in (8, 32)}
    for test in tests:
        parameters = test["parameters"]
        assert CASES[parameters["case"]] == (parameters["load_from"], parameters["design"])


def test_what_has_no_effect_is_left_out() -> None:
    assert asked() == asked(link="ucx", overlap="off", dpu="dpu0")
    assert asked(design="lat") != asked(design="lat", link="ucx")
    assert asked(server="redis") == asked(server="redis", design="lat", cores=2)
    assert asked(reads=95) == asked(reads=95, workload="a")
    assert asked(design="lat") == asked(design="lat", dpu_cores=3)
    assert (
        asked(design="lat", cores=4)["dpu_cores"] == asked(design="shrd", cores=4)["dpu_cores"] == 4
    )
    assert asked(design="shrd", cores=4, dpu_cores=2)["dpu_cores"] == 2
    assert asked(design="dpu-only")["dpu_cores"] == 1
    assert asked()["dpu_cores"] is None
    assert asked(load=50) == asked(load=50, rate=1000)
    assert asked(design="sav") != asked(design="sav", dpu_cores=3)
    assert asked() != asked(send="early")
    assert asked(design="sav") == asked(design="sav", direct_connections=2)
    assert asked(design="dual") != asked(design="dual", direct_connections=2)
    assert asked() == asked(link_message=256) != asked(design="lat", link_message=256)
    assert asked() != asked(driver="dpdk")
    assert asked(server="redis") == asked(server="redis", driver="dpdk")
    assert asked(protocol="herd") != asked(protocol="herd", link="ucx")


def test_options_of_the_server_are_those_that_differ_from_its_defaults() -> None:
    plain = kv_servers.server_command(asked(), "127.0.0.1", None)[1:]
    assert plain[:6] == ["kv", "serve", "--json", "--listen", "127.0.0.1:0", "--drain"]
    assert "--link-batch" not in plain
    assert "--dpu" not in plain
    offloaded = kv_servers.server_command(
        asked(design="lat", link_batch="request", busy_poll=True), "127.0.0.1", None
    )
    assert offloaded[-7:-5] == ["--dpu", "here"]
    assert offloaded[-5:] == ["--dpu-cores", "1", "--link-batch", "request", "--busy-poll"]
    early = kv_servers.server_command(
        asked(design="sav", dpu_cores=2, send="early"), "127.0.0.1", None
    )
    assert early[-6:] == ["--dpu", "here", "--dpu-cores", "2", "--send", "early"]
    assert "--link" not in kv_servers.server_command(asked(protocol="herd"), "127.0.0.1", None)


def test_costs_are_of_a_request() -> None:
    quantiles = {name: {"median": 2000.0} for name in ("p50", "p90", "p99", "p99.9")}
    point = {
        "requests_per_s": {"median": 1e6},
        "latency_ns": quantiles,
        "latency_max_ns": 9000,
        "client_busy": 0.5,
        "answered": 1000,
        "requests_by_endpoint": [100, 300],
    }
    names = ["requests", "link_writes", "link_written_bytes"]
    names += ["link_sent_bytes", "link_received_bytes", "client_bytes", "reply_bytes"]
    names += ["link_answers", "link_answer_ns"]
    names += ["datagrams_received", "datagrams_dropped", "datagrams_backlog_max_bytes"]
    counts = [dict.fromkeys(names, 7) for _ in range(2)]
    after = (1007, 17, 20_007, 21_007, 9_007, 30_007, 10_007, 12, 40_007, 97, 17, 4096)
    counts[1] = dict(zip(counts[1], after, strict=True))
    found = kv.figures(
        {"points": [point]}, (1.0, 2.0, counts[0]), (1.5, 2.1, counts[1]), has_agent=True
    )
    assert found["host_cpu"] == pytest.approx(500)
    assert found["dpu_cpu"] == pytest.approx(100)
    assert (found["link_writes"], found["link_bytes"]) == (0.01, 30.0)
    assert (found["link_sent_bytes"], found["link_received_bytes"]) == (21.0, 9.0)
    assert (found["packet_bytes"], found["reply_bytes"]) == (30.0, 10.0)
    assert (found["link_message_bytes"], found["link_latency"]) == (2000.0, 8.0)
    assert (found["rate"], found["latency_p999"], found["client_busy"]) == (1e6, 2.0, 50.0)
    assert (found["host_rate"], found["dpu_rate"]) == (0.25e6, 0.75e6)
    # The most that waited is since the server began.
    assert (found["dropped"], found["backlog"]) == (10.0, 4096)
    assert set(found) <= set(kv.TASK.metrics)


def test_a_sample_with_hardly_an_answer_has_no_figures() -> None:
    latency = {name: {"median": 0.0} for name in ("p50", "p90", "p99", "p99.9")}
    point = {"requests_per_s": {"median": 0.0}, "latency_ns": latency, "answered": 3}
    nothing: tuple[float, float, dict[str, int]] = (0.0, 0.0, {})
    with pytest.raises(ProcessError, match="machine is too busy"):
        kv.figures({"points": [point]}, nothing, nothing, has_agent=False)


def test_connections_to_both_sides_are_counted_apart() -> None:
    latency = {name: {"median": 1000.0} for name in ("p50", "p90", "p99", "p99.9")}
    point = {
        "requests_per_s": {"median": 1000.0},
        "latency_ns": latency,
        "latency_max_ns": 1,
        "client_busy": 0.1,
        "answered": 0,
        "requests_by_endpoint": [10, 20, 30, 40],
    }
    nothing: tuple[float, float, dict[str, int]] = (0.0, 0.0, {})
    report = {"points": [point]}
    found = kv.figures(report, nothing, nothing, has_agent=True, direct=3)
    assert (found["host_rate"], found["dpu_rate"]) == pytest.approx((600, 400))


def test_messages_and_connections_of_dual_are_parameters(tmp_path: Path) -> None:
    sizes = [256, 4096]
    _, found = taken(
        tmp_path,
        "link_message_bytes",
        design="dual",
        link_message=sizes,
        direct_connections=2,
        connections=3,
        pipeline=64,
    )
    short, long = sorted(sample["metrics"]["link_message_bytes"] for sample in found)
    assert short <= 256 < long <= 4096
    for sample in found:
        assert sample["metrics"]["link_latency"] > 0
        assert sample["metrics"]["host_rate"] > 0
        assert sample["metrics"]["dpu_rate"] > 0


def test_servers_are_measured_side_by_side(tmp_path: Path) -> None:
    servers = ["overside", *(["redis"] if shutil.which("redis-server") else [])]
    run, found = taken(tmp_path, "rate", server=servers, pipeline=[1, 8])
    assert len(found) == 2 * len(servers)
    for sample in found:
        assert (sample["status"], sample["provenance"]) == ("ok", "measured"), sample
        metrics = sample["metrics"]
        assert metrics["rate"] > 0
        assert metrics["latency_p50"] <= metrics["latency_p99"] <= metrics["latency_max"]
    (group,) = groups(load_run(run))
    assert group.title == "Key-value store"
    page = (run / "report.html").read_text()
    assert "Requests a second against requests in flight on a connection" in page


def test_protocols_are_measured_side_by_side(tmp_path: Path) -> None:
    protocols = ["redis", "memcached", "memcached-meta", "datagram", "herd"]
    _, found = taken(tmp_path, "rate", protocol=protocols, pipeline=16)
    assert len(found) == len(protocols)
    assert all(sample["status"] == "ok" for sample in found), found
    (herd,) = (sample for sample in found if sample["applied"]["driver"] == "link shm")
    # A write for each packed datagram: its header, records and trailer.
    assert herd["metrics"]["link_writes"] == pytest.approx(1 / 16, rel=0.2)
    requests_bytes = herd["metrics"]["link_message_bytes"] * herd["metrics"]["link_writes"]
    assert herd["metrics"]["link_bytes"] == pytest.approx(requests_bytes)
    assert herd["metrics"]["link_bytes"] > 16
    others = [sample for sample in found if sample is not herd]
    assert all("link_bytes" not in sample["metrics"] for sample in others)


def test_lengths_of_keys_are_an_axis_where_nothing_else_differs(tmp_path: Path) -> None:
    run, found = taken(tmp_path, "hash_time", key_size=[8, 1024])
    short, long = sorted(sample["metrics"]["hash_time"] for sample in found)
    assert 0 < short < long
    (group,) = groups(load_run(run))
    assert "key_size" not in group.parameters
    done = overside("simulate", "kv", "--from", run, cwd=tmp_path, code=Exit.NOTHING_SELECTED)
    assert "overside run kv-stages" in done.stderr
    page = (run / "report.html").read_text()
    assert "against length of keys" in page


@pytest.mark.parametrize("design", ["cpu-only", "lat"])
def test_the_server_of_one_sided_writes_by_ucx_has_a_password(tmp_path: Path, design: str) -> None:
    written = {"protocol": "herd", "link": "ucx", "design": design, "pipeline": 16}
    _, (sample,) = taken(tmp_path, "link_bytes", **written)
    if sample["status"] != "ok" and "UCX" in sample["error"]["message"]:
        pytest.skip(sample["error"]["message"])
    assert sample["status"] == "ok", sample
    assert sample["applied"]["driver"] == "link ucx"
    assert sample["metrics"]["link_bytes"] > 16
    assert ("dpu_cpu" in sample["metrics"]) == (design == "lat")


def test_stages_are_measured_and_answer_for_other_designs(tmp_path: Path) -> None:
    run, found = taken(tmp_path, "parse_time", stages=True, pipeline=[1, 16], connections=4)
    for sample in found:
        assert sample["status"] == "ok", sample
        assert {f"{name}_time" for name in simulate.STAGES} <= set(sample["metrics"])
        assert sample["metrics"]["hash_time"] > 0
    assert "Where the time goes" in (run / "report.html").read_text()
    words = ("simulate", "kv", "--from", run, "--set", "design=cpu-only,sav", "--json")
    report = json.loads(overside(*words, cwd=tmp_path, code=0).stdout)
    assert report["common"]["in_flight"] == "64"
    tests = {test.parameters["pipeline"]: test for test in load_run(run).tests}
    assert report["common"]["parse"] == f"{tests[16].metrics['parse_time'].median:.6g} ns"
    assert report["common"]["doubt"] == "10 %"
    other = overside(*words, "--set", "in_flight=4", cwd=tmp_path, code=0)
    assert json.loads(other.stdout)["common"]["in_flight"] == "4"
    none = overside(*words, "--set", "in_flight=5", cwd=tmp_path, code=2)
    assert "there are 4, 64" in none.stderr


@pytest.mark.parametrize("design", ["cpu-only", "lat", "shrd"])
def test_a_port_that_dpdk_drives_serves(tmp_path: Path, design: str) -> None:
    ways = {"driver": "dpdk", "protocol": "datagram", "pipeline": 16, "cores": 2}
    run, found = taken(tmp_path, "rate", design=design, **ways)
    if not found:
        pytest.skip(f"DPDK is not here: {(run / 'manifest.json').read_text()}")
    (sample,) = found
    if sample["status"] != "ok":
        message = sample["error"]["message"]
        if any(word in message for word in ("DPDK", "net_memif")):
            pytest.skip(message)
    assert sample["status"] == "ok", sample
    assert sample["metrics"]["rate"] > 0
    assert sample["applied"]["driver"] != "sockets"


def test_datagrams_that_wait_and_those_that_are_dropped_are_told(tmp_path: Path) -> None:
    # What would be dropped with fewer of them waits; how much that is depends on the machine.
    _, found = taken(tmp_path, "rate", protocol="datagram", rx_queue=4096, pipeline=16)
    (sample,) = found
    assert sample["status"] == "ok", sample
    assert sample["metrics"]["dropped"] == 0
    assert sample["metrics"]["backlog"] >= 0


@pytest.mark.parametrize("protocol", ["datagram", "memcached", "memcached-meta"])
def test_every_protocol_is_served_on_a_dpu(tmp_path: Path, protocol: str) -> None:
    designs = {"design": ["sav", "shrd"], "dpu_cores": 2}
    _, found = taken(tmp_path, "rate", protocol=protocol, pipeline=16, **designs)
    assert len(found) == 2
    for sample in found:
        assert sample["status"] == "ok", sample
        assert sample["metrics"]["link_bytes"] > 8


def test_as_many_records_as_fit_are_loaded_at_a_part_of_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.sysconf
    few = {"SC_AVPHYS_PAGES": 512}
    monkeypatch.setattr(os, "sysconf", lambda name: few.get(name) or real(name))
    assert 1000 < kv.records_that_fit(asked(key_size=8, value_size=8)) < 10_000
    monkeypatch.undo()
    _, found = taken(tmp_path, "rate", load=[10, 50], pipeline=16)
    little, half = sorted(sample["metrics"]["rate"] for sample in found)
    assert 0 < little < half


def test_an_agent_here_stands_in_for_a_dpu(tmp_path: Path) -> None:
    ways = ["batch", "request"]
    _, found = taken(tmp_path, "link_writes", design="lat", link_batch=ways, pipeline=16)
    assert all("in place of a DPU" in sample["applied"]["device"] for sample in found)
    few, many = sorted(sample["metrics"]["link_writes"] for sample in found)
    assert few < 0.5
    # Exactly: what else crosses the link is not counted with requests.
    assert many == 1
    for sample in found:
        # RESP's words stay where the clients are.
        assert sample["metrics"]["packet_bytes"] > 27
    batched = min(found, key=lambda sample: sample["metrics"]["link_sent_bytes"])["metrics"]
    assert batched["link_sent_bytes"] < batched["packet_bytes"]
    both_ways = batched["link_sent_bytes"] + batched["link_received_bytes"]
    assert batched["link_bytes"] == pytest.approx(both_ways)
    assert batched["reply_bytes"] > 0


def test_designs_are_measured_side_by_side(tmp_path: Path) -> None:
    designs = ["sav", "proc", "dpu-only"]
    _, found = taken(tmp_path, "rate", design=designs, dpu_cores=2, send=["early", "late"])
    assert len(found) == 2 * len(designs)
    for sample in found:
        assert sample["status"] == "ok", sample
        assert sample["metrics"]["host_cores_used"] >= 0
        assert sample["metrics"]["dpu_cores_used"] > 0
        # Without a link nothing is counted.
        is_linked = "dpu-only" not in sample["applied"]["variant"]
        assert ("link_writes" in sample["metrics"]) == is_linked


def test_other_machines_make_the_load(tmp_path: Path) -> None:
    """Two stand-ins and this process, each with its own connections, load one server."""
    _, found = taken(tmp_path, "rate", load_from=["local", "local+here+client"], stand_ins=True)
    alone, together = sorted(found, key=lambda sample: len(sample["applied"]["device"]))
    assert alone["applied"]["device"] == "this machine's cores"
    assert together["applied"]["device"].endswith(
        "an agent in place of another machine, an agent in place of client"
    )
    assert all(sample["status"] == "ok" and sample["metrics"]["rate"] > 0 for sample in found)
    # Load is no work of a DPU.
    assert all(sample["cpu"]["dpu_s"] == 0 for sample in found)


def test_an_offloaded_server_is_loaded_from_another_machine(tmp_path: Path) -> None:
    _, found = taken(tmp_path, "rate", design="lat", load_from="client", dpu="card", stand_ins=True)
    (sample,) = found
    assert sample["status"] == "ok", sample
    device = sample["applied"]["device"]
    assert device.endswith("an agent in place of card, an agent in place of client")


def test_machines_that_were_added_are_used_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = tmp_path / "agents.toml"
    monkeypatch.setenv("OVERSIDE_AGENTS", str(inventory))
    with Programs(tmp_path, "test", 60) as programs:
        first = Agents(programs, [HERE], stand_ins=False)
        inventory.write_text(
            Path(first.variables["OVERSIDE_AGENTS"]).read_text().replace(HERE, "client")
        )
        found = Agents(programs, ["client", HERE], stand_ins=True)
        assert list(found.started) == [HERE]
        assert (found.ip("client"), found.own_ip("client")) == ("127.0.0.1", "127.0.0.1")
        with pytest.raises(ProcessError, match="no agent is called 'nobody'"):
            Agents(programs, ["nobody"], stand_ins=False)
        _, (sample,) = taken(tmp_path, "rate", load_from="client")
        assert sample["applied"]["device"] == "this machine's cores, client", sample


def test_where_others_reach_a_server_it_has_a_password(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    with Programs(tmp_path, "test", 20) as programs:
        command = kv_servers.redis_command(programs, ("127.0.0.1", 7000), password)
        assert "requirepass secret" in Path(command[-1]).read_text()
        assert Path(command[-1]).stat().st_mode & 0o077 == 0
    assert not Path(command[-1]).exists()
    words = kv_servers.server_command(asked(), "192.0.2.1", password)
    assert words[words.index("--password-file") + 1] == str(password)
    assert "192.0.2.1:0" in words


@pytest.mark.parametrize("design", ["dual", "shrd"])
def test_where_clients_connect_to_both_sides_both_are_loaded(tmp_path: Path, design: str) -> None:
    _, (sample,) = taken(tmp_path, "rate", design=design, connections=4)
    assert sample["status"] == "ok", sample
    metrics = sample["metrics"]
    assert metrics["host_rate"] > 0
    assert metrics["dpu_rate"] > 0
    assert metrics["host_rate"] + metrics["dpu_rate"] == pytest.approx(metrics["rate"])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"server": "redis", "protocol": "memcached"}, "redis does not speak memcached"),
        ({"server": "memcached", "busy_poll": True}, "memcached cannot poll"),
        ({"protocol": "datagram", "workload": "e"}, "which need protocol=redis"),
        ({"protocol": "herd", "load_from": "here"}, "link=ucx, or leave load_from away"),
        ({"protocol": "herd", "design": "sav"}, "link=ucx, or leave design away"),
        ({"protocol": "herd", "design": "dual"}, "goes to one endpoint"),
        ({"stages": True, "design": "sav"}, "leave stages away"),
        ({"stages": True, "rate": 1000}, "leave load_from and rate away"),
        ({"protocol": "herd", "connections": 300}, "256 connections at most"),
        ({"protocol": "herd", "mode": "direct"}, "leave mode away"),
        ({"driver": "dpdk"}, "serves protocol=datagram only"),
        ({"driver": "dpdk", "protocol": "datagram", "load_from": "here"}, "leave load_from"),
        (
            {"design": "lat", "dpu": "dpu0", "driver": "dpdk", "protocol": "datagram"},
            "dpu=here, or leave design away",
        ),
        (
            {"design": "dual", "direct_connections": 2, "protocol": "datagram"},
            "datagrams go to one endpoint",
        ),
        ({"design": "lat", "dpu": "nobody"}, "no agent is called 'nobody'"),
        ({"load_from": "local+nobody"}, "no agent is called 'nobody'"),
        ({"load_from": "local+local"}, "names a node twice"),
        ({"mode": "direct", "load_from": "here"}, "leave design and load_from away"),
        ({"mode": "direct", "protocol": "memcached"}, "has no password"),
        ({"mode": "direct", "protocol": "datagram"}, "has no password"),
    ],
)
def test_what_cannot_be_is_skipped_with_the_reason(
    tmp_path: Path, given: dict[str, object], reason: str
) -> None:
    (test,) = planned(short_box(tmp_path, {"task": "kv", "parameters": given}))
    assert test["status"] == "skipped"
    assert reason in test["reason"]


@pytest.mark.parametrize("mode", ["direct", "bridge"])
def test_requests_pass_a_hop_between_two_namespaces(tmp_path: Path, mode: str) -> None:
    reason = network_path.unavailable(mode)
    if reason is not None:
        pytest.skip(reason)
    servers = ["overside", *(["redis"] if shutil.which("redis-server") else [])]
    _, found = taken(tmp_path, "rate", server=servers, mode=mode)
    for sample in found:
        assert sample["status"] == "ok", sample
        assert sample["applied"]["device"].endswith("between two namespaces")
        assert sample["metrics"]["rate"] > 0
        # The kernel forwards.
        assert "hop_cpu" not in sample["metrics"]


def test_a_program_that_forwards_costs_cpu_time(tmp_path: Path) -> None:
    reason = network_path.unavailable("ovs-userspace")
    if reason is not None:
        pytest.skip(reason)
    _, (sample,) = taken(tmp_path, "hop_cpu", mode="ovs-userspace", seconds=0.5)
    assert sample["status"] == "ok", sample
    assert sample["metrics"]["hop_cpu"] > 0
