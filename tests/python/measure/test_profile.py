"""`overside profile`: show, compare, check and write profiles of devices."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from command import overside
from make_run import Scenario, make

BAD = """\
schema = "profile/1"
name = "bad"
card = "c"
host_link = "l"
mode = "m"
[sources]
[facts]
[device]
[values]
"cpu.croes" = { value = 8, unit = "count", citation = "c" }
"cpu.cores" = { value = 0, unit = "count", citation = "c" }
"""


def test_all_profiles_are_listed_with_whether_they_can_be_emulated(tmp_path: Path) -> None:
    text = overside("profile", "list", cwd=tmp_path, code=0).stdout
    listed = json.loads(overside("profile", "list", "--json", cwd=tmp_path, code=0).stdout)
    names = {one["name"]: one for one in listed["profiles"]}
    assert {"bf1", "bf2", "bf2-200g", "bf3", "bf3-8c", "octeon-tx2", "host-idio"} <= set(names)
    assert names["bf2"]["emulated"]
    assert not names["host-idio"]["emulated"]
    assert all(name in text for name in names)


@pytest.mark.parametrize("name", ["bf2", "bf2-200g", "host-dpbento"])
def test_show_cites_every_value_and_says_what_is_missing(tmp_path: Path, name: str) -> None:
    found = json.loads(overside("profile", "show", name, "--json", cwd=tmp_path, code=0).stdout)
    text = overside("profile", "show", name, cwd=tmp_path, code=0).stdout
    facts = found["profile"]["facts"]
    for one in found["values"]:
        assert one["key"] in text
        assert one["facts"] or one["citation"]
        assert set(one["facts"]) <= set(facts)
    for one in found["missing"]:
        assert one["key"] in text
    assert found["missing"], "nobody has published everything"
    assert "overside calibrate" in text


def test_a_profile_that_is_not_there_is_told_what_was_meant(tmp_path: Path) -> None:
    done = overside("profile", "show", "bf2-200", cwd=tmp_path, code=2)
    assert 'did you mean "bf2-200g"?' in done.stderr


def test_two_profiles_are_compared_value_by_value(tmp_path: Path) -> None:
    shown = json.loads(overside("profile", "diff", "bf2", "bf3", "--json", cwd=tmp_path).stdout)
    rows = shown["values"]
    cores = next(row for row in rows if row["key"] == "values.cpu.cores")
    assert (cores["a"], cores["b"], cores["ratio"]) == ("8", "16", 2)
    text = overside("profile", "diff", "bf2", "bf3", cwd=tmp_path, code=0).stdout
    assert "values.cpu.cores" in text
    assert "not said" in text
    same = overside("profile", "diff", "bf2", "bf2", cwd=tmp_path, code=0).stdout
    assert "say the same" in same


def test_check_names_every_problem_with_key_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(BAD)
    good = Path(__file__).parents[3] / "profiles" / "bf2.toml"
    done = overside("profile", "check", "bad.toml", good, cwd=tmp_path, code=2)
    assert 'values.cpu.croes: no parameter is called "cpu.croes"' in done.stdout
    assert 'did you mean "cpu.cores"?' in done.stdout
    assert "values.cpu.cores: 0 is not a positive number; allowed: 1 to 10000" in done.stdout
    assert "profile bf2 is right" in done.stdout
    shown = json.loads(overside("profile", "check", "bad.toml", "--json", cwd=tmp_path).stdout)
    answers = shown["profiles"]
    assert {one["key"] for one in answers[0]["problems"]} == {
        "values.cpu.croes",
        "values.cpu.cores",
    }
    overside("profile", "check", good, cwd=tmp_path, code=0)
    for name, content in {"text.toml": "a = [", "binary.toml": "\0"}.items():
        (tmp_path / name).write_text(content)
        overside("profile", "check", name, cwd=tmp_path, code=2)
    overside("profile", "check", "absent.toml", cwd=tmp_path, code=2)


def test_parameters_are_explained(tmp_path: Path) -> None:
    known = json.loads(overside("profile", "parameters", "--json", cwd=tmp_path).stdout)
    text = overside("profile", "parameters", cwd=tmp_path, code=0).stdout
    assert all(one["about"] and one["name"] in text for one in known["parameters"])


def test_a_profile_from_a_run_has_the_costs_that_made_its_figures(tmp_path: Path) -> None:
    # The made-up figures follow: time of a job = 600 ns + bytes / rate, with 1 % noise.
    run = make(tmp_path / "results" / "made", Scenario(emulated=False, extra=False))
    done = overside(
        "profile", "from-run", run, "--device", "cpu", "--out", "mine.toml", cwd=tmp_path, code=0
    )
    assert "mine.toml" in done.stderr
    overside("profile", "check", "mine.toml", cwd=tmp_path, code=0)
    profile = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert profile["provenance"] == "measured"
    assert run.name in profile["sources"]["run"] or "run" in profile["sources"]["run"]
    operations = {one["does"][0]: one for one in profile["operations"]}
    rate = operations["compress-deflate"]["rate"]
    assert rate["unit"] == "GB/s"
    assert rate["low"] <= rate["value"] <= rate["high"]
    assert rate["value"] == pytest.approx(0.240, rel=0.03), "of isal, the fastest"
    # 600 ns beside the 17 us of the shortest job: most of the noise.
    copy = operations["copy"]
    assert copy["per_job"]["value"] == pytest.approx(600, rel=0.2)
    assert copy["rate"]["value"] == pytest.approx(9.4, rel=0.1)
    for one in profile["operations"]:
        assert one["rate"]["facts"], "each value says which measurement it is from"
    tables = profile["tables"]
    assert tables["job.rate.compress-deflate"]["at"] == [4096, 65536, 1048576]
    assert tables["job.cores.compress-deflate"]["at"] == [1, 2]


def test_a_profile_from_a_run_needs_figures_of_one_device(tmp_path: Path) -> None:
    run = make(tmp_path / "results" / "made", Scenario())
    done = overside("profile", "from-run", run, cwd=tmp_path, code=2)
    assert "--device" in done.stderr
    assert "emulated:bf2" in done.stderr
    done = overside("profile", "from-run", run, "--device", "dpdk:x", cwd=tmp_path, code=4)
    assert "it has those of" in done.stderr
    overside("profile", "from-run", tmp_path / "nowhere", cwd=tmp_path, code=2)


def test_a_profile_of_an_emulated_device_is_marked_and_not_for_sharing(tmp_path: Path) -> None:
    run = make(tmp_path / "results" / "made", Scenario(late=False))
    overside(
        "profile", "from-run", run, "--device", "emulated:bf2", "--out", "e.toml", cwd=tmp_path
    )
    profile = tomllib.loads((tmp_path / "e.toml").read_text())
    assert profile["provenance"] == "emulated"
    done = overside("profile", "check", "e.toml", cwd=tmp_path, code=2)
    assert "do not share it" in done.stdout
    assert "do not share it" in overside("profile", "show", "./e.toml", cwd=tmp_path).stdout
