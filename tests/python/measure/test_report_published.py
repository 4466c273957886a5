"""Published figures beside a run's in the report."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

from make_run import around, view
from make_sweep import Sweep, make
from overside.bench.statistics import load_run
from overside.report import best, markdown, page, published
from overside.report.published import study
from test_report_best import summary

KIB = 1024


def asking(scenario: str = "codec", **keys: str) -> list[dict[str, Any]]:
    """A published rate that asks a scenario: if nothing else is said, of a core's compression."""
    if scenario == "codec":
        keys = {"codec": "deflate", "direction": "compress", "on": "cpu"} | keys
    ask = {"scenario": scenario, "figure": "throughput", "keys": keys, "open": []}
    rate = [2 * 2**30, 2 * 2**30]
    return [{"path": [], "value": "2", "unit": "GiB/s", "bytes_per_s": rate, "ask": ask}]


def fact(**given: Any) -> dict[str, Any]:
    return {
        "id": "coproc.comp.some.fact",
        "device": "BF-2 Host",
        "workload": "deflate compress",
        "metric": "throughput",
        "figures": asking(),
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
    (one,) = beside(fact(figures=asking(size="1 MiB")))
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
    same = fact(id="coproc.comp.cpu.libdeflate", figures=asking(size="64 KiB"))
    (one,) = beside(same, parameters={"data": "silesia"})
    assert one.figures[0].differs == ("on BF-2 Host; here on this machine",)


def test_a_rate_is_no_size_and_a_bound_is_told() -> None:
    (one,) = beside(fact(conditions="140 MiB/s - 1.9 GiB/s"))
    assert "buffer size not stated; here 64 KiB" in one.figures[0].differs
    (one,) = beside(fact(figures=asking(size="10 MiB", inputs="below")))
    assert "buffers of < 10 MiB; here 64 KiB" in one.figures[0].differs


def test_the_counted_side_the_engine_and_the_contexts_are_told() -> None:
    engine = fact(figures=asking(on="engine", context="kept"), basis="compressed")
    (one,) = beside(engine)
    text = "; ".join(one.figures[0].differs)
    assert "the engine’s own time alone" in text
    assert (
        "counts bytes of the compressed side; here the uncompressed (compressed to 40 % here)"
        in text
    )
    (one,) = beside(fact(figures=asking(on="engine", context="new"), basis=None))
    text = "; ".join(one.figures[0].differs)
    assert "contexts set up for each file; here contexts set up once" in text
    assert "does not say which side" in text


def test_other_work_doubtful_figures_and_ratios_stay_away() -> None:
    assert not beside(fact(figures=asking(direction="decompress")))
    assert not beside(fact(figures=asking(codec="lz4")))
    assert not beside(fact(figures=asking("split", codec="deflate", direction="compress")))
    assert not beside(fact(doubtful=True))
    ratio = asking()
    ratio[0]["ask"]["relative_to"] = {"on": "engine"}
    assert not beside(fact(figures=ratio))
    assert not beside(fact(figures=[{"path": [], "value": "3", "unit": "x"}]))


def test_words_that_a_fact_is_told_in_change_nothing() -> None:
    (one,) = beside(fact())
    (other,) = beside(fact(workload="how fast it was made smaller", metric="what was seen"))
    assert one.measured == other.measured
    assert one.figures[0].differs == other.figures[0].differs


def test_the_nearest_in_its_conditions_comes_first_and_the_rest_is_counted() -> None:
    far = [fact(id=f"coproc.far.{at}", basis="compressed") for at in range(20)]
    near = fact(id="coproc.near", figures=asking(size="64 KiB"))
    (one,) = beside(*far, near)
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
    kept = fact(figures=asking(on="engine", context="kept"))
    apart = published.comparisons(view(once, anew), [kept])
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

    def split(**keys: str) -> list[dict[str, Any]]:
        usual = {"codec": "deflate", "direction": "decompress", "setting": "static", "share": "70"}
        return asking("split", **usual | keys)

    there = fact(
        id="coproc.co.dec.f0",
        device="host+BF-2",
        basis=None,
        figures=split(),
    )
    other = [
        fact(id="coproc.b", figures=split(setting="reconfiguration", share="45")),
        fact(id="coproc.c", figures=split(codec="lz4")),
        fact(id="coproc.d", figures=split(direction="compress")),
        fact(id="coproc.e", figures=[{"path": [], "value": "85", "unit": "%"}]),
    ]
    (one,) = [b for b in published.comparisons(run, [there, *other]) if "shared by" in b.title]
    assert [figure.fact for figure in one.figures] == ["coproc.co.dec.f0", "coproc.b"]
    assert (one.provenance, one.chosen) == ("emulated", "at the nearest shares")
    shared, plateau = one.figures
    text = "; ".join(shared.differs)
    assert "on host+BF-2; here on emulated BlueField-2 and this machine" in text
    assert "the CPU target was zlib at its default level, 6; here " in text
    assert "inputs of 2 MiB; here chunks of" in text
    assert "does not say which side" in text
    assert "% on the device" not in text, "the same share is no difference"
    assert "45 % on the device; here 40 %" in plateau.differs
    assert [line.partition(",")[0] for line in one.measured] == ["70 %", "40 %"]


def test_conditions_are_said_of_facts_that_there_are() -> None:
    names = [one["id"] for one in published.core()]
    for entry in study.entries():
        assert set(entry) - {"facts"} <= {"level", "cpu", "data", "program", "derived"}
        assert entry.get("derived", names[0]) in names
        for pattern in entry["facts"]:
            assert fnmatch.filter(names, pattern), f"no fact is called {pattern}"
