"""Advice: what it says follows from what was measured, and nothing modelled looks measured."""

from __future__ import annotations

import json
import re
import shutil
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command import overside, parsed
from make_run import Scenario, make
from overside import advise, runs, verdict
from overside.bench.statistics import load_run
from overside.commands import advise as verb
from overside.errors import Exit, UserError
from overside.report import advice as words
from overside.report import page

WORKLOADS = Path(__file__).parents[3] / "workloads"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("advise") / "run", Scenario())


def ask(run: Path, *profiles: str, workload: Path | None = None) -> dict[str, Any]:
    file = advise.File.read(workload) if workload else None
    return advise.answer(load_run(run), advise.Query(profiles, (), file))


def command(*line: str) -> int:
    return verb.main(parsed("advise", *line))


def printed(*line: str) -> str:
    return overside("advise", *line, code=Exit.OK).stdout


def test_the_question_has_the_best_of_the_cpu_and_nothing_emulated(run: Path) -> None:
    question = advise.question(load_run(run))
    by_name = {one["operation"]: one for one in question["measured"]}
    assert {"compress-deflate", "decompress-lz4-block", "match-count", "copy"} <= by_name.keys()
    compress = by_name["compress-deflate"]
    assert [rate["bytes"] for rate in compress["cpu"]] == [4096, 65536, 1048576]
    # ISA-L on two threads is the fastest; nothing emulated counts as a device.
    assert compress["cpu"][-1]["threads"] == 2
    assert 4e8 < compress["cpu"][-1]["bytes_per_s"]["typ"] < 5.5e8
    assert compress["devices"] == []
    assert 0.4 < compress["ratio"] < 0.5
    assert question["host"] == {"threads": 2}
    # The published queries go by their expressions.
    assert "Ramp to (.+)" in by_name["match-count"]["patterns"]


def test_every_comparison_is_answered_and_cited(run: Path) -> None:
    advice = ask(run, *advise.default_profiles())
    assert advice["schema"] == "advice/1"
    seen = set()
    for one in advice["operations"]:
        for target in one["targets"]:
            assert target["provenance"] == "modelled"
            assert target["ranges"] or target["unsupported"]
            for part in target["ranges"]:
                for comparison in (part["c1"], part["c2"], part["gain"]):
                    seen.add(comparison["verdict"])
                    assert set(comparison.get("facts", ())) <= advice["citations"].keys()
    assert seen <= {"yes", "no", "cannot-tell"}
    assert "cannot-tell" in seen


def test_words_say_what_is_modelled(run: Path) -> None:
    advised = words.in_words(ask(run, "bf2"))
    compress = next(one for one in advised["operations"] if "Compress" in one["title"])
    (target,) = compress["targets"]
    assert target["name"] == "BlueField-2"
    assert target["provenance"] == "modelled"
    assert any("no prediction" in row["throughput"] for row in target["rows"])
    text = " ".join(target["sentences"])
    assert "contexts" in text
    assert "Completion: " in text


def test_the_page_shows_it_with_the_workload_asked_last(run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    asked = advise.Query(("bf3",), (), advise.File.read(WORKLOADS / "parquet-pages.toml"))
    (run / advise.QUERY_FILE).write_text(json.dumps(asked.json()))
    text = page.page(load_run(run))
    assert 'id="where"' in text
    assert "LZ4 pages, filtered and sent on" in text
    assert "BlueField-3 [MODELLED]: " in text
    assert "With BlueField-2" not in text


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "advise/1"}', '{"schema": "advise/1", "profiles": 3}']
)
def test_what_was_asked_is_left_alone_if_it_cannot_be_read(tmp_path: Path, text: str) -> None:
    run = make(tmp_path / "run", Scenario(sizes=(4096,)))
    (run / advise.QUERY_FILE).write_text(text)
    assert advise.Query.of_run(run) is None
    assert 'id="where"' in page.page(load_run(run))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    run = make(tmp_path / "run", Scenario(sizes=(4096,)))
    workload = 'schema = "workload/1"\nname = "<script>alert(1)</script>"\nrate = "1 GB/s"\n'
    workload += '[[stages]]\ndo = "copy"\n'
    asked = advise.Query(("bf2",), (), advise.File("<b>", workload))
    (run / advise.QUERY_FILE).write_text(json.dumps(asked.json()))
    text = page.page(load_run(run))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_advice_takes_less_than_two_seconds(run: Path) -> None:
    view = load_run(run)
    asked = advise.Query(
        advise.default_profiles(), (), advise.File.read(WORKLOADS / "log-archive.toml")
    )
    began = time.process_time()
    advise.answer(view, asked)
    assert time.process_time() - began < 2


def test_the_verb_prints_text_json_and_a_placement_file(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "placement.toml"
    text = printed("--run", str(run), "--card", "bf2", "--placement-out", str(out))
    assert len(text.splitlines()) <= 40
    assert "\nfrom the run of quick\n" in text
    assert "BlueField-2 [MODELLED]" in text
    placed = tomllib.loads(out.read_text())
    assert placed["schema"] == "placement/1"
    assert out.read_text().startswith("# Made by `overside advise`")
    assert "not measured on such a card" in out.read_text()
    operations = {rule["operation"] for rule in placed["rule"]}
    assert "compress-deflate" in operations
    assert "decompress-lz4-block" not in operations
    devices = {rule["device"] for rule in placed["rule"] if rule["placement"] != "cpu"}
    assert devices == {"emulated:bf2"}

    workload = str(WORKLOADS / "restore.toml")
    advice = json.loads(printed("--run", str(run), "--workload", workload, "--json"))
    assert advice["run"] == str(run)
    assert advice["workload"]["plans"][0]["name"] == "cpu"


def test_without_a_card_the_placement_file_leaves_everything_on_the_cpu(
    run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "placement.toml"
    command("--run", str(run), "--placement-out", str(out))
    assert tomllib.loads(out.read_text()).get("rule", []) == []
    assert "all stays on the CPU" in out.read_text()


def test_what_cannot_be_done_is_said_before_anything_is_measured(run: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('schema = "workload/1"\nrate = "-1 Gb/s"\n[[stages]]\ndo = "copy"\n')
    for line, said in [
        (["--workload", str(wrong)], "rate"),
        (["--workload", str(tmp_path)], "not a file"),
        (["--workload", "/dev/zero"], "not a file"),
        (["--card", "bf22"], "bf22"),
        (["--card", str(wrong)], "wrong.toml"),
        (["--run", str(run), "--data", "x"], "--run is measured"),
        (["--run", str(run), "--measure"], "--run is measured"),
        (["--rate", "1 GB/s"], "one operation"),
        (["--operation", "compres"], "compres"),
        (["--device", "x"], "--placement-out"),
        (["--run", str(tmp_path)], str(tmp_path)),
    ]:
        with pytest.raises(UserError) as refused:
            command("--out", str(tmp_path / "none"), *line)
        assert said in str(refused.value), line


def test_a_run_without_operations_gives_no_advice(tmp_path: Path) -> None:
    run = make(tmp_path / "run", Scenario(all_fail=True))
    with pytest.raises(UserError) as refused:
        command("--run", str(run))
    assert refused.value.code == Exit.NOTHING_SELECTED


def test_the_newest_run_is_found(tmp_path: Path) -> None:
    assert advise.newest(tmp_path) is None
    make(tmp_path / "b", Scenario(sizes=(4096,)))
    assert advise.newest(tmp_path) == tmp_path / "b"
    # Neither a merged run nor one without a round can be asked, however new it is.
    for name, change in {"c": {"fleet": []}, "d": {"rounds": {"done": 0}}}.items():
        manifest = json.loads((make(tmp_path / name) / "manifest.json").read_text())
        later = {"started": "2099-01-01T00:00:00Z"}
        (tmp_path / name / "manifest.json").write_text(json.dumps(manifest | later | change))
    assert advise.newest(tmp_path) == tmp_path / "b"
    assert [run.path.name for run in runs.entries(tmp_path)] == ["d", "c", "b"]


def without_run(tmp_path: Path, *line: str) -> dict[str, Any]:
    """The answer where nothing was measured, for programs."""
    return json.loads(printed("--out", str(tmp_path / "none"), "--json", *line))


def test_without_a_run_published_figures_answer_and_nothing_is_called_measured(
    tmp_path: Path,
) -> None:
    found = without_run(tmp_path)
    assert found["run"] is None
    verdicts = found["verdict"]["verdicts"]
    operations = [one["operation"] for one in verdicts]
    assert {"compress-deflate", "decompress-deflate"} <= set(operations)
    # Patterns that nobody asked about are no part of it.
    assert not any(name.startswith("match") for name in operations)
    for one in verdicts:
        assert one["provenance"] == "modelled"
        assert any("published host" in reason for reason in one["reasons"])
        assert "overside run quick" in one["next"]
    for operation in found["operations"]:
        for target in operation["targets"]:
            for part in target["ranges"]:
                assert part["cpu_evidence"] == "published"
                for comparison in (part, part["c1"], part["c2"], part["gain"]):
                    assert comparison["provenance"] == "modelled"
    # The rates of the host's cores are cited as the card's are.
    assert "coproc.comp.cpu.libdeflate" in found["citations"]
    lines = printed("--out", str(tmp_path / "none")).splitlines()
    assert "not measured" in " ".join(lines[:6])
    assert len(lines) <= 33


def test_cards_operations_and_sizes_narrow_the_answer(tmp_path: Path) -> None:
    line = ("--card", "bf2,bf3", "--operation", "decompress-deflate,match", "--size", "4MiB")
    found = without_run(tmp_path, *line)
    names = [one["operation"] for one in found["operations"]]
    assert names == ["decompress-deflate", *["match-count"] * 4]
    for one in found["operations"]:
        assert [target["name"] for target in one["targets"]] == ["bf2", "bf3"]
        for target in one["targets"]:
            assert [part["from_bytes"] for part in target["ranges"]] in ([4 << 20], [])
    assert "4 MiB buffers" in found["verdict"]["verdicts"][0]["text"]


def test_a_rate_asks_for_cores_and_cards(tmp_path: Path) -> None:
    line = ("--operation", "compress-deflate", "--card", "bf2", "--rate", "40 Gb/s")
    found = without_run(tmp_path, *line)
    cpu, card = found["workload"]["plans"]
    assert found["workload"]["rate_bytes_per_s"]["typ"] == 5e9
    # 5 GB/s of what a core does 0.1 to 0.3 of.
    assert 10 < cpu["cores"]["interval"]["typ"] < 60
    assert card["whole_cards"][0] >= 1
    text = " ".join(printed("--out", str(tmp_path / "none"), *line).split())
    assert text.startswith("Compress to DEFLATE (level 1), 40.0 Gb/s: ")
    assert " host cores (libdeflate level 1, Silesia data), carries " in text
    # The capacity is that of the cards that are named.
    most = card["whole_cards"][-1]
    assert re.search(
        rf"BlueField-2 \[MODELLED\]: [a-z ]+; 2 to {most} cards, .* {most} cards carry ", text
    )


def test_each_published_pattern_has_its_own_verdict_by_name(tmp_path: Path) -> None:
    line = ("--operation", "match", "--card", "bf2")
    lines = printed("--out", str(tmp_path / "none"), *line).splitlines()
    assert lines[0].startswith("A BlueField-2 would speed up matching (Q1/Q4) by an uncertain ")
    assert "; the rest stays on the CPU." in " ".join(lines[:2])
    words = {"Q1": "split", "Q2": "keep on CPU", "Q3": "keep on CPU", "Q4": "offload"}
    for name, word in words.items():
        row = f"Count matching records ({name}) with "
        assert any(one.startswith(row) and one.endswith(word) for one in lines)


def test_a_level_takes_as_many_cores_as_it_takes(tmp_path: Path) -> None:
    file = tmp_path / "gzip.toml"
    file.write_text(
        'schema = "workload/1"\nname = "gzip"\nrate = "40 Gb/s"\nbuffer = "4 MiB"\n'
        '[[stages]]\ndo = "compress-deflate"\nlevel = 6\n[host]\ncores = 32\n'
    )
    text = printed("--out", str(tmp_path / "none"), "--workload", str(file), "--card", "bf2")
    cores = re.search(
        r"The CPU alone: (\d+) to (\d+) host cores \(zlib level 6", " ".join(text.split())
    )
    assert cores is not None
    assert 100 < int(cores[1]) < 190 < int(cores[2]) < 350
    assert "for the 32 cores of the workload's host" in " ".join(text.split())


def test_a_workload_gets_its_own_answer_alone(run: Path) -> None:
    file = str(WORKLOADS / "parquet-pages.toml")
    text = " ".join(printed("--run", str(run), "--workload", file, "--card", "bf3").split())
    assert text.startswith("LZ4 pages, filtered and sent on, 40.0 Gb/s: ")
    assert "Compress to DEFLATE" not in text
    assert "BlueField-3 [MODELLED]: " in text


def test_a_verdict_says_which_library_it_compares_with(run: Path) -> None:
    asked = advise.Query(advise.default_profiles())
    found = [str(one.line) for one in verdict.of_run(load_run(run), asked).verdicts]
    assert any("ISA-L level 1, " in line and "data, on all 2 cores" in line for line in found)


@pytest.mark.parametrize(
    ("name", "verdicts", "says"),
    [
        # A stage that nobody measured leaves all of it open.
        ("restore", {"cannot-tell"}, "Next: run a box with hash-crc32"),
        # The card's rate by these patterns was not published: that is not "no stage is better".
        ("parquet-pages", {"cannot-tell", "no"}, "Next: none published."),
        ("log-archive", {"yes", "cannot-tell"}, " EUR an hour"),
        # Rates were published, and do not suffice.
        ("log-archive", {"yes", "cannot-tell"}, "Next: `overside calibrate` on a borrowed"),
    ],
)
def test_a_workload_opens_with_a_verdict_a_card_what_it_takes_and_the_next_measurement(
    name: str, verdicts: set[str], says: str, tmp_path: Path
) -> None:
    line = ("--workload", str(WORKLOADS / f"{name}.toml"))
    found = without_run(tmp_path, *line)
    cards = found["workload"]["plans"][1:]
    assert {plan["is_worth_it"] for plan in cards} <= verdicts
    unknown = [plan for plan in cards if "interval" not in plan["cores"]]
    assert all(plan["is_worth_it"] == "cannot-tell" for plan in unknown)
    text = printed("--out", str(tmp_path / "none"), *line)
    assert len(text.splitlines()) <= 25
    assert says in " ".join(text.split())
    assert "Bottleneck: " in printed("--out", str(tmp_path / "none"), *line, "--explain")
