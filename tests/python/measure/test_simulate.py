"""`overside simulate`: what it prints, and how it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import overside
from documents import ROOT
from overside.verdict import scenario

SMALL = ("--set", "bytes=64MiB")


def test_a_ready_made_question_is_answered_as_a_table(tmp_path: Path) -> None:
    done = overside("simulate", "drift", *SMALL, cwd=tmp_path, code=0)
    assert "modelled, not measured" in done.stdout
    head = next(line for line in done.stdout.splitlines() if line.startswith("placement"))
    for column in ("throughput, MB/s", "host cores", "bottleneck"):
        assert column in head
    rows = [line for line in done.stdout.splitlines() if line.startswith(("cpu ", "adaptive "))]
    assert len(rows) == 2
    assert " to " in rows[1]
    assert "engine.rate (x" in done.stdout
    assert ": --explain lists them." in done.stdout
    assert "(D. Giouroukis" not in done.stdout
    explained = overside("simulate", "drift", *SMALL, "--explain", cwd=tmp_path, code=0).stdout
    assert "Rests on:\n" in explained
    assert "(D. Giouroukis" in explained
    assert done.stderr == ""


def test_json_has_intervals_and_says_that_they_are_modelled(tmp_path: Path) -> None:
    done = overside("simulate", "drift", *SMALL, "--json", cwd=tmp_path, code=0)
    report = json.loads(done.stdout)
    assert report["provenance"] == "modelled"
    assert report["common"]["bytes"] == "64 MiB"
    adaptive = report["rows"][3]
    assert adaptive["labels"] == [["placement", "adaptive"]]
    assert adaptive["method"] == "simulated"
    throughput = adaptive["throughput"]
    assert throughput["unit"] == "MB/s"
    assert throughput["provenance"] == "modelled"
    assert 0 < throughput["low"] < throughput["typ"] < throughput["high"]
    assert set(throughput["facts"]) <= set(report["facts"])


def test_a_file_and_a_profile_of_ones_own(tmp_path: Path) -> None:
    question = tmp_path / "mine.toml"
    question.write_text(
        'schema = "scenario/1"\nscenario = "coprocessing-drift"\nabout = "mine"\n'
        '[parameters]\nplacement = "device"\nbytes = "64 MiB"\n'
    )
    profiles = json.loads(overside("list", "profiles", "--json", cwd=tmp_path, code=0).stdout)
    assert "bf3" in [profile["name"] for profile in profiles["profiles"]]
    done = overside("simulate", question, "--profile", "bf3", "--json", cwd=tmp_path, code=0)
    report = json.loads(done.stdout)
    assert report["about"] == "mine"
    assert report["common"]["profile"] == "bf3"
    # A BlueField-3 does not compress: an answer, with what to do about it.
    (missing,) = report["missing"]
    assert missing["figure"] == "throughput"
    assert missing["remedy"]


def test_lists(tmp_path: Path) -> None:
    done = overside("simulate", "--list", cwd=tmp_path, code=0)
    assert "coprocessing-drift" in done.stdout
    assert "preset" in done.stdout
    done = overside("simulate", "--list", "drift", cwd=tmp_path, code=0)
    assert "slowdown" in done.stdout
    assert "from 1 to 1000" in done.stdout
    known = json.loads(overside("simulate", "--list", "--json", cwd=tmp_path, code=0).stdout)
    assert {"name", "about", "keys", "figures"} == set(known["scenarios"][0])
    codec = overside("simulate", "--list", "codec", cwd=tmp_path, code=0).stdout
    assert "Figures: throughput (MiB/s), time (ms), " in " ".join(codec.split())


def test_what_cannot_be_told_names_the_measurement_that_would_tell(tmp_path: Path) -> None:
    only = [("initiator", "dpu"), ("access", "read"), ("bytes", "64KiB")]
    words = [word for key, value in only for word in ("--set", f"{key}={value}")]
    lines = overside("simulate", "dma", *words, cwd=tmp_path, code=0).stdout.splitlines()
    text = " ".join(" ".join(lines[: lines.index("")]).split())
    assert text.startswith("Cannot tell yet: primitive dma has ")
    assert "Next: no published figure settles it; " in text
    assert "`overside run dma-latency`" in text


def test_ways_through_a_card_that_cost_much_are_named_beside_those_that_are_equal(
    tmp_path: Path,
) -> None:
    lines = overside("simulate", "network", cwd=tmp_path, code=0).stdout.splitlines()
    text = " ".join(" ".join(lines[: lines.index("")]).split())
    assert text.startswith("Keep off-path (path sm4 and sm5: equal): the next, path sm3, has ")
    assert re.search(r" the worst, sm1, 0\.\d+ to 0\.\d+ times\.", text)


def test_under_a_load_that_all_carry_host_cores_decide(tmp_path: Path) -> None:
    set_ = ("--set", "load=4", "--set", "design=cpu-only,dpu-only,sav")
    first = overside("simulate", "kv", *set_, cwd=tmp_path, code=0).stdout.partition("\n\n")[0]
    assert " ".join(first.split()) == (
        "Design dpu-only is best: equal throughput with the fewest host cores "
        "(dpu-only 0, sav 1, cpu-only 2)."
    )


def test_without_any_figure_the_first_line_says_what_is_unknown(tmp_path: Path) -> None:
    lines = overside("simulate", "onpath", "--profile", "bf3", cwd=tmp_path, code=0).stdout
    assert lines.startswith("Cannot tell: no published fact gives bf3/tcp.sm2.rate.\n")
    # One reason for all figures is one line.
    assert lines.count("no published fact gives") == 2


def test_rows_that_share_no_figure_show_each_its_own(tmp_path: Path) -> None:
    done = overside("simulate", "machine", cwd=tmp_path, code=0).stdout
    head = next(line for line in done.splitlines() if line.startswith("work"))
    assert "operations, Gops/s" in head
    assert "accesses, Mops/s" in head


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["coprocesing-drift"], 'did you mean "coprocessing-drift"?'),
        (["--list", "drfit"], "did you mean drift?"),
        (["drift", "--set", "slowdwn=2"], 'did you mean "slowdown"?'),
        (["drift", "--set", "cores=0"], "a whole number from 1 to 1024"),
        (["drift", "--set", "cores"], "is not KEY=VALUE"),
        (["drift", "--profile", "bf7"], "profile:"),
        (["absent.toml"], "is not a file"),
        (["drift", "--profile", "absent.toml"], "is not a file"),
        (["/dev/zero"], "is not a file"),
        ([], "no scenario was named"),
    ],
)
def test_what_cannot_be_is_named(words: list[str], told: str, tmp_path: Path) -> None:
    done = overside("simulate", *words, cwd=tmp_path, code=2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("text", [b"\xff\xfe", b"x" * (1 << 21), b"schema = 3", b"[[[["])
def test_hostile_files_are_refused(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "hostile.toml"
    file.write_bytes(text)
    done = overside("simulate", file, cwd=tmp_path, code=2)
    assert "hostile.toml" in done.stderr
    assert "Traceback" not in done.stderr


def profile(directory: Path, **changed: object) -> Path:
    """Output of `overside kv profile --json`, as far as it is read."""
    stages = dict.fromkeys(("receive", "parse", "process", "persist", "respond", "other"), 20.0)
    file = directory / "profile.json"
    said = {
        "stages": {name: {"ns_per_command": ns} for name, ns in stages.items()},
        "link": {"communication_ns_per_command": 40.0, "processing_ns_per_command": 30.0},
        "client_ns_per_command": 100.0,
        "requests_per_s": {"min": 4.0e6, "median": 5.0e6, "max": 5.5e6},
        "connections": 16,
        "pipeline": 8,
        "threads": 2,
        "records": 1000,
    }
    file.write_text(json.dumps({**said, **changed}))
    return file


def test_measured_stages_of_a_store_answer_for_other_designs(tmp_path: Path) -> None:
    file = profile(tmp_path)
    words = ("simulate", "kv", "--from", file, "--set", "design=cpu-only,sav")
    done = overside(*words, "--json", cwd=tmp_path, code=0)
    report = json.loads(done.stdout)
    assert report["common"]["in_flight"] == "128"
    assert report["common"]["doubt"] == "25 %"
    rates = [row["throughput"]["typ"] for row in report["rows"]]
    assert rates == pytest.approx([1e3 / 120, 1e3 / 120])
    # What is set wins over what was measured.
    more = ("--set", "dpu_cores=1,4", "--set", "client_cores=8", "--set", "client=50ns")
    done = overside(*words, *more, "--json", cwd=tmp_path, code=0)
    saving = [row for row in json.loads(done.stdout)["rows"] if ["design", "sav"] in row["labels"]]
    assert [row["throughput"]["typ"] for row in saving] == pytest.approx([1e3 / 120, 1e3 / 70])


@pytest.mark.parametrize(
    "changed", [{"stages": None}, {"link": None}, {"requests_per_s": {"min": 0, "max": 0}}]
)
def test_a_profile_that_is_none_is_named_with_the_remedy(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    file = profile(tmp_path, **changed)
    done = overside("simulate", "kv", "--from", file, cwd=tmp_path, code=2)
    assert "is not what `overside kv profile --json` prints" in done.stderr
    absent = overside("simulate", "kv", "--from", "nothing.json", cwd=tmp_path, code=2)
    assert "name a JSON file" in absent.stderr
    other = overside("simulate", "dma", "--from", profile(tmp_path), cwd=tmp_path, code=2)
    assert "is neither a run nor a profile, and dma reads no other file" in other.stderr


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    first = overside("simulate", "kv", cwd=tmp_path, code=0).stdout.splitlines()[0]
    assert re.match(r"Design \S+ is best: [\d.]+ to [\d.]+ times the throughput of cpu-only", first)
    assert " of host CPU, with " in first
    report = json.loads(overside("simulate", "kv", "--json", cwd=tmp_path, code=0).stdout)
    assert report["verdict"] == [first]
    assert report["compared"]["baseline"] == "cpu-only"
    assert {row["verdict"] for row in report["compared"]["rows"]} <= {"yes", "no", "cannot-tell"}

    # Without its baseline there is nothing to compare: the best and the worst row.
    alone = overside("simulate", "kv", "--set", "design=lat,sav", cwd=tmp_path, code=0)
    assert alone.stdout.startswith("Throughput: ")
    many = overside("simulate", "query", cwd=tmp_path, code=0).stdout.splitlines()
    assert many[0].startswith("All 46 conditions: keep host-dpbento: the others have ")
    assert len(many[: many.index("")]) <= 3
    # Conditions that share a line are named where it is best and worst.
    shared = overside("simulate", "dma-primitives", cwd=tmp_path, code=0).stdout.splitlines()[0]
    assert re.match(r"11 of 24 conditions: keep rdma: the others have ", shared)
    best, _, worst = shared.partition("; best with ")[2].partition(", worst with ")
    assert best == "access write, bytes 64 B, initiator dpu, profile bf2-200g"
    assert worst == "access read, bytes 2 MiB, initiator dpu, profile bf3-8c."


A_YES, B_YES, B_NO = ("a", "yes", 1.2, 1.5), ("b", "yes", 1.1, 1.3), ("b", "no", 0.2, 0.5)
A_EQUAL, B_EQUAL = ("a", "no", 1.0, 1.0), ("b", "no", 1.0, 1.0)


@pytest.mark.parametrize(
    ("rows", "best", "rivals", "line"),
    [
        ([A_YES, B_YES], "a", "b", "a is best: 1.2 to 1.5 times the rate of none; way b may be as"),
        ([A_YES, B_NO], "a", "", "none; worse: way b, 0.20 to 0.50 times the rate of none."),
        ([("a", "no", 0.5, 0.9)], "none", "", "keep none: the next, way a, has 0.50 to 0.90 times"),
        ([("a", "no", 0.5, 0.9), B_NO], "none", "", "of none, the worst, b, 0.20 to 0.50 times."),
        ([("a", "cannot-tell", 0.5, 1.9)], "a", "none", "cannot tell yet: way a has 0.50 to 1.9"),
        ([("a", "cannot-tell", 0.5, 1.9), B_NO], "a", "none", "; worse: way b, 0.20 to 0.50 times"),
        ([A_EQUAL, B_NO], "none a", "", "keep none (way a: equal): the next, way b, has 0.20"),
        ([A_YES, ("b", "cannot-tell", None, None)], "a", "", "of none; unknown: way b."),
        ([("a", "cannot-tell", None, None)], "none", "", "cannot tell: not published"),
    ],
)
def test_options_are_best_worse_or_not_to_be_told(
    rows: list[Any], best: str, rivals: str, line: str
) -> None:
    told = verdict_of(rows, {"best": best.split(), "rivals": rivals.split()})
    assert told.startswith("Size 1 KiB: ")
    assert line in told


def verdict_of(rows: list[Any], choice: dict[str, Any]) -> str:
    conditions = [["size", "1 KiB"]]

    def row(option: str, verdict: str, low: float | None, high: float | None) -> dict[str, Any]:
        known = low is not None and high is not None
        ratio = {"ratio": {"low": low, "typ": (low + high) / 2, "high": high}} if known else {}
        return {
            "option": option,
            "conditions": conditions,
            "verdict": verdict,
            "why": "not published",
            **ratio,
        }

    compared = {
        "figure": "rate",
        "key": "way",
        "baseline": "none",
        "then": "cores",
        "choices": [choice | {"conditions": conditions}],
        "rows": [row(*one) for one in rows],
    }
    (told,) = scenario.lines({"rows": [], "compared": compared})
    return told


def test_of_equal_options_the_second_figure_decides() -> None:
    cores = {"none": 2.0, "a": 1.0, "b": 0.0}
    then = [[name, {"low": one, "typ": one, "high": one}] for name, one in cores.items()]
    told = verdict_of([A_EQUAL, B_EQUAL], {"best": ["b"], "rivals": [], "then": then})
    assert told == "Size 1 KiB: way b is best: equal rate with the fewest cores (b 0, a 1, none 2)."


def test_the_plan_for_a_thousand_machines_quotes_what_is_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs/measure/scale.md").read_text()

    def table(*words: str) -> list[str]:
        assert f"    overside simulate {' '.join(words)}\n" in page
        return overside("simulate", *words, cwd=tmp_path, code=0).stdout.splitlines()

    figure = r"([\d,.]+) \(([\d,.]+) to ([\d,.]+)\)"
    for card, cores in (("bf2", "8"), ("bf3", "16")):
        lines = table("pushdown", "--set", f"profile={card}", "--set", f"cores={cores}")
        found = re.search(figure, next(line for line in lines if re.match(rf" +{cores} ", line)))
        assert found is not None
        assert f"| {found[1]} M ({found[2]} to {found[3]}) |" in page
    lines, text = table("drift"), " ".join(page.split())
    for placement, said in {"adaptive": "MB/s a machine", "split": "MB/s"}.items():
        found = re.search(figure, next(line for line in lines if line.startswith(placement)))
        assert found is not None
        assert f"{found[1]} {said} ({found[2]} to {found[3]})" in text
