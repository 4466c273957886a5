"""What the report says of cards, from the real model and the real profiles."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from make_run import around, view
from overside.report import best, outlook
from overside.report.outlook import CardOutlook, OutlookEntry
from test_report_best import summary


def card(name: str, rate: float, **given: object) -> tuple[CardOutlook, OutlookEntry]:
    """A card against a CPU that compresses at `rate` MB/s, unless `given` says otherwise."""
    test = summary("isal", around(rate), ratio=0.4, **given)
    found = outlook.outlooks(best.advise(view(test)))
    (one,) = (entry for entry in found if entry.profile == name)
    (entry,) = one.entries
    return one, entry


def test_a_slow_cpu_gets_the_upper_end_and_no_prediction_of_the_size() -> None:
    one, entry = card("bf2", 100)
    # Several engines might be faster than the one that is assumed.
    assert re.fullmatch(r"up to [\d.]+ times", entry.headline)
    assert "more engines than one would raise that" in entry.sentences[0]
    assert entry.faster_from == "no prediction"
    assert re.fullmatch(r"not below [\d.]+ [KM]iB", entry.faster_anew_from)
    assert "99.0–101 MB/s measured here in 64 KiB buffers" in entry.sentences[0]
    assert any("cost of one job" in term for term in one.unknown)
    assert one.facts.keys() >= {"coproc.comp.asic.bf2"}


def test_the_bound_falls_as_the_cpu_gets_faster() -> None:
    bounds = [card("bf2", rate)[1].answers["static"]["speedup"]["high"] for rate in (100, 400)]
    assert bounds[0] == pytest.approx(4 * bounds[1], rel=1e-9)


def test_a_cpu_faster_than_the_card_is_told_that() -> None:
    _, entry = card("bf2", 90_000)
    assert any("slower than this machine" in sentence for sentence in entry.sentences)
    assert entry.faster_anew_from == "never"


def against(*measured: tuple[int, list[float]]) -> OutlookEntry:
    """BlueField-2 against a CPU with those MB/s, round by round, at those sizes."""
    tests = (summary("isal", rates, size=size, ratio=0.4) for size, rates in measured)
    found = outlook.outlooks(best.advise(view(*tests)))
    return next(one for one in found if one.profile == "bf2").entries[0]


def test_the_most_that_a_card_gains_is_against_the_low_end_of_what_was_measured() -> None:
    exactly = {rate: against((65536, [rate] * 6)).answers["static"] for rate in (80.0, 125.0)}
    spread = against((4096, [20.0] * 6), (65536, [80.0, 100, 100, 100, 100, 125.0]))
    speed = spread.answers["static"]["speedup"]
    assert speed["high"] == pytest.approx(exactly[80.0]["speedup"]["high"])
    assert speed["low"] == pytest.approx(exactly[125.0]["speedup"]["low"])
    assert "80.0–125 MB/s measured here in 64 KiB buffers" in spread.sentences[0]


def test_no_size_is_ruled_out_that_the_slowest_measured_rate_allows() -> None:
    sizes = {
        rate: against((65536, [rate] * 6)).answers["reconfiguration"]["break_even"]["bytes"]
        for rate in (50.0, 200.0)
    }
    assert sizes[50.0] < sizes[200.0]
    slow_at_first = against((4096, [50.0, *[60.0] * 5]), (65536, [200.0] * 6))
    assert slow_at_first.answers["reconfiguration"]["break_even"]["bytes"] == sizes[50.0]
    assert (
        "(against 50.0 MB/s, the low end of what was measured here over all buffer sizes); above"
        in slow_at_first.sentences[-1]
    )
    # At its fastest size no card could keep up, at its slowest one could.
    assert against((65536, [90_000.0] * 6)).faster_anew_from == "never"
    mixed = against((4096, [50.0] * 6), (65536, [90_000.0] * 6))
    assert mixed.faster_anew_from.startswith("not below")


def test_a_range_of_sizes_holds_for_all_measured_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: object, rate: float) -> dict[str, object]:
        even = {"kind": "range", "low_bytes": rate * 10, "high_bytes": rate * 20}
        return {
            "break_even": even if rate < 500 else {"kind": "never", "reason": "slower"},
            "device_rate_bytes_per_s": {"low": 1e9, "typ": 1e9, "high": 1e9},
            "max_buffer_bytes": 2**20,
            "missing": [],
            "bounded": True,
        }

    def entry(slow: float, fast: float) -> OutlookEntry:
        tests = [
            summary("isal", [rate] * 6, size=size, ratio=0.4)
            for size, rate in ((4096, slow), (65536, fast))
        ]
        return outlook.outlooks(best.advise(view(*tests)))[0].entries[0]

    monkeypatch.setattr(outlook, "_ask", ask)

    assert entry(50, 200).faster_from == "between 500 B and 4,000 B"
    assert "(against 50.0–200 MB/s, what was" in entry(50, 200).sentences[-1]
    # As fast as it is at one size it is never outdone, so no size is certain.
    assert entry(50, 900).faster_from == "not below 500 B"


def test_only_a_bound_is_called_one() -> None:
    missing = ["latency from the doorbell to the engine"]
    answer = {"speedup": {"low": 2.0, "typ": 3.0, "high": 4.0}, "missing": missing, "bounded": True}
    assert outlook._headline(answer) == "at most 4.0 times"
    assert outlook._unknown(answer) == "; what is not known can only lower that"
    answer["bounded"] = False
    assert outlook._headline(answer) == "up to 4.0 times"
    assert "some of what is not known would raise that" in outlook._unknown(answer)
    answer["missing"] = []
    assert outlook._headline(answer) == "2.00–4.00 times"
    assert outlook._unknown(answer) == ""


def test_bluefield_3_cannot_compress() -> None:
    _, entry = card("bf3", 100)
    assert not entry.supported
    assert entry.headline == "cannot do this"
    (sentence,) = entry.sentences
    assert "bf3 cannot compress-deflate: it has no compression engine." in sentence


def test_a_note_about_the_card_stands_once_and_not_with_each_refusal() -> None:
    one, entry = card("bf3", 100)
    assert one.notes
    assert not any(note in sentence for note in one.notes for sentence in entry.sentences)


def test_without_a_measured_ratio_there_is_no_prediction() -> None:
    test = summary("isal", around(100))
    for one in outlook.outlooks(best.advise(view(test))):
        assert one.entries[0].headline == "no prediction"
        assert "ratio was not measured" in one.entries[0].sentences[0]


def test_the_reconfiguration_setting_is_compared_only_where_nothing_else_was_measured() -> None:
    static = summary("isal", around(400), ratio=0.4)
    anew = summary("isal", around(90), ratio=0.4, parameters={"setting": "reconfiguration"})
    for one in outlook.outlooks(best.advise(view(static, anew))):
        assert len(one.entries) == 1
    (first, *_) = outlook.outlooks(best.advise(view(anew)))
    assert len(first.entries) == 1


def test_entries_of_one_title_are_told_apart() -> None:
    one = card("bf2", 100)[0]
    twins = [replace(one.entries[0], detail=detail) for detail in ("on a", "on b")]
    names = [name for name, _ in replace(one, entries=tuple(twins)).named()]
    title = one.entries[0].title
    assert names == [f"{title} (on a)", f"{title} (on b)"]
    assert [name for name, _ in one.named()] == [title]


def test_hosts_and_cards_without_known_engines_are_left_out() -> None:
    named = {one.profile for one in outlook.outlooks(best.advise(view(summary("isal", around(9)))))}
    assert named >= {"bf2", "bf3"}
    assert not any(name.startswith("host-") for name in named)
