"""Sizes, times and shares have units wherever they are given: on the command line and in boxes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Json, overside, tiny_box, write_box
from overside import amounts


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("64KiB", "bytes", 65536),
        ("1 MB", "bytes", 1_000_000),
        ("1.5 GiB", "bytes", 1_610_612_736),
        ("10s", "s", 10),
        ("50 ms", "s", 0.05),
        ("1.1 us", "ns", 1100),
        ("2h", "s", 7200),
        ("10%", "share", 0.1),
        ("30 %", "%", 30),
        ("400 Mb/s", "Gb/s", 0.4),
    ],
)
def test_amounts_are_read_in_their_unit(text: str, unit: str, number: float) -> None:
    found = amounts.number(text, unit)
    assert found == number
    assert isinstance(found, int) == (number == int(number))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("64", "bytes"),
        ("64KiB", "s"),
        ("KiB", "bytes"),
        ("-1 B", "bytes"),
        ("1e999 B", "bytes"),
        ("10 parsecs", "s"),
        ("5 s", ""),
    ],
)
def test_what_is_no_amount_stays_text(text: str, unit: str) -> None:
    assert amounts.number(text, unit) is None
    assert amounts.read(text, unit) == text
    assert amounts.read([text], unit) == [text]


def _sizes(directory: Path, *words: str) -> set[int]:
    done = overside("plan", "tiny.json", "--json", *words, cwd=directory, code=0)
    answer = json.loads(done.stdout)
    return {test["parameters"].get("buffer_size", 0) for test in answer["tests"]}


def test_parameters_are_set_and_filtered_by_amounts(tmp_path: Path) -> None:
    box = json.loads(tiny_box(tmp_path, rounds=1).read_text())
    copy = next(entry for entry in box["tasks"] if "buffer_size" in entry["parameters"])
    copy["parameters"]["buffer_size"] = ["1KiB", 2048, "1 MB"]
    copy["exclude"] = [{"buffer_size": "2KiB"}]
    _only(box, copy)
    write_box(tmp_path, box)
    assert _sizes(tmp_path) == {1024, 1_000_000}
    task = copy["task"]
    assert _sizes(tmp_path, "--set", f"{task}.buffer_size=4KiB,64KiB") == {4096, 65536}
    for wanted, sizes in (
        ("buffer_size=1KiB..64KiB", {1024}),
        ("buffer_size=2000..", {1_000_000}),
        ("buffer_size=..1MB", {1024, 1_000_000}),
        ("buffer_size=1MB,1024", {1024, 1_000_000}),
        ("buffer_size=10*", {1024, 1_000_000}),
    ):
        assert _sizes(tmp_path, "--filter", wanted) == sizes, wanted
    nothing = overside("plan", "tiny.json", "--filter", "buffer_size=5..9", cwd=tmp_path)
    assert nothing.returncode != 0
    refused = overside("plan", "tiny.json", "--set", f"{task}.buffer_size=5s", cwd=tmp_path, code=2)
    assert '"5s" is not a whole number' in refused.stderr


def _only(box: Json, entry: Json) -> None:
    box["tasks"] = [entry]


def test_measuring_is_set_by_times_and_shares(tmp_path: Path) -> None:
    tiny_box(tmp_path, rounds=6)
    words = ("--set", "measure.max_s=2min", "--set", "measure.target_interval=20%")
    text = overside("plan", "tiny.json", *words, cwd=tmp_path, code=0).stdout
    assert "20% of the median" in text
    assert "2 min" in text
    refused = overside("run", "tiny.json", "--timeout", "5 parsecs", cwd=tmp_path, code=2)
    assert "times are written like 90, 90s" in refused.stderr


def test_a_box_may_write_times_and_shares_with_units(tmp_path: Path) -> None:
    box = tiny_box(tmp_path)
    form = json.loads(box.read_text())
    form["measure"] = {"max_s": "10min", "warmup_s": "1 ms", "sample_s": 1, "target_interval": "5%"}
    box.write_text(json.dumps(form))
    measure = json.loads(overside("plan", box, "--json", cwd=tmp_path, code=0).stdout)["box"][
        "measure"
    ]
    assert measure["max_s"] == 600
    assert measure["warmup_s"] == 0.001
    assert measure["sample_s"] == 1
    assert measure["target_interval"] == 0.05
    for key, value, told in (
        ("max_s", "10 parsecs", 'expected a time like "10s"'),
        ("max_s", "200h", "too large, the most is 604800"),
        ("sample_s", "0s", "too small, it must be above 0"),
        ("target_interval", "5s", 'expected a share like "5%"'),
        ("rounds", "6s", "expected a whole number"),
    ):
        form["measure"] = {key: value}
        box.write_text(json.dumps(form))
        refused = overside("validate", box, cwd=tmp_path, code=2).stderr
        assert f"/measure/{key}: " in refused
        assert told in refused
