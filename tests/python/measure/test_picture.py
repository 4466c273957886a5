"""The picture of a verdict and its sentence: rows on one axis, plain at 80 and at 40 columns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from make_run import around
from overside import verdict
from overside.report import terminal
from overside.verdict import Ratio, Verdict, picture
from syrupy.assertion import SnapshotAssertion
from test_verdict import compressing, host, run_of


def one(**changes: object) -> Verdict:
    """A verdict on a measured device, with these changes."""
    run = run_of(*host(), compressing(around(600), device="dpu0/dpdk:mlx5_0"))
    (found,) = verdict.of_run(run).verdicts
    plain = {"decision": "offload", "together": None, "name": "BlueField-2"}
    return replace(found, **(plain | changes))


def some() -> list[Verdict]:
    modelled = {"is_measured": False, "provenance": "modelled"}
    return [
        one(against_host=Ratio(2.0, 5.0), **modelled),
        one(
            operation="decompress-deflate",
            title="Decompress DEFLATE",
            decision="cannot-tell",
            against_host=Ratio(0.34, 6.6),
            **modelled,
        ),
        one(
            operation="match-count",
            title="Count matching records",
            decision="cpu",
            against_host=Ratio(0.03, 0.06),
        ),
        one(operation="copy", title="Copy", decision="cannot-tell", against_host=None, **modelled),
    ]


@pytest.mark.parametrize("width", [80, 40, 100])
def test_a_picture_is_plain_at_each_width(width: int, snapshot: SnapshotAssertion) -> None:
    drawn = picture.of(some())
    assert drawn is not None
    lines = drawn.lines(width)
    assert max(map(len, lines)) <= width
    assert "\n".join(lines) == snapshot


def test_bars_lie_on_their_side_of_the_line_at_one() -> None:
    drawn = picture.of(some())
    assert drawn is not None
    offload, unsure, keep, unknown = drawn.rows
    assert drawn.one < offload.begin < offload.end <= 1
    assert unsure.begin < drawn.one < unsure.end
    assert 0 <= keep.begin < keep.end < drawn.one
    assert (unknown.ratio, unknown.span) == (None, "unknown")
    assert picture.of([one(against_host=None)]) is None
    # What lies beyond the axis ends there.
    far = picture.of([one(against_host=Ratio(1e-9, 1e9))])
    assert far is not None
    assert (far.rows[0].begin, far.rows[0].end) == (0, 1)


def test_the_sentence_has_the_whole_interval_and_what_is_left() -> None:
    first, unsure, keep, unknown = some()
    assert picture.sentence([first, unsure, unknown]) == (
        "A BlueField-2 would speed up compression 2.0 to 5.0 times; the rest is uncertain."
    )
    assert picture.sentence([first, keep]).endswith("; the rest stays on the CPU.")
    both = [first, replace(first, operation="match-count", against_host=Ratio(3.0, 9.0))]
    assert "compression and matching 2.0 to 9.0 times." in picture.sentence(both)
    wide = replace(first, is_amount_uncertain=True)
    assert "by an uncertain 2.0 to 5.0 times" in picture.sentence([wide])
    assert picture.sentence([keep]) == "Keep matching on the CPU: no device is faster."
    assert picture.sentence([unsure]).startswith("Cannot tell yet whether a device speeds up")
    all_of_them = [some(), [first], [wide, keep], [keep, unsure], [unknown], both]
    assert all(len(picture.sentence(those).split()) <= 20 for those in all_of_them)


def test_the_picture_stands_before_the_words() -> None:
    run = run_of(*host(), compressing(around(600), device="dpu0/dpdk:mlx5_0"))
    text = terminal.summary(run, 80, colour=False)
    assert text.index("█") < text.index("[MEASURED]:")
    assert "1 = all 2 cores of this host" in text
