"""Costs of this machine as a run measured them, for scenarios of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from make_run import around, summary_of, view
from overside import _core, measured
from overside.bench.statistics import RunView, TestSummary
from overside.errors import UserError

MIB = 1 << 20


def compressing(variant: str, rate: float, **more: Any) -> TestSummary:
    parameters = {
        "device": "cpu",
        "variant": variant,
        "format": "deflate",
        "level": 1,
        "buffer_size": MIB,
        "threads": 1,
        "data": "silesia",
        **more,
    }
    figures = {"throughput": around(rate), "ratio": [0.4] * 6}
    return summary_of("compress", parameters, figures)


def run_of(*tests: TestSummary) -> RunView:
    run = view(*tests, metrics={})
    run.environment.update({"cpu": {"model": "Example", "cores": 2, "online": 2}})
    return run


def text_of(run: RunView) -> tuple[str, str]:
    return "run", _core.profile_toml(json.dumps(measured.profile(run)))


def simulated(scenario: str, machine: tuple[str, str], **settings: str) -> Any:
    return json.loads(_core.simulate(scenario, None, list(settings.items()), None, machine))


def test_a_core_in_a_scenario_is_the_one_that_was_measured() -> None:
    machine = text_of(run_of(compressing("zlib", 90.0), compressing("libdeflate", 400.0)))
    report = simulated("codec", machine, on="cpu", profile="here", direction="compress")
    assert report["common"]["host"] == "here"
    (rate,) = {row["throughput"]["typ"] for row in report["rows"]}
    assert rate == pytest.approx(90e6 / MIB, rel=0.01)
    assert report["provenance"] == "modelled"
    assert any("task compress" in fact for fact in report["facts"].values())


def test_a_break_even_is_against_the_core_that_was_measured() -> None:
    def at(rate: float) -> float:
        machine = text_of(run_of(compressing("zlib", rate)))
        keys = {"profile": "bf2", "direction": "compress", "context": "kept"}
        (row,) = simulated("codec", machine, **keys)["rows"]
        (found,) = [one for one in row["more"] if one["name"] == "faster from"]
        return float(found["high"])

    # The faster the core, the longer a buffer has to be: one at a time a job takes 0.4 ms.
    assert 0.05 < at(300.0) < at(600.0) < 5.0


def test_the_longest_buffer_the_level_and_the_fastest_way_are_taken() -> None:
    form = measured.profile(
        run_of(
            compressing("zlib", 50.0, buffer_size=4096),
            compressing("zlib", 90.0, depth=1),
            compressing("zlib", 95.0, depth=16),
            compressing("zlib", 30.0, level=6),
            compressing("zlib", 500.0, threads=8),
        )
    )
    values = form["values"]
    assert values["codec.deflate.compress.rate"]["value"] == pytest.approx(95.0, rel=0.01)
    assert values["codec.deflate.compress.split"]["value"] == pytest.approx(30.0, rel=0.01)
    assert values["codec.deflate.reduction"]["value"] == pytest.approx(0.6)
    assert values["cpu.cores"]["value"] == 2


def test_what_was_not_measured_here_and_for_real_is_left_out() -> None:
    form = measured.profile(
        run_of(
            compressing("zlib", 90.0, device="emulated:bf2"),
            summary_of(
                "compress",
                {"device": "cpu", "variant": "zlib", "format": "deflate", "level": 1},
                {"throughput": around(90.0)},
                provenance="emulated",
                timing="virtual",
            ),
        )
    )
    assert not form["values"]
    assert not form["tables"]


def test_every_scenario_takes_it_or_says_why_nothing_in_it_is_of_use() -> None:
    machine = text_of(run_of(compressing("zlib", 90.0)))
    takes, refuses = [], {}
    for one in json.loads(_core.scenarios())["scenarios"]:
        try:
            simulated(one["name"], machine)
        except ValueError as error:
            refuses[one["name"]] = str(error)
        else:
            takes.append(one["name"])
    assert takes == ["split", "codec", "coprocessing-drift"]
    assert "reads no costs of a machine from a run" in refuses.pop("kv-stages")
    for name, why in refuses.items():
        assert f"nothing in it is of use to {name}, which reads" in why
        assert "there is codec.deflate.compress.rate" in why


def test_a_file_that_is_no_profile_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml"):
        measured.profile_of(tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("schema = 'profile/1'\nname = [", encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken\.toml:2"):
        simulated("codec", measured.profile_of(broken))
