"""What the report sets beside a run's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from make_run import around, view
from make_sweep import Sweep, make
from overside.bench.statistics import load_run
from overside.report import best, markdown, page, published
from test_report_best import summary

KIB = 1024


def fact(**given: Any) -> dict[str, Any]:
    figure = {"path": [], "value": "2", "unit": "GiB/s", "bytes_per_s": [2 * 2**30, 2 * 2**30]}
    return {
        "id": "coproc.some.fact",
        "device": "BF-2 Host",
        "workload": "deflate compress",
        "metric": "throughput",
        "figures": [figure],
        "conditions": "",
        "purpose": "calibrate",
        "doubtful": False,
        "basis": "uncompressed",
        "citation": "section 1 of a study",
    } | given


def beside(*facts: dict[str, Any], **given: Any) -> list[published.Comparison]:
    run = view(summary("isal", around(412), ratio=0.4, **given))
    return published.comparisons(run, facts)


def test_a_figure_stands_beside_the_published_one_with_what_was_different() -> None:
    (one,) = beside(fact(conditions="1 MiB buffers"))
    assert one.measured == ("ISA-L with 1 thread in 64 KiB buffers: 412 MB/s (408–416)",)
    (figure,) = one.figures
    assert (figure.printed, figure.rate) == ("2 GiB/s", "2,150")
    assert figure.differs == (
        "on BF-2 Host; here on this machine",
        "on the Silesia corpus; here “system”",
        "level not stated; here 1",
        "buffers of 1 MiB; here 64 KiB",
    )


def test_what_is_the_same_is_no_difference() -> None:
    same = fact(conditions="64 KiB buffers, level 1")
    (one,) = beside(same, parameters={"data": "silesia"})
    assert one.figures[0].differs == ("on BF-2 Host; here on this machine",)


def test_a_rate_is_no_size_and_a_bound_is_told() -> None:
    (one,) = beside(fact(conditions="140 MiB/s - 1.9 GiB/s"))
    assert "buffer size not stated; here 64 KiB" in one.figures[0].differs
    (one,) = beside(fact(conditions="inputs < 10 MiB"))
    assert "buffers of < 10 MiB; here 64 KiB" in one.figures[0].differs


def test_the_counted_side_the_engine_and_the_contexts_are_told() -> None:
    engine = fact(device="BF-2 ASIC", basis="compressed")
    (one,) = beside(engine)
    text = "; ".join(one.figures[0].differs)
    assert "the engine’s own time alone" in text
    assert (
        "counts bytes of the compressed side; here the uncompressed (compressed to 40 % here)"
        in text
    )
    (one,) = beside(fact(device="BF-2 HW", basis=None))
    text = "; ".join(one.figures[0].differs)
    assert "contexts set up for each file; here contexts set up once" in text
    assert "does not say which side" in text


def test_other_work_doubtful_figures_and_ratios_stay_away() -> None:
    assert not beside(fact(workload="deflate decompress"))
    assert not beside(fact(workload="lz4-1 compress"))
    assert not beside(fact(doubtful=True))
    assert not beside(fact(figures=[{"path": [], "value": "3", "unit": "x"}]))


def test_the_nearest_in_its_conditions_comes_first_and_the_rest_is_counted() -> None:
    far = [fact(id=f"coproc.far.{at}", basis="compressed") for at in range(20)]
    (one,) = beside(*far, fact(id="coproc.near", conditions="64 KiB, level 1"))
    assert one.figures[0].fact == "coproc.near"
    assert len(one.figures) == published.FIGURES_MAX
    assert one.studies == (("coproc", "a study"),)
    assert one.figures[0].where == "section 1"
    assert one.left_out == 21 - published.FIGURES_MAX


def test_settings_that_the_same_figures_stand_beside_are_told_together() -> None:
    once = summary("isal", around(412), ratio=0.4, parameters={"setting": "static"})
    anew = summary("isal", around(300), ratio=0.4, parameters={"setting": "reconfiguration"})
    (one,) = published.comparisons(view(once, anew), [fact()])
    way = "ISA-L with 1 thread in 64 KiB buffers"
    assert one.detail == ""
    assert one.measured == (
        f"{way}: 412 MB/s (408–416), level 1, static setting",
        f"{way}: 300 MB/s (297–303), level 1, reconfiguration setting",
    )
    apart = published.comparisons(view(once, anew), [fact(conditions="static")])
    assert [one.detail for one in apart] == [
        "level 1, static setting",
        "level 1, reconfiguration setting",
    ]


def test_the_published_collection_has_figures_for_deflate() -> None:
    run = view(summary("isal", around(412), ratio=0.4))
    (one,) = published.comparisons(run, published.core())
    ids = {figure.fact for figure in one.figures}
    assert ids
    assert all(name.startswith(("coproc.", "dpbento.", "bitar.")) for name in ids)
    html = page.page(run)
    section = html[html.index('id="published"') :]
    section = section[: section.index("</section>\n  </details>")]
    assert "badge published" in section
    assert "times" not in section.replace("sometimes", "")
    assert all(name in section for name in ids)
    text = markdown.markdown(run)
    assert "Published figures of others, not measured here" in text


def test_a_run_without_measured_operations_has_no_such_part() -> None:
    assert published.comparisons(view(), published.core()) == []
    assert 'id="published"' not in page.page(view())
    assert best.advise(view()) == []


def test_shared_work_stands_beside_published_splits_of_the_same_share(tmp_path: Path) -> None:
    run = load_run(make(tmp_path / "run", Sweep(task="decompress")))
    workload = "co-process deflate decompress"
    there = fact(
        id="coproc.a.split",
        workload=f"{workload} (static)",
        metric="throughput @70 %",
        device="host+BF-2",
        conditions="input truncated to 2 MiB per file; CPU leg = zlib level 6, DPU ~ level 3",
        basis=None,
    )
    other = [
        fact(id="coproc.b", workload=f"{workload} (reconfig)", metric="plateau >= 45 %"),
        fact(id="coproc.c", workload="co-process lz4 decompress", metric="throughput @70 %"),
        fact(id="coproc.d", workload="co-process deflate compress", metric="throughput @70 %"),
        fact(id="coproc.e", workload=workload, metric="CPU time reduction"),
    ]
    (one,) = [b for b in published.comparisons(run, [there, *other]) if "shared by" in b.title]
    assert [figure.fact for figure in one.figures] == ["coproc.a.split", "coproc.b"]
    assert (one.provenance, one.chosen) == ("emulated", "at the nearest shares")
    split, plateau = one.figures
    text = "; ".join(split.differs)
    assert "on host+BF-2; here on emulated BlueField-2 and this machine" in text
    assert "the CPU target was zlib level 6; here " in text
    assert "inputs of 2 MiB; here chunks of" in text
    assert "does not say which side" in text
    assert "% on the device" not in text, "the same share is no difference"
    assert "at least 45 % on the device; here 40 %" in plateau.differs
    assert [line.partition(",")[0] for line in one.measured] == ["70 %", "40 %"]
