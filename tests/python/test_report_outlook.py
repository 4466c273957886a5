"""What the report says of cards, from the real model and the real profiles."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from overside.report import best, outlook
from overside.report.outlook import CardOutlook, Entry
from test_report_best import around, summary, view


def card(name: str, rate: float, **given: object) -> tuple[CardOutlook, Entry]:
    """A card against a CPU that compresses at `rate` MB/s, unless `given` says otherwise."""
    test = summary("isal", around(rate), ratio=0.4, **given)
    found = outlook.outlooks(best.advise(view(test)), outlook.core())
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
    assert "100 MB/s measured here" in entry.sentences[0]
    assert any("cost of one job" in term for term in one.unknown)
    assert one.facts.keys() >= {"coproc.comp.asic.bf2"}


def test_the_bound_falls_as_the_cpu_gets_faster() -> None:
    bounds = [card("bf2", rate)[1].answers["static"]["speedup"]["high"] for rate in (100, 400)]
    assert bounds[0] == pytest.approx(4 * bounds[1], rel=1e-9)


def test_a_cpu_faster_than_the_card_is_told_that() -> None:
    _, entry = card("bf2", 90_000)
    assert any("slower than this machine" in sentence for sentence in entry.sentences)
    assert entry.faster_anew_from == "never"


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
    assert "compress-deflate" in entry.sentences[0]


def test_without_a_measured_ratio_there_is_no_prediction() -> None:
    test = summary("isal", around(100))
    for one in outlook.outlooks(best.advise(view(test)), outlook.core()):
        assert one.entries[0].headline == "no prediction"
        assert "ratio was not measured" in one.entries[0].sentences[0]


def test_the_reconfiguration_setting_is_compared_only_where_nothing_else_was_measured() -> None:
    static = summary("isal", around(400), ratio=0.4)
    anew = summary("isal", around(90), ratio=0.4, parameters={"setting": "reconfiguration"})
    for one in outlook.outlooks(best.advise(view(static, anew)), outlook.core()):
        assert len(one.entries) == 1
    (first, *_) = outlook.outlooks(best.advise(view(anew)), outlook.core())
    assert len(first.entries) == 1


def test_entries_of_one_title_are_told_apart() -> None:
    one = card("bf2", 100)[0]
    twins = [replace(one.entries[0], detail=detail) for detail in ("on a", "on b")]
    names = [name for name, _ in replace(one, entries=tuple(twins)).named()]
    title = one.entries[0].title
    assert names == [f"{title} (on a)", f"{title} (on b)"]
    assert [name for name, _ in one.named()] == [title]
