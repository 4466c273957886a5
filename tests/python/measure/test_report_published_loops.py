"""Links, memory and networks beside published figures."""

from __future__ import annotations

from typing import Any

from make_run import around, summary_of, view
from overside.bench.statistics import TestSummary
from overside.report import markdown, page, published

KIB = 1024


def measured(task: str, figures: dict[str, float], **given: Any) -> TestSummary:
    """A test of `task` with six rounds around each figure."""
    provenance = given.pop("provenance", "measured")
    applied = {"device": given.get("device", "cpu"), "library": "a library"}
    rounds = {name: around(value) for name, value in figures.items()}
    return summary_of(task, given, rounds, provenance=provenance, applied=applied)


def moved(figures: dict[str, float], **given: Any) -> TestSummary:
    """A test of `dma`."""
    parameters = {
        "device": "shm",
        "variant": "engine",
        "initiator": "dpu",
        "operation": "write",
        "completion": "poll",
        "measure": "throughput",
        "buffer_size": 2 * KIB,
        "depth": 16,
        "batch": 8,
        "threads": 1,
        **given,
    }
    return measured("dma", figures, **parameters)


def figures_of(*tests: TestSummary) -> dict[str, published.Figure]:
    """Figures of the collection to compare with tests, by the fact's name and the machine."""
    found = published.comparisons(view(*tests), published.core())
    return {f"{one.fact} {one.device}": one for entry in found for one in entry.figures}


def test_a_link_stands_beside_a_cards_engine_and_says_that_it_is_none() -> None:
    run = view(moved({"rate": 5e6, "throughput": 1e4}))
    (one,) = published.comparisons(run, published.core())
    assert (one.title, one.detail) == ("Move bytes over shared memory", "a thread copies")
    assert (one.provenance, one.chosen) == ("measured", "the nearest in its conditions")
    found = {f"{figure.fact} {figure.device}": figure for figure in one.figures}
    small = found["idio.dma.d2.thr BF-2"]
    assert (small.printed, small.rate) == ("5.24 Mops", "")
    assert small.differs[0] == (
        "BF-2: a card’s DMA engine behind PCIe; here a thread of this machine that copies within "
        "its memory: no engine, no PCIe"
    )
    assert "short ones; here 2 KiB" in small.differs
    peak = found["coproc.dma.bf3_arm.peak BF-3->host"]
    assert "batch 16; here 16 in flight, 8 at a doorbell" in peak.differs
    assert "read or write and completion not stated; here write, poll" in peak.differs
    assert any(
        text.startswith("rate, writes of 2 KiB from the DPU, polling") and "5.00M" in text
        for text in one.measured
    )
    # Started by the other side, it stands beside nothing that says who started it.
    assert "coproc.dma.bf3_host.peak host->BF-3" not in found


def test_both_sides_of_a_published_ratio_were_measured_in_this_run() -> None:
    latency = {"depth": 1, "batch": 1, "measure": "latency", "buffer_size": 64}
    polling = moved({"latency_mean": 0.5}, **latency)
    waiting = moved({"latency_mean": 12.0}, **latency, completion="event")
    assert "idio.dma.poll.lat BF-2" not in figures_of(polling)
    (one,) = published.comparisons(view(polling, waiting), published.core())
    assert any(figure.fact == "idio.dma.poll.lat" for figure in one.figures)
    (text,) = [text for text in one.measured if "times" in text]
    assert text == (
        "mean latency, writes of 64 B from the DPU, 1 in flight, 1 at a doorbell, 1 thread: "
        "event 12.0, polling 0.500; 24.0 times"
    )


def test_emulated_and_modelled_transfers_stand_beside_nothing() -> None:
    emulated = moved({"rate": 5e6}, device="emulated:bf2", variant=None, provenance="emulated")
    assert published.comparisons(view(emulated), published.core()) == []


def test_memory_stands_beside_the_same_kernel_order_and_size() -> None:
    stream = {"pattern": "stream", "kernel": "triad", "buffer_size": 64 << 20, "threads": 1}
    found = figures_of(measured("memory", {"best_bandwidth": 9000.0}, **stream))
    assert {name.split()[0] for name in found} == {"idio.stream.triad"}
    assert "8 cores; here 1 thread" in found["idio.stream.triad BF-2"].differs

    access = {
        "pattern": "access",
        "access": "read",
        "order": "random",
        "buffer_size": 16 * KIB,
        "threads": 1,
    }
    found = figures_of(measured("memory", {"access_rate": 900.0}, **access))
    bluefield = found["dpbento.mem.rnd.read.16KB BF-2"]
    assert bluefield.printed == "172.71 Mops/s"
    assert bluefield.differs == (
        "on BF-2; here on this machine",
        "by sysbench; here a loop of Overside’s own",
    )
    assert not any("write" in name or "seq" in name for name in found)


def test_pages_decide_which_latencies_stand_beside() -> None:
    chase = {"pattern": "chase", "buffer_size": 4 << 20, "threads": 1}
    small = figures_of(measured("memory", {"read_latency": 30.0}, **chase, pages="small"))
    huge = figures_of(measured("memory", {"read_latency": 20.0}, **chase, pages="huge"))
    assert {name.split()[0] for name in small} == {"coproc.sbc.bf2.lat"}
    assert {name.split()[0] for name in huge} == {"coproc.sbc.bf2.lath"}


def test_a_network_stands_beside_cables_and_a_hop_beside_a_cards_cores() -> None:
    trips = {
        "pattern": "round-trip",
        "destination": "host",
        "mode": None,
        "message_size": 32 * KIB,
        "connections": 1,
        "threads": 1,
        "depth": 64,
    }
    found = figures_of(measured("network", {"throughput": 3000.0}, **trips))
    one = found["dpbento.net.tcp.1t BF-2"]
    assert one.differs == ("BF-2 over a cable; here loopback within this machine",)
    hop = trips | {"pattern": "stream", "mode": "ovs-userspace", "depth": 1}
    found = figures_of(measured("network", {"throughput": 300.0}, **hop))
    assert {name.split()[0] for name in found} == {"idio.net.sm2"}


def test_the_report_keeps_what_was_measured_and_what_was_published_apart() -> None:
    run = view(moved({"rate": 5e6, "throughput": 1e4}))
    html = page.page(run)
    section = html[html.index('id="published"') :]
    section = section[: section.index("</section>\n  </details>")]
    here, there = section.index("badge measured"), section.index("badge published")
    assert here < section.index("5.00M") < there < section.index("5.24 Mops")
    text = markdown.markdown(run)
    assert "- measured here, the nearest in its conditions: rate, writes of 2 KiB" in text
