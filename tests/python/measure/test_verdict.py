"""The verdict: what it says of made-up runs, and that every format quotes the same words."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import parsed
from make_run import Scenario, around, make, summary_of, view
from overside import report, verdict
from overside.bench.statistics import RunView, TestSummary, load_run
from overside.commands import advise as verb
from overside.report import formatting
from overside.verdict import Verdict
from overside.verdict.decision import saved_words

MIB = 1 << 20
#: Two cores, and nobody else on them.
QUIET = {
    "cpu": {"online": 2, "usable": [0, 1]},
    "load_before": {"uptime_s": 0.0, "busy_s": 0.0, "own_s": 0.0, "stolen_s": 0.0},
    "load_after": {"uptime_s": 10.0, "busy_s": 20.0, "own_s": 20.0, "stolen_s": 0.0},
}


def compressing(
    rates: list[float], *, device: str = "cpu", threads: int = 1, size: int = MIB, **more: Any
) -> TestSummary:
    """A test that compressed at those MB/s, one a round."""
    parameters = {
        "device": device,
        "variant": "isal" if device == "cpu" else "auto",
        "format": "deflate",
        "level": 1,
        "buffer_size": size,
        "threads": threads,
        "data": "system",
    }
    cost = [threads * 1e3 / rate for rate in rates]
    figures = {"throughput": rates, "cpu_cost": cost, "ratio": [0.4] * len(rates)}
    return summary_of("compress", parameters, figures, **more)


def run_of(*tests: TestSummary, machine: dict[str, Any] | None = None) -> RunView:
    run = view(*tests, box_path="boxes/mine.json", metrics={})
    run.environment.update(QUIET if machine is None else machine)
    return run


def host(one: float = 100.0, two: float = 200.0) -> list[TestSummary]:
    return [compressing(around(one)), compressing(around(two), threads=2)]


def measured(run: RunView) -> Verdict:
    (found,) = verdict.of_run(run).verdicts
    return found


def test_a_measured_device_that_is_faster_is_worth_offloading_to() -> None:
    run = run_of(*host(), compressing(around(5000), device="dpu0/dpdk:mlx5_0"))
    found = verdict.of_run(run)
    (one,) = found.verdicts
    assert one.provenance == "measured"
    assert one.decision in ("offload", "split")
    assert one.against_host is not None
    assert one.against_core is not None
    # 5000 over 200, and over 100, each within one percent.
    assert one.against_host.low == pytest.approx(24.5, rel=0.01)
    assert one.against_host.high == pytest.approx(25.5, rel=0.01)
    assert one.against_core.low == pytest.approx(49, rel=0.01)
    assert "all 2 cores" in one.figures
    assert one.confidence == "high"
    assert "--placement-out" in one.next_step
    # The cards that nobody measured are folded.
    assert found.folded
    assert not any(card.is_measured for card in found.folded)
    assert "BlueField" not in " ".join(found.lines)


def test_a_measured_device_that_is_slower_keeps_the_work_on_the_cpu() -> None:
    run = run_of(*host(), compressing(around(10), device="dpu0/dpdk:mlx5_0"))
    one = measured(run)
    assert one.decision == "cpu"
    assert one.leaning == ""
    assert one.next_step == ""
    headline = verdict.of_run(run).headline
    assert headline == "Keep compression on the CPU: no device is faster."


def test_from_which_size_on_and_what_holds_below() -> None:
    sizes = (4096, MIB)
    cores = [compressing(around(200), threads=2, size=size) for size in sizes]
    device = [
        compressing(around(rate), device="dpu0/dpdk:mlx5_0", size=size)
        for size, rate in zip(sizes, (10, 5000), strict=True)
    ]
    one = measured(run_of(*cores, *device))
    assert one.from_bytes == MIB
    assert "buffers from 1 MiB (smaller: keep on the CPU" in one.figures


def test_a_busy_machine_has_no_headline() -> None:
    busy = QUIET | {"load_after": QUIET["load_after"] | {"busy_s": 20.0, "own_s": 6.0}}
    run = run_of(*host(), compressing(around(5000), device="dpu0/dpdk:mlx5_0"), machine=busy)
    found = verdict.of_run(run)
    assert found.headline.startswith("No headline: the machine was busy: others used 1.4 of 2")
    (one,) = found.verdicts
    assert one.decision == "cannot-tell"
    assert one.leaning in ("offload", "split")
    assert one.confidence == "low"
    assert "quiet machine" in one.next_step


def test_no_load_changes_what_is_in_virtual_time() -> None:
    busy = QUIET | {"load_after": QUIET["load_after"] | {"busy_s": 20.0, "own_s": 6.0}}
    emulated = compressing(
        around(5000), device="emulated:bf2", provenance="emulated", timing="virtual"
    )
    assert verdict.of_run(run_of(emulated, machine=busy)).caution == ""
    assert verdict.of_run(run_of(emulated, *host(), machine=busy)).caution != ""


def test_only_what_others_did_during_the_run_counts() -> None:
    before = QUIET | {"load_before": QUIET["load_before"] | {"load_1min": 2.0}}
    assert verdict.of_run(run_of(*host(), machine=before)).caution == ""
    killed = {name: value for name, value in before.items() if name != "load_after"}
    caution = verdict.of_run(run_of(*host(), machine=killed)).caution
    assert caution == "the machine was busy: load 2.0 on 2 cores"


def test_a_wide_interval_above_one_tells_the_direction_and_calls_the_amount_uncertain() -> None:
    wide = [400.0, 500.0, 900.0, 1000.0, 1500.0, 1600.0]
    run = run_of(*host(), compressing(wide, device="dpu0/dpdk:mlx5_0"))
    one = measured(run)
    assert one.decision in ("offload", "split")
    assert one.is_amount_uncertain
    assert one.leaning == ""
    assert "amount uncertain" in one.line
    assert "interval wider than 2 times" in one.reasons
    assert "measure.rounds" in one.next_step
    # A figure in the headline is a whole interval, and called what it is.
    assert one.together is not None or one.against_host is not None
    ratio = one.together or one.against_host
    assert f"speeds up compression by an uncertain {ratio}" in verdict.of_run(run).headline
    assert one.json()["amount_uncertain"] is True


def test_few_rounds_tell_nothing() -> None:
    run = run_of(
        compressing([100.0, 100.0], threads=2),
        compressing([900.0, 901.0], device="dpu0/dpdk:mlx5_0"),
    )
    assert measured(run).decision == "cannot-tell"


def test_cores_that_were_not_measured_together_are_scaled_and_not_called_measured() -> None:
    run = run_of(compressing(around(100)), compressing(around(5000), device="dpu0/dpdk:mlx5_0"))
    one = measured(run)
    assert one.is_measured
    assert one.provenance == "modelled"
    assert one.against_host is not None
    assert one.against_core is not None
    assert one.against_core.low == pytest.approx(2 * one.against_host.low)
    assert any("scaled" in reason for reason in one.reasons)


def test_cards_that_were_not_measured_are_modelled_and_of_low_confidence() -> None:
    found = verdict.of_run(run_of(*host()))
    assert {one.name for one in found.verdicts} == {"BlueField-2"}
    for one in found.verdicts:
        assert one.provenance == "modelled"
        assert one.confidence == "low"
        assert "[MODELLED]" in one.line
        # A rate was published, and the reader may own no card.
        assert one.next_step.startswith("`overside run ")
        assert one.next_step.endswith("` on a borrowed BlueField-2")
    # One line a card, whatever release drives it.
    assert [text.partition(" cannot")[0] for text in found.unable] == ["BlueField-3"]
    assert "Compress to DEFLATE" in found.unable[0]
    # Jobs that were published whole bound the size from above.
    assert found.verdicts[0].bound.startswith("one at a time faster than a core from")
    assert "at the latest" in found.verdicts[0].figures
    assert found.folded == ()


def test_an_engine_of_which_nobody_published_a_figure_has_no_prediction() -> None:
    parameters = {"device": "cpu", "variant": "ring", "buffer_size": MIB, "threads": 1}
    tests = [
        summary_of(task, parameters | {"cipher": "aes-256-gcm"}, {"throughput": around(1000.0)})
        for task in ("encrypt", "decrypt")
    ]
    found = verdict.of_run(run_of(*tests))
    assert found.verdicts == ()
    # One line for all cards, and none that says that they cannot do it.
    assert list(found.unable) == [
        "No prediction for BlueField-2 and BlueField-3: nobody has published a figure of Encrypt "
        "with AES-256-GCM and Decrypt with AES-256-GCM."
    ]


def test_a_software_driver_is_called_a_stand_in() -> None:
    run = run_of(*host(), compressing(around(150), device="dpdk:compress_isal"))
    assert "dpdk:compress_isal (software stand-in)" in measured(run).line


def test_a_run_of_emulated_devices_alone_has_no_verdict() -> None:
    emulated = compressing(around(900), device="emulated:bf2", provenance="emulated")
    found = verdict.of_run(run_of(emulated))
    assert found.verdicts == ()
    assert found.headline.startswith("Cannot tell yet: only emulated devices ran")


def test_nothing_measured_is_said() -> None:
    assert verdict.of_run(run_of()).headline.startswith("Cannot tell: no test was measured")


def network(size: int, figures: dict[str, list[float]], **more: Any) -> TestSummary:
    parameters = {"pattern": "round-trip", "message_size": size, "depth": 1, **more}
    return summary_of("network", parameters, figures)


def test_a_network_answers_with_latency_at_depth_one_and_its_peak() -> None:
    trips = [
        network(size, {"latency_p50": around(micros)})
        for size, micros in ((64, 7.0), (16384, 9.0), (65536, 40.0))
    ]
    deep = network(64, {"latency_p50": around(1.0)}, depth=16)
    stream = network(MIB, {"bit_rate": around(21.0)}, pattern="stream")
    found = verdict.of_run(run_of(*trips, deep, stream))
    assert found.verdicts == ()
    (answer,) = found.answers
    assert answer.title == "Loopback TCP"
    assert found.headline == answer.line
    assert answer.text.startswith("7.00")
    assert "to 16 KiB" in answer.text
    assert "40.0" in answer.text
    assert "at 64 KiB" in answer.text
    assert "1.00" not in answer.text
    assert "peak 21.0" in answer.text


def test_an_answer_with_a_wide_interval_is_no_headline() -> None:
    found = verdict.of_run(run_of(network(64, {"latency_p50": [7.0] * 5 + [60.0]})))
    assert found.headline.startswith("No headline: interval wider than 2 times")
    assert [one.line for one in found.other_answers] == [one.line for one in found.answers]


def test_memory_hashes_and_plugins_answer_their_own_question() -> None:
    chase = [
        summary_of(
            "memory",
            {"pattern": "chase", "buffer_size": size, "threads": 1},
            {"read_latency": around(nanos)},
        )
        for size, nanos in ((16384, 1.5), (MIB, 4.0), (1 << 28, 90.0))
    ]
    call = summary_of(
        "hash",
        {"algorithm": "xxh3", "calls": "chain", "buffer_size": 16, "device": "cpu"},
        {"call_latency": around(6.2)},
    )
    plugin = summary_of("pagerank", {"graph": "web"}, {"score": around(9.0)}, verified=False)
    found = verdict.of_run(run_of(*chase, call, plugin))
    texts = [one.line for one in found.answers]
    assert any("1.50" in text and "for one read to 16 KiB" in text for text in texts)
    assert any("6.20" in text and "for one call" in text for text in texts)
    assert any("UNVERIFIED" in text and "pagerank" in text for text in texts)


def test_what_polling_may_cost_is_said_in_words() -> None:
    assert saved_words({"low": 0.49, "high": 0.76}) == "saves 49 to 76 % of host CPU"
    said = saved_words({"low": -1.31, "high": 0.82})
    assert said == "saves up to 82 % of host CPU, or costs 2.3 times as much when polling"
    assert saved_words({"low": -0.5, "high": -0.2}) == "costs 1.2 to 1.5 times the host CPU"
    assert saved_words(None) == ""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("verdict") / "run", Scenario(tasks=("compress", "match")))


def plain(text: str) -> str:
    """Text without markup, escapes and the ways in which lines are broken."""
    text = re.sub(r"</?code>", "`", text)
    text = re.sub(r"\\(.)", r"\1", html.unescape(re.sub(r"<[^>]+>", " ", text)))
    return " ".join(text.replace("\u00a0", " ").replace("\u2060", "").split())


def test_every_format_quotes_the_same_words(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view_of = load_run(recorded)
    found = verdict.of_run(view_of)
    assert 0 < len(found.verdicts) <= 5
    verb.main(parsed("advise", "--run", recorded))
    formats = {
        "terminal": report.summary(view_of),
        "markdown": report.render(view_of, "md"),
        "html": report.render(view_of, "html"),
        "advise": capsys.readouterr().out,
        "python": str(found),
        "json": json.loads(report.render(view_of, "json"))["verdict"]["headline"]
        + " ".join(
            one["text"] for one in json.loads(report.render(view_of, "json"))["verdict"]["verdicts"]
        ),
    }
    for name, whole in formats.items():
        said = plain(whole)
        assert found.headline in said, name
        for one in found.verdicts:
            words = [one.subject, one.next_words]
            capital = one.decided[:1].upper() + one.decided[1:]
            assert one.decided in said or capital in said, name
            if name in ("terminal", "advise"):
                # What does not fit on a screen is said once for all, or left out.
                words += [one.brief if one.brief in said else one.figures]
            else:
                words += [one.figures, one.confidence_words]
            for text in words:
                assert text in said, (name, text)


def test_commands_in_it_are_code(recorded: Path) -> None:
    view_of = load_run(recorded)
    found = verdict.of_run(view_of)
    command = found.verdicts[0].next_step.split("`")[1]
    assert command.startswith("overside ")
    page = report.render(view_of, "html")
    section = page[page.index('id="verdict"') : page.index("</section>")]
    for text in (section, found._repr_html_()):
        assert f"<code>{command}</code>" in text
        assert "`" not in text
    assert f"`{command}`" in report.render(view_of, "md")


def test_no_size_is_given_where_nothing_is_known(recorded: Path) -> None:
    found = verdict.of_run(load_run(recorded))
    unknown = [one for one in found.verdicts if one.against_host is None]
    assert unknown
    for one in unknown:
        assert one.figures.startswith("How much faster is unknown")
        assert one.elsewhere or "buffers from" not in one.figures


def test_it_holds_for_text_from_outside(tmp_path: Path) -> None:
    hostile = Scenario(hostile="</script><b>\x1b[31m", sizes=(4096,))
    found = verdict.of_run(load_run(make(tmp_path / "run", hostile)))
    assert all(line == formatting.clean(line, 10_000) for line in found.lines)
