"""Emulated figures in reports: bands, stages without a published time, and origins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from make_run import summary_of, view
from make_sweep import Sweep, make
from overside.bench.statistics import TestSummary, load_run
from overside.report import (
    charts,
    formatting,
    groups,
    markdown,
    page,
    published,
    summary,
    view_model,
)
from overside.verdict import answers

KIB = 1024
PARAMETERS = {"device": "emulated:bf2", "format": "deflate", "depth": 1, "data": "system"}


def emulated(size: int, figures: dict[str, float], **given: Any) -> TestSummary:
    """A test of compressing on an emulated card, with two equal rounds."""
    parameters = PARAMETERS | {"buffer_size": size} | given.pop("parameters", {})
    rounds = {name: [figure] * 2 for name, figure in figures.items()}
    usual = {"provenance": "emulated", "timing": "virtual"}
    return summary_of("compress", parameters, rounds, **usual | given)


def drawn(*tests: TestSummary) -> dict[str, charts.Chart]:
    (group,) = groups.groups(view(*tests))
    return {chart.id: chart for chart in charts.charts(group, "emulated")}


def test_bands_are_what_the_published_values_allow() -> None:
    tests = [
        emulated(size, {"throughput": rate}, bounds={"throughput": ends})
        for size, rate, ends in [(4 * KIB, 10.0, [9.0, 3170.0]), (KIB**2, 1390.0, [595.0, 3170.0])]
    ]
    found = tests[0].bounded("throughput")
    assert found is not None
    assert (found.median, found.low, found.high, found.kind) == (10.0, 9.0, 3170.0, "bounds")
    assert tests[0].metrics["throughput"].high == 10.0, "the rounds keep their own interval"
    chart = drawn(*tests)["throughput-emulated"]
    bands = [layer for layer in chart.spec["layer"] if layer["mark"]["type"] == "area"]
    assert [[(p["low"], p["high"]) for p in band["data"]["values"]] for band in bands] == [
        [(9.0, 3170.0), (595.0, 3170.0)]
    ]
    assert "what the published values allow" in chart.caption
    assert [row[3:5] for row in chart.rows] == [("9.000", "3,170"), ("595.0", "3,170")]
    plain = drawn(*(emulated(size, {"throughput": 10.0}) for size in (KIB, 4 * KIB)))
    marks = [layer["mark"]["type"] for layer in plain["throughput-emulated"].spec["layer"]]
    assert "area" not in marks
    words = formatting.span(9.0, 3170.0)
    assert words in re.sub(r"<[^>]+>", "", page.page(view(*tests)))
    assert words in markdown.markdown(view(*tests))


def test_a_stage_that_no_study_published_has_its_place_and_no_length() -> None:
    model = {"missing": ["initialisation of a context", "number of engines"], "facts": []}
    stages = {"stage_queueing": 1.0, "stage_engine": 40.0, "stage_end": 13_500.0}
    anew = {"setting": "reconfiguration"}
    test = emulated(64 * KIB, {"throughput": 5.0, **stages}, parameters=anew, model=model)
    chart = drawn(test)["stages-emulated"]
    points = {point["stage"]: point for point in chart.spec["data"]["values"]}
    unknown = points["Setting up the context"]
    assert (unknown["share"], unknown["mark"], unknown["time"]) == (0.0, "?", "unpublished")
    assert next(iter(points)) == "Setting up the context"
    assert points["Ending the context"]["mark"] == ""
    assert "no study has published" in chart.caption
    assert chart.columns[2:4] == ("Setting up the context, µs", "Queueing, µs")
    assert chart.rows[0][2] == "unpublished"


def test_an_emulated_figure_is_predicted_or_comes_from_the_one_beside_it(tmp_path: Path) -> None:
    test = emulated(KIB, {"throughput": 5.0}, model={"facts": ["coproc.co.comp.creconf", "a.b"]})
    assert published.origin(test, "a.b") == "from this figure"
    assert published.origin(test, "a.c") == "predicted"
    # The time to end a context was derived from this one.
    assert published.origin(test, "coproc.co.comp.r100") == "from this figure"
    assert published.origin(emulated(KIB, {"throughput": 5.0}), "a.b") == ""

    run = load_run(make(tmp_path / "run", Sweep(task="compress")))
    for one in run.tests:
        if one.model:
            one.model["facts"] = ["coproc.co.comp.f100"]
    found = published.origins(run)
    # At 70, 90 and 100 % kept, and at 90 and 100 % set up again.
    words = "5 emulated tests beside published figures: 4 predicted, 1 from this figure"
    assert found.words == words
    assert words in view_model.counts_words(run)
    assert words in " ".join(summary(run, 400, False).split())
    assert words in markdown.markdown(run)
    notes = [row.note for row in view_model.rows(run) if "beside it" in row.note]
    assert len(notes) == 5
    told = [f.origin for one in published.comparisons(run, published.core()) for f in one.figures]
    (words,) = (text for text in told if text.startswith("from this figure"))
    assert re.search(r"; the prediction without it is [\d.]+ times the published one$", words)
    assert "" in told, "the CPU alone was measured here"
    assert published.origins(view()).words == ""


def test_a_line_has_one_provenance_and_a_figure_without_its_terms_is_a_limit() -> None:
    def queries(rate: float | None, ms: float, **given: Any) -> TestSummary:
        parameters = {"way": "pushdown", "rows": "scattered", "rate": rate, "selectivity": 1}
        return summary_of("pushdown", parameters, {"time": [ms, ms]}, **given)

    beside = {"provenance": "emulated", "timing": "virtual", "bounds": {"time": [65.0, 90.0]}}
    lines = [
        one.line for one in answers.of_run(view(queries(None, 60.0), queries(1, 70.0, **beside)))
    ]
    assert len(lines) == 2
    assert "[MEASURED]: 60.0" in lines[0]
    assert "70" not in lines[0]
    assert "[EMULATED]: 70.0 (65.0–90.0)" in lines[1]

    parameters = {"device": "emulated:bf2", "operation": "read", "depth": 1, "buffer_size": KIB}
    given = {"provenance": "emulated", "timing": "virtual", "bounds": {"latency_p50": [0.5, 2.0]}}
    for model, words in [
        ({"missing": ["a term"], "facts": []}, "at least 0.500"),
        ({"missing": [], "facts": []}, "1.00 (0.500–2.00)"),
    ]:
        copy = summary_of("dma", parameters, {"latency_p50": [1.0, 1.0]}, model=model, **given)
        (line,) = (one.line for one in answers.of_run(view(copy)))
        assert words in line
