"""Verdicts: right about what is known, silent about what is not."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from command import manifest, only_run, overside, said, samples, tiny_box
from make_run import summary_of, view
from overside.bench.comparison import compare, noise_of, p_value, ratio_of, verdict_of
from overside.bench.statistics import RunView

SIX = [100.0, 101, 102, 103, 104, 105]


def test_the_interval_has_the_ranks_of_mann_and_whitney() -> None:
    # For 6 and 6 the tables reject at U <= 5: the interval runs from the 6th ratio to the 31st.
    other = [value + 0.5 for value in SIX]
    pairs = sorted(b / a for a in SIX for b in other)
    ratio = ratio_of(SIX, other)
    assert (ratio.low, ratio.high, ratio.kind) == (pairs[5], pairs[30], "interval")
    # For 6 and 8 at U <= 8, for 10 and 10 at U <= 23.
    for few, many, rank in ((6, 8, 9), (10, 10, 24)):
        one = [1.0 + i / 1000 for i in range(few)]
        two = [1.0 + i / 900 for i in range(many)]
        pairs = sorted(b / a for a in one for b in two)
        assert ratio_of(one, two).low == pairs[rank - 1]
        assert ratio_of(one, two).high == pairs[-rank]


def test_verdicts_of_clear_cases() -> None:
    def verdict(before: list[float], after: list[float], better: str = "higher") -> str:
        limit = max(0.05, noise_of(before, after))
        return verdict_of(ratio_of(before, after), limit, better)[0]

    steady = [100.0, 100.2, 99.9, 100.1, 100.0, 99.8]
    slow = [value * 0.8 for value in steady]
    assert verdict(steady, steady) == "same"
    assert verdict(steady, slow) == "slower"
    assert verdict(slow, steady) == "faster"
    assert verdict(steady, slow, better="lower") == "faster"
    wild = [60.0, 140, 70, 130, 100, 95]
    assert verdict(wild, wild[::-1]) in ("same", "ambiguous")
    assert verdict(steady, [value / 1.05 for value in steady]) == "ambiguous"
    assert verdict(steady[:5], slow) == "ambiguous", "five rounds give no interval"


def test_lying_within_large_noise_is_not_being_the_same() -> None:
    wild = ratio_of([50.0, 60, 70, 130, 140, 150], [52.0, 61, 72, 131, 142, 149])
    assert verdict_of(wild, 0.05, "higher", noise=3.0) == ("ambiguous", "noise")
    assert verdict_of(wild, 4.0, "higher", noise=3.0)[0] == "same", "who asks for it gets it"


def test_the_threshold_is_never_below_the_noise() -> None:
    drifting = [100.0, 101, 102, 120, 121, 122]
    assert noise_of(drifting, drifting) > 0.15
    steady = [100.0, 100.2, 99.9, 100.1, 100.0, 99.8]
    assert noise_of(steady, steady) < 0.01


def test_zeros_make_no_false_verdict() -> None:
    assert ratio_of([0.0] * 6, [0.0] * 6).value == 1
    assert verdict_of(ratio_of([0.0] * 6, SIX), 0.05, "lower") == ("ambiguous", "rounds")


@pytest.mark.parametrize("n", [6, 12, 24])
def test_equal_machines_seldom_get_a_verdict(n: int) -> None:
    draw = random.Random(n)
    wrong = 0
    for _ in range(200):
        before = [draw.gauss(100, 4) for _ in range(n)]
        after = [draw.gauss(100, 4) for _ in range(n)]
        limit = max(0.02, noise_of(before, after))
        wrong += verdict_of(ratio_of(before, after), limit, "higher")[0] in ("faster", "slower")
    assert wrong <= 2


@pytest.mark.parametrize("rounds", [1, 3, 6, 30])
def test_identical_figures_are_the_same_whatever_the_number_of_rounds(rounds: int) -> None:
    for values in ([0.41] * rounds, [100.0 * (1 + number % 7) for number in range(rounds)]):
        assert verdict_of(ratio_of(values, values), 0.05, "higher", noise=9.0) == ("same", None)
    assert verdict_of(ratio_of([0.41] * rounds, [0.41] * 6), 0.05, "lower") == ("same", None)


def test_the_p_value_is_that_of_mann_and_whitney() -> None:
    # Siegel and Castellan's tables: P(U = 0) is 1 / C(n + m, n); the interval and the p-value agree
    # about 5 %.
    assert p_value(SIX, [value * 2 for value in SIX], 0.05) == pytest.approx(2 / 924)
    assert p_value(SIX, SIX, 0.05) == 1
    draw = random.Random(3)
    for n in (6, 9, 19):
        for shift in (0.9, 1.0, 1.1, 1.2):
            before = [draw.gauss(100, 6) for _ in range(n)]
            after = [draw.gauss(100 * shift, 6) for _ in range(n)]
            ratio = ratio_of(before, after)
            is_beyond = ratio.low > 1.02 or ratio.high < 1 / 1.02
            assert (p_value(before, after, 0.02) <= 0.05) is is_beyond
    many = [100.0 + number for number in range(20)]
    assert p_value(many, [value * 2 for value in many], 0.05) < 1e-6


def run_of(figures: dict[str, list[float]]) -> RunView:
    """A run of a test each, with a throughput a round."""
    metrics = {"throughput": {"unit": "MB/s", "better": "higher", "description": ""}}
    tests = (
        summary_of("copy", {"test": name}, {"throughput": values})
        for name, values in figures.items()
    )
    return view(*tests, metrics=metrics)


@pytest.mark.parametrize(("tests", "rounds"), [(1, 6), (20, 6), (100, 6), (100, 10)])
def test_a_lone_change_among_many_tests_takes_more_rounds(tests: int, rounds: int) -> None:
    draw = random.Random(tests)

    def figures(factor: float) -> dict[str, list[float]]:
        found = {str(test): [draw.gauss(100, 0.5) for _ in range(rounds)] for test in range(tests)}
        return found | {"0": [value * factor for value in found["0"]]}

    result = compare(run_of(figures(1)), run_of(figures(0.8)), 0.05)
    lone = result.compared[0]
    found = (lone.verdict, lone.doubt)
    assert found == (("ambiguous", "tests") if (tests, rounds) == (100, 6) else ("slower", None))
    assert result.count("slower") + result.count("faster") <= 1


def test_changes_that_are_many_confirm_each_other() -> None:
    draw = random.Random(8)

    def figures(factor: float) -> dict[str, list[float]]:
        return {str(test): [factor * draw.gauss(100, 0.5) for _ in range(6)] for test in range(100)}

    assert compare(run_of(figures(1)), run_of(figures(0.8)), 0.05).count("slower") == 100


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_run: tuple[Path, object]) -> Path:
    """A directory with a run `a`."""
    directory = tmp_path_factory.mktemp("runs")
    tiny_box(directory)
    shutil.copytree(only_run(tiny_run[0]), directory / "a")
    return directory


def altered(directory: Path, name: str, change: Any) -> Path:
    """A copy of the run `a` with even figures, each sample changed by `change`."""
    copy = directory / name
    (copy / "nodes").mkdir(parents=True)
    (copy / "nodes/local.json").write_text((directory / "a/nodes/local.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest(directory / "a")))
    lines = []
    for sample in samples(directory / "a"):
        sample["metrics"]["throughput"] = 1000.0 + sample["round"]
        change(sample)
        lines.append(json.dumps(sample) + "\n")
    (copy / "samples.jsonl").write_text("".join(lines))
    return copy


def test_compare_says_same_and_exits_with_0(runs: Path) -> None:
    altered(runs, "even", lambda sample: None)
    done = overside("compare", "even", "even", "--json", cwd=runs, code=0)
    result = json.loads(done.stdout)
    assert result["counts"] == {"same": 8, "faster": 0, "slower": 0, "ambiguous": 0}
    assert {entry["metric"] for entry in result["compared"]} == {"throughput", "ratio"}
    assert result["notes"] == []


def test_compare_finds_a_regression(runs: Path) -> None:
    def slower(sample: Any) -> None:
        if sample["test"].startswith("decompress/"):
            sample["metrics"]["throughput"] *= 0.5

    altered(runs, "before", lambda sample: None)
    altered(runs, "after", slower)
    done = overside("compare", "before", "after", cwd=runs, code=102)
    rows = [line for line in done.stdout.splitlines() if line.endswith("slower")]
    assert len(rows) == 2
    assert all(row.startswith("decompress") for row in rows)
    # What did not change is counted; --all shows it.
    head, *shown, counts = done.stdout.splitlines()
    assert head.split()[:5] == ["test", "metric", "A", "B", "change"]
    assert shown == rows
    assert all("MB/s" in row and "-50.0%" in row for row in rows)
    assert counts.startswith("0 faster, 2 slower, 6 same, 0 ambiguous")
    assert "--all" in counts
    every = overside("compare", "before", "after", "--all", cwd=runs, code=102).stdout
    assert sum(line.endswith((" same", " slower")) for line in every.splitlines()) == 8
    overside("compare", "after", "before", cwd=runs, code=0)


def test_ambiguous_verdicts_matter_under_strict_only(runs: Path) -> None:
    def wobbling(sample: Any) -> None:
        sample["metrics"]["throughput"] = 1000.0 * (1 + 0.04 * sample["round"])

    altered(runs, "steady", lambda sample: None)
    altered(runs, "wobbling", wobbling)
    overside("compare", "steady", "wobbling", "--metric", "throughput", cwd=runs, code=0)
    done = overside(
        *("compare", "steady", "wobbling", "--metric", "throughput", "--strict"),
        cwd=runs,
        code=103,
    )
    assert "ambiguous" in done.stdout


def test_different_provenance_is_compared_only_if_asked_for(runs: Path) -> None:
    def emulated(sample: Any) -> None:
        sample["provenance"] = "emulated"

    altered(runs, "real", lambda sample: None)
    altered(runs, "emulated", emulated)
    done = overside("compare", "real", "emulated", cwd=runs, code=4)
    assert "not compared: 4 tests: measured against emulated" in done.stdout
    done = overside("compare", "real", "emulated", "--all", cwd=runs, code=4)
    assert done.stdout.count("measured against emulated") == 4
    overside("compare", "real", "emulated", "--across", cwd=runs, code=0)


def test_a_comparison_is_a_page_and_markdown(runs: Path) -> None:
    def slower(sample: Any) -> None:
        if sample["test"].startswith("decompress/"):
            sample["metrics"]["throughput"] *= 0.5

    altered(runs, "earlier", lambda sample: None)
    altered(runs, "slowed", slower)
    done = overside("compare", "earlier", "slowed", "--format", "html", cwd=runs, code=102)
    path = runs / done.stdout.strip()
    assert path.name == "comparison.html"
    page = path.read_text("utf-8")
    assert "Of 8 figures, 2 are slower in B." in page
    assert page.count('class="text is-slower"') == 2
    assert page.index("is-slower") < page.index("is-same")
    assert 'http-equiv="Content-Security-Policy"' in page
    assert page.count('class="plot"') == 1
    done = overside("compare", "earlier", "slowed", "--format=md", "--out=-", cwd=runs, code=102)
    head = done.stdout.splitlines()[:3]
    assert head[2] == "Of 8 figures, 2 are slower in B."
    rows = [line for line in done.stdout.splitlines() if "| slower |" in line]
    assert len(rows) == 2
    assert all("\\-50.0%" in row and row.endswith("| measured |") for row in rows)
    done = overside("compare", "earlier", "slowed", "--out=x.html", cwd=runs, code=2)
    assert "add --format html or md" in done.stderr
    overside("compare", "earlier", "slowed", "--json", "--format=md", cwd=runs, code=2)


def test_what_an_emulated_device_took_part_in_is_drawn_apart(runs: Path) -> None:
    def emulated(sample: Any) -> None:
        if sample["test"].startswith("decompress/"):
            sample["provenance"] = "emulated"

    altered(runs, "half-emulated", emulated)
    altered(runs, "all-real", lambda sample: None)
    words = ("compare", "half-emulated", "all-real", "--across", "--format=html", "--out=-")
    page = overside(*words, cwd=runs, code=0).stdout
    assert page.count('class="plot"') == 2
    assert page.index('"changes is-measured"') < page.index('"changes is-emulated"')


def test_unverified_and_failed_tests_get_no_verdict(runs: Path) -> None:
    def failing(sample: Any) -> None:
        if sample["round"] == 0 and sample["test"].startswith("decompress/"):
            sample["status"] = "failed"
            sample["error"] = {"kind": "job", "message": "it broke"}

    altered(runs, "good", lambda sample: None)
    copy = altered(runs, "failing", failing)
    about = manifest(copy)
    for test in about["tests"]:
        test["verified"] = test["task"] != "compress"
    (copy / "manifest.json").write_text(json.dumps(about))
    done = overside("compare", "good", "failing", "--json", cwd=runs, code=4)
    reasons = [entry["reason"] for entry in json.loads(done.stdout)["not_compared"]]
    assert sum("it broke" in reason for reason in reasons) == 2
    assert sum("not verified in the second run" in reason for reason in reasons) == 2


def test_emulated_figures_without_valid_timing_are_not_compared(runs: Path) -> None:
    def late(sample: Any) -> None:
        sample |= {"provenance": "emulated", "timing": "paced", "late": sample["work"]["jobs"]}

    def slower(sample: Any) -> None:
        late(sample)
        sample["metrics"]["throughput"] *= 0.5

    altered(runs, "late", late)
    altered(runs, "later", slower)
    done = overside("compare", "late", "later", "--json", cwd=runs, code=4)
    reasons = [entry["reason"] for entry in json.loads(done.stdout)["not_compared"]]
    assert len(reasons) == 4
    assert all(reason.startswith("invalid in the first run") for reason in reasons)

    def functional(sample: Any) -> None:
        sample |= {"provenance": "emulated", "timing": "functional"}

    altered(runs, "clockless", functional)
    done = overside("compare", "clockless", "clockless", "--json", cwd=runs, code=0)
    compared = json.loads(done.stdout)["compared"]
    assert {entry["metric"] for entry in compared} == {"ratio"}


@pytest.mark.parametrize(
    ("topic", "key", "more"),
    [
        ("load_after", "busy_s", 1e5),
        ("load_after", "stolen_s", 1e5),
        ("load_before", "load_1min", 1e3),
        ("cpu", "governor", "powersave"),
        ("cpu", "turbo", "was on"),
    ],
)
def test_a_machine_in_another_condition_confirms_nothing(
    runs: Path, topic: str, key: str, more: Any
) -> None:
    def slower(sample: Any) -> None:
        sample["metrics"]["throughput"] *= 0.5

    name = f"busy-{key}"
    altered(runs, f"quiet-{key}", lambda sample: None)
    recorded = altered(runs, name, slower) / "nodes/local.json"
    machine = json.loads(recorded.read_text())
    old = machine[topic].get(key)
    machine[topic][key] = more if isinstance(more, str) else (old or 0) + more
    recorded.write_text(json.dumps(machine))
    for order in ((f"quiet-{key}", name), (name, f"quiet-{key}")):
        result = json.loads(overside("compare", *order, "--json", cwd=runs, code=0).stdout)
        assert len(result["conditions"]) == 1
        # What no clock took part in is as good as ever.
        verdicts = {(entry["metric"], entry["verdict"]) for entry in result["compared"]}
        assert verdicts == {("throughput", "ambiguous"), ("ratio", "same")}
        doubts = {entry["doubt"] for entry in result["compared"]}
        assert doubts == {"conditions", None}
    overside("compare", f"quiet-{key}", name, "--strict", cwd=runs, code=103)


def test_a_busier_machine_is_said_before_any_figure(runs: Path) -> None:
    recorded = altered(runs, "loud", lambda sample: None) / "nodes/local.json"
    machine = json.loads(recorded.read_text())
    machine["load_after"]["busy_s"] += 1e5
    recorded.write_text(json.dumps(machine))
    lines = overside("compare", "a", "loud", cwd=runs, code=0).stdout.splitlines()
    assert "busier during the second run" in lines[0]


def test_what_is_no_run_is_said(runs: Path) -> None:
    done = overside("compare", "a", "nowhere", cwd=runs, code=2)
    assert "nowhere is no run" in done.stderr
    done = overside("compare", "a", "a", "--threshold=-1", cwd=runs, code=2)
    assert "not a share" in done.stderr


def test_a_metric_that_no_run_has_is_an_error(runs: Path) -> None:
    done = overside("compare", "a", "a", "--metric", "throughpt", cwd=runs, code=2)
    assert "there is no metric throughpt" in done.stderr
    assert "did you mean throughput?" in done.stderr


def test_lines_tell_by_what_tests_differ(tmp_path: Path) -> None:
    tasks = [
        {
            "task": "hash",
            "parameters": {"algorithm": ["crc32", "sha256"], "data": "words.txt"},
            "metrics": ["rate"],
        }
    ]
    tiny_box(tmp_path, tasks=tasks, rounds=1)
    overside("run", "tiny.json", cwd=tmp_path, code=0)
    run = only_run(tmp_path)
    lines = overside("compare", run, run, "--all", cwd=tmp_path, code=0).stdout.splitlines()
    named = [line.split("rate")[0].split()[-1] for line in lines if line.startswith("hash")]
    assert sorted(named) == ["algorithm=crc32", "algorithm=sha256"]


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("manifest", "tests", ["x"]),
        ("manifest", "tests", [{"id": "copy/1"}]),
        ("manifest", "metrics", 3),
        ("manifest", "box", []),
        ("sample", "metrics", None),
        ("sample", "metrics", {"throughput": "fast"}),
        ("sample", "status", "great"),
        ("sample", "round", -1),
        ("sample", "cpu", "x"),
        ("sample", "warnings", [3]),
        ("sample", "error", 3),
    ],
)
def test_damaged_files_are_named_with_the_place(
    runs: Path, tmp_path: Path, file: str, key: str, value: Any
) -> None:
    copy = altered(runs, f"damaged-{tmp_path.name}", lambda sample: None)
    if file == "manifest":
        (copy / "manifest.json").write_text(json.dumps(manifest(copy) | {key: value}))
    else:
        first, *rest = samples(copy)
        lines = [json.dumps(sample) + "\n" for sample in (first | {key: value}, *rest)]
        (copy / "samples.jsonl").write_text("".join(lines))
    for words in (("compare", copy, copy), ("run", "--resume", copy)):
        done = overside(*words, cwd=runs, code=2)
        assert "is damaged: /" in done.stderr
        assert f"/{key}" in done.stderr


def test_a_figure_that_is_not_finite_is_named_with_its_line(runs: Path, tmp_path: Path) -> None:
    def change(sample: Any) -> None:
        sample["metrics"]["throughput"] = float("inf")

    copy = altered(runs, f"damaged-{tmp_path.name}", change)
    for words in (("compare", copy, copy), ("run", "--resume", copy)):
        done = overside(*words, cwd=runs, code=2)
        assert "samples.jsonl:1 is damaged: Infinity is no finite number" in said(done)


def test_a_run_without_its_machine_is_compared_and_gone_on_with(runs: Path) -> None:
    copy = altered(runs, "lost", lambda sample: None)
    (copy / "nodes/local.json").unlink()
    (copy / "nodes").rmdir()
    done = overside("compare", copy, "a", cwd=runs)
    assert "nothing is recorded of the machine of the first run" in done.stdout
    overside("run", "--resume", copy, "--quiet", cwd=runs, code=0)
    assert (copy / "nodes/local.json").exists()
