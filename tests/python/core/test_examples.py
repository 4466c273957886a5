"""The examples, each as its text says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import browser, unavailable

SHARED = Path(os.environ.get("OVERSIDE_SHARED", Path(__file__).parents[3] / "../shared")).resolve()
TRACKS = Path(__file__).parents[3] / "examples" / "tracks" / "tracks.py"


def tracks(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, str(TRACKS), *arguments],
        cwd=place,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def ships(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tracks")
    done = tracks(place, "ships", "--rows", "40000", "--snapshots", "6", "--capacity", "800KiB")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tracks.html\n"
    return place / "tracks.html"


def test_tracks_are_drawn(ships: Path) -> None:
    text = ships.read_text(encoding="utf-8")
    assert re.search(r"<h1>6 snapshots of [\d,]+ ships became", text)
    drawn = re.search(r"<p>(\d+) ships that went far", text)
    assert drawn is not None
    assert text.count("<path ") == text.count("<circle ") == int(drawn[1]) > 1
    assert "40,000 rows (made from a seed)" in text
    above = re.search(r"(\d+) % of all rows were still above the leaves", text)
    assert above is not None
    assert 0 < int(above[1]) < 100


def test_particles_are_drawn(tmp_path: Path) -> None:
    done = tracks(tmp_path, "--rows", "40000", "--snapshots", "6")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tracks.html").read_text(encoding="utf-8")
    assert re.search(r"<h1>6 snapshots of [\d,]+ particles became", text)
    assert text.count("<path ") > 1


@pytest.mark.parametrize(
    ("sample", "objects"),
    [
        ("opensky/opensky_switzerland.parquet", "aircraft"),
        ("ais/ais_2022-01-03_99999.parquet", "ships"),
    ],
)
def test_real_positions_are_drawn(sample: str, objects: str, tmp_path: Path) -> None:
    file = SHARED / "data" / sample
    if not file.exists():
        pytest.skip(f"there is no {file.name} in {SHARED}")
    done = tracks(tmp_path, str(file))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "tracks.html").read_text(encoding="utf-8")
    assert re.search(rf"<h1>\d+ snapshots of [\d,]+ {objects} became", text)
    assert text.count("<path ") > 1


def test_the_page_fits_a_telephone(ships: Path, tmp_path: Path) -> None:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    with browser(tmp_path) as page:
        for width in (390, 1280):
            page.visit(ships.as_uri(), width=width, dark=width == 390)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_cannot_be_a_track_is_said(tmp_path: Path) -> None:
    done = tracks(tmp_path, "ships", "--rows", "100", "--columns", "MMSI")
    assert done.returncode == 1
    assert "four names" in done.stderr
