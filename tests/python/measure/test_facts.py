"""`overside facts` finds, cites and compares published figures."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from command import overside

MINE = """
meta: {citations: {my-study: A study of mine}}
facts:
- {id: mine.one, paper: my-study, section: '4.2', device: BF-9, workload: juggling, metric: balls,
   value: 7, unit: count, kind: measured, use: validate}
"""


def run(*words: str) -> tuple[int, str, str]:
    done = overside("facts", *words)
    return done.returncode, done.stdout, done.stderr


def asked(*words: str) -> Any:
    return json.loads(overside("facts", *words, "--json", code=0).stdout)


def test_a_search_prints_figures_with_their_units_and_where_they_stand() -> None:
    code, out, _ = run("deflate", "compress", "ASIC", "--device", "bf2")
    assert code == 0
    assert "coproc.comp.asic.bf2  [calibrate]" in out
    assert "1.03 to 2.75 GiB/s" in out
    assert "section 5.6" in out
    assert "PVLDB" in out
    found = asked("deflate", "compress", "ASIC", "--device", "bf2")
    assert all("BF-2" in fact["device"] or fact["figures"] for fact in found["facts"])


def test_a_correction_is_marked_and_what_was_printed_is_told() -> None:
    _, out, _ = run("show", "coproc.rx.q4.buf")
    assert "51 Gb/s (corrected)" in out
    assert "50 GiB/s (as printed)" in out
    assert "beware: printed wrongly; corrected" in out
    _, out, _ = run("show", "coproc.co.lz4.peak_arm")
    assert "for orderings only: its number is in doubt" in out


def test_the_side_that_is_counted_and_the_notes_that_apply_are_told() -> None:
    _, out, _ = run("show", "coproc.decall.hw.bf2")
    assert "basis: bytes of the compressed side" in out
    assert "on all such facts (basis)" in out
    assert "held out to test the model" in out


def test_nothing_found_says_so_and_what_to_do() -> None:
    code, out, err = run("unicorn")
    assert (code, out) == (4, "")
    assert "unicorn" in err
    code, _, err = run("show", "coproc.comp.asic.bf3")
    assert code == 4
    assert "did you mean coproc.comp.asic.bf2?" in err
    assert run("show")[0] == 2
    assert run("check", "unicorn")[0] == 4


@pytest.mark.begun_first
def test_check_compares_what_judges_the_model_and_adds_up() -> None:
    check = asked("check")
    assert {figure["purpose"] for figure in check["figures"]} == {"validate"}
    scores = check["validation"]
    assert scores["figures"] + scores["words"] + scores["doubtful"] == len(check["figures"])
    assert len(check["orderings"]) == check["ordering_scores"]["orderings"]
    both = asked("check", "--use", "all")["figures"]
    assert {figure["purpose"] for figure in both} == {"validate", "calibrate"}
    code, out, _ = run("check", "dpbento.net")
    assert code == 0
    assert "dpbento.net.tcp.1tr" in out
    assert "coproc" not in out.split("held-out facts:")[0]
    assert "median error" in out


def test_another_collection_is_searched_and_scored(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    _, out, _ = run("juggling", "--facts", str(file))
    assert "7 count" in out
    assert "section 4.2 of A study of mine" in out
    check = asked("check", "--facts", str(file))
    assert [figure["name"] for figure in check["figures"]] == ["mine.one"]
    assert check["figures"][0]["finding"] == "not-covered"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"facts: 7", "facts"),
        (b"meta: {}\nfacts:\n- {id: 'a b'}", "paper"),
        (MINE.replace("mine.one", "a b").encode(), "letters, digits"),
        (b" " * (5 << 20), "longer than"),
        (b"[" * 100_000, ""),
        (MINE.replace("juggling", r'"\e[31m\u202e"').encode(), None),
        (MINE.replace("value: 7", "value: .nan").encode(), "is no figure"),
        (MINE.replace("value: 7", "valeu: 7").encode(), 'did you mean "value"?'),
    ],
)
def test_a_hostile_collection_is_refused_or_shown_harmlessly(
    content: bytes, what: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_bytes(content)
    code, out, err = run("--facts", str(file))
    if what is None:
        assert code == 0
        assert "\x1b" not in out
        assert "\u202e" not in out
    else:
        assert code == 2
        assert "hostile.yaml" in err
        assert what in err
        assert "Traceback" not in err


def test_a_file_that_would_never_end_is_refused() -> None:
    code, _, err = run("check", "--facts", "/dev/zero")
    assert code == 2
    assert "not a regular file" in err
    assert run("--facts", "/nowhere/at/all.yaml")[0] == 2


def test_ask_prints_what_to_type() -> None:
    code, out, _ = run("ask", "idio.dma.d4.host")
    assert code == 0
    assert "overside simulate dma" in out
    assert "how much less than" in out
    commands = asked("ask", "idio.net.sm2")["answers"][0]["figures"][0]["commands"]
    words = shlex.split(commands[0]["command"])
    assert words[:2] == ["overside", "simulate"]
    printed = json.loads(overside(*words[1:], "--json", code=0).stdout)["rows"][0]["throughput"]
    (scored,) = [
        one
        for one in asked("check", "idio.net.sm2", "--use", "all")["figures"]
        if one["name"] == "idio.net.sm2[BF-2]"
    ]
    assert printed["typ"] == pytest.approx(scored["modelled"]["typ"])
    code, _, err = run("ask", "idio.net.sm")
    assert (code, "did you mean" in err) == (4, True)
    code, out, _ = run("ask", "idio.net.ipc")
    assert "nothing is asked about it" in out


def test_ask_says_why_nothing_is_modelled_and_how_an_ordering_is_compared() -> None:
    _, out, _ = run("ask", "dpbento.acc.dec.bf3fast")
    assert "not modelled: the time that a BlueField-3's engine takes" in out
    code, out, _ = run("ask", "ord.D5b", "ord.D2")
    assert code == 0
    assert "not modelled: long writes over RDMA" in out
    assert "each less than the next:" in out or "each more than the next:" in out
    (ordering,) = asked("ask", "ord.D2")["answers"]
    commands = [one["command"] for one in ordering["relations"][0]["commands"]]
    assert len(commands) >= 2
    for command in commands:
        assert json.loads(overside(*shlex.split(command)[1:], "--json", code=0).stdout)["rows"]


def test_a_file_never_seen_before_is_scored_by_the_questions_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    ask = "{scenario: network, figure: TCP, path: sm2, profile: bf3-8c}"
    mine = MINE.replace("use: validate}", f"use: validate, ask: {ask}}}").replace(
        "value: 7, unit: count", "value: 41, unit: Gbps"
    )
    file.write_text(mine)
    check = asked("check", "--facts", str(file), "network")
    assert [one["finding"] for one in check["figures"]] == ["predicted"]
    assert check["figures"][0]["inside"]
    _, out, _ = run("check", "--facts", str(file))
    # Nobody looked at these while formulas were chosen.
    assert "facts that judge the model: 1 with 1 figures" in out
    _, out, _ = run("check", "network")
    assert "a development score" in out
    file.write_text(mine.replace("sm2", "sm7"))
    code, _, err = run("check", "--facts", str(file))
    assert code == 2
    assert "mine.yaml:" in err
    assert '"sm7" is not known' in err
