"""Guarantees of data sets: the same bytes everywhere, detected damage, bounded input."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import overside
from overside import data
from overside.data import cache, catalog, orders, paths, silesia, system
from overside.errors import UserError

pytestmark = pytest.mark.begun_first

SHARED = Path(os.environ.get("OVERSIDE_SHARED", Path(__file__).parents[3] / "../shared")).resolve()

#: Made data are the same on every machine; a change here needs a new version of the recipe.
DIGESTS = {
    "accidents": "0ab562630688a730744a2e4b404e3b76baefc349fbda1511da19673b5b20b38a",
    "logs": "c807e74892da3f0af8522e92a13a33046986deabe4264bf3a90838346f626936",
    "noise": "ba7053e105b4c70f926e6d85ae59e7b99b0cf2ca4e3df0e37a02ed44226ca953",
    "orders": "5ab9a5c98a4fc7776ad68398bd4a151baf384c56f56f6b43d5645e888ede570d",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache that the tests of this module share, so that each set is made once."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERSIDE_CACHE", str(directory))
        patch.delenv("OVERSIDE_DATA", raising=False)
        patch.chdir(directory)
        yield directory / "data"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and nothing of Silesia around."""
    monkeypatch.setenv("OVERSIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OVERSIDE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "data"


@pytest.mark.parametrize("name", DIGESTS)
def test_made_data_are_the_same_on_every_machine(made: Path, name: str) -> None:
    found = data.resolve(name)
    assert found.digest == DIGESTS[name]
    assert found.size_bytes == sum(path.stat().st_size for path in found.files)
    assert all(path.is_absolute() and made in path.parents for path in found.files)


def test_another_seed_makes_other_data(made: Path) -> None:
    for name in ("accidents", "logs", "noise", "orders"):
        assert data.resolve(name, seed=1).digest != DIGESTS[name]
    assert data.resolve("orders", seed=orders.PARTS).digest != ""


def test_making_twice_makes_the_same(made: Path) -> None:
    first = data.resolve("logs")
    stamp = first.files[0].stat().st_mtime_ns
    assert data.resolve("logs").files[0].stat().st_mtime_ns == stamp, "taken from the cache"
    assert data.resolve("logs", again=True) == first
    assert first.files[0].stat().st_mtime_ns != stamp, "made again"


def test_accidents_answer_the_published_queries_with_different_selectivities(made: Path) -> None:
    lines = data.resolve("accidents").files[0].read_text().splitlines()[::8]
    shares = {
        query: sum(1 for line in lines if re.search(query, line)) / len(lines)
        for query in (
            "At (.+)Exit (.+)",
            "(.+) on (.+) at Exit (.+)",
            "on (.+) at (.+)",
            "Ramp to (.+)",
        )
    }
    assert list(shares.values()) == pytest.approx([0.04, 0.09, 0.42, 0.05], abs=0.005)
    assert len(set(lines)) > len(lines) / 4, "not one line over and over"


def test_data_compress_as_their_names_say(made: Path) -> None:
    ratios = {}
    for name in ("accidents", "logs", "orders", "noise", "system"):
        content = b"".join(path.read_bytes()[: 1 << 20] for path in data.resolve(name).files)
        sample = content[: 4 << 20]
        ratios[name] = len(zlib.compress(sample, 1)) / len(sample)
    assert ratios.pop("noise") > 1
    assert all(0.1 < ratio < 0.6 for ratio in ratios.values()), ratios


def test_orders_are_the_comments_of_the_table(made: Path) -> None:
    lines = data.resolve("orders").files[0].read_bytes().splitlines()
    assert len(lines) == 1_500_000 // orders.PARTS
    assert all(0 < len(line) <= 79 and b"|" not in line for line in lines), "TPC-H 1.4.1"


def test_orders_without_the_generator_say_how_to_get_it(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="tpchgen-cli, which is not installed") as told:
        data.resolve("orders")
    assert "pip install" in told.value.remedy
    assert not cache.cached()


def test_a_failing_generator_leaves_nothing(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = own.parents[1] / "tools"
    tools.mkdir()
    broken = tools / "tpchgen-cli"
    broken.write_text("#!/bin/sh\necho '1|2|3'\necho no luck >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tools / "python"))
    with pytest.raises(UserError, match="no luck"):
        data.resolve("orders")
    broken.write_text("#!/bin/sh\necho '1|2|3'\n")
    with pytest.raises(UserError, match="a row without a comment"):
        data.resolve("orders")
    assert not cache.cached()


@pytest.mark.parametrize("damage", ["bytes", "length", "missing", "manifest", "empty", "elsewhere"])
def test_a_broken_cache_is_noticed_and_made_again(own: Path, damage: str) -> None:
    whole = data.resolve("noise")
    path, manifest = whole.files[0], whole.files[0].parent / "manifest.json"
    if damage == "bytes":
        with path.open("r+b") as file:
            file.seek(1000)
            file.write(b"damage")
    elif damage == "length":
        os.truncate(path, 1000)
    elif damage == "missing":
        path.unlink()
    elif damage == "manifest":
        manifest.write_text("[1]")
    elif damage == "empty":
        manifest.write_text("{")
    else:
        about = json.loads(manifest.read_text())
        about["files"][0]["name"] = "../../noise.bin"
        manifest.write_text(json.dumps(about))
    with pytest.raises(UserError, match="is broken"):
        data.resolve("noise", make=False)
    assert data.resolve("noise") == whole
    assert data.resolve("noise", make=False) == whole


def test_making_that_fails_keeps_what_was_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data.resolve("noise")

    def fail(directory: Path, seed: int) -> None:
        (directory / "half").write_bytes(b"half")
        raise KeyboardInterrupt

    recipe = catalog.RECIPES["noise"]
    monkeypatch.setitem(
        catalog.RECIPES, "noise", catalog.Recipe(recipe.description, "", "", recipe.version, fail)
    )
    with pytest.raises(KeyboardInterrupt):
        data.resolve("noise", again=True)
    assert data.resolve("noise", make=False).digest == whole.digest
    assert [entry.key for entry in cache.cached()] == ["noise-0-1"]


def _resolve_noise(_: int) -> str:
    return data.resolve("noise").digest


def test_processes_that_make_the_same_set_agree(own: Path) -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        digests = pool.map(_resolve_noise, range(8))
    assert set(digests) == {DIGESTS["noise"]}


def test_an_unwritable_cache_is_told_with_a_remedy(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = own.parents[1] / "file"
    blocked.write_text("")
    monkeypatch.setenv("OVERSIDE_CACHE", str(blocked))
    with pytest.raises(UserError, match="cannot be written") as told:
        data.resolve("noise")
    assert "OVERSIDE_CACHE" in told.value.remedy


def test_the_cache_follows_the_xdg_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OVERSIDE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    assert cache.root() == Path("/x/cache/overside/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache.root() == Path("/home/somebody/.cache/overside/data")


@pytest.mark.parametrize("seed", [-1, 1 << 53])
def test_a_seed_out_of_bounds_is_refused(own: Path, seed: int) -> None:
    with pytest.raises(UserError, match="is no seed"):
        data.resolve("noise", seed=seed)


def test_the_system_sample_is_what_the_documentation_says(made: Path) -> None:
    found = data.resolve("system", seed=3)
    assert system.LEAST_BYTES <= found.size_bytes <= system.SIZE_BYTES
    assert len(found.files) <= system.MAX_FILES
    assert all(0 < entry.size_bytes <= system.MAX_FILE_BYTES for entry in found.entries)
    kinds = {entry.name.split("-")[1] for entry in found.entries}
    assert {"python", "library"} <= kinds
    assert data.resolve("system", seed=3, again=True).digest == found.digest


def test_the_system_sample_takes_only_what_everybody_may_read(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    target.mkdir()
    (source / "log").write_bytes(b"l" * (2 << 20))
    (source / "deep" / "short").write_bytes(b"s" * 10)
    (source / "packed.gz").write_bytes(b"p" * 5000)
    (source / "private").write_bytes(b"secret " * 5000)
    (source / "private").chmod(0o600)
    (source / "link").symlink_to(source / "log")
    (source / "hard").hardlink_to(source / "log")
    kind = system.Kind("log", [str(source), "relative", str(tmp_path / "absent")], (), 512)
    system.write_from(target, 0, [kind])
    assert [path.stat().st_size for path in target.iterdir()] == [system.MAX_FILE_BYTES]
    (source / "log").unlink()
    (source / "hard").unlink()
    with pytest.raises(UserError, match="too few readable files"):
        system.write_from(target, 0, [kind])


def test_a_users_file_and_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "mine"
    (top / "b").mkdir(parents=True)
    (top / "b" / "two").write_bytes(b"22")
    (top / "a").write_bytes(b"1")
    (top / "empty").write_bytes(b"")
    (top / "away").symlink_to("/etc/passwd")
    (top / "round").symlink_to(top)
    os.mkfifo(top / "pipe")
    found = data.resolve(top)
    assert [(entry.name, entry.size_bytes) for entry in found.entries] == [("a", 1), ("b/two", 2)]
    assert found.files == [top / "a", top / "b" / "two"]
    moved = tmp_path / "elsewhere"
    top.rename(moved)
    assert data.resolve(moved).digest == found.digest, "the place does not matter"
    (moved / "a").rename(moved / "z")
    assert data.resolve(moved).digest != found.digest, "names do"
    (tmp_path / "link").symlink_to(moved)
    assert data.resolve(tmp_path / "link").size_bytes == 3, "the user named it"
    monkeypatch.chdir(moved)
    assert data.resolve("z").files == [moved / "z"]


def test_a_file_named_like_a_data_set_is_had_by_its_path(own: Path) -> None:
    Path("noise").write_bytes(b"mine")
    assert data.resolve("./noise").size_bytes == 4
    assert data.resolve("noise").digest == DIGESTS["noise"]


def test_users_data_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(path: Path | str) -> str:
        with pytest.raises(UserError) as error:
            data.resolve(path)
        assert error.value.remedy
        return error.value.message

    assert "cannot be read: No such file" in told(tmp_path / "absent")
    assert "neither a file nor a directory" in told("/dev/zero")
    (tmp_path / "none").mkdir()
    assert "are empty" in told(tmp_path / "none")
    (tmp_path / "deep" / "/".join("d" * 40)).mkdir(parents=True)
    assert "nested more than 32 deep" in told(tmp_path / "deep")
    many = tmp_path / "many"
    many.mkdir()
    for number in range(4):
        (many / str(number)).write_bytes(b"12345")
    monkeypatch.setattr(paths, "MAX_FILES", 3)
    assert "more than 3 files" in told(many)
    monkeypatch.setattr(paths, "MAX_FILES", 4)
    monkeypatch.setattr(paths, "MAX_BYTES", 19)
    assert "are 20 bytes, the most is 19" in told(many)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_users_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "closed").write_bytes(b"1")
    (tmp_path / "closed").chmod(0)
    with pytest.raises(UserError, match=r"cannot be read: .*closed"):
        data.resolve(tmp_path)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("accident", "accidents"), ("silesia/xmll", "silesia/xml"), ("ordres", "orders")],
)
def test_unknown_names_are_told_with_what_was_meant(own: Path, name: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"did you mean {meant}"):
        data.resolve(name)
    assert meant in str(data.absent(name))


@pytest.fixture
def little_silesia(own: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A corpus of three files of our own in place of the real one."""
    import hashlib

    files = {"xml": b"<xml/>" * 5000, "mr": bytes(range(256)) * 40, "x-ray": b"x" * 1000}
    members = {
        name: silesia.Member(len(content), hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    }
    monkeypatch.setattr(silesia, "MEMBERS", members)
    return files


def test_silesia_is_found_packed_or_not(
    own: Path, little_silesia: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "overside data fetch silesia" in str(data.absent("silesia"))
    with pytest.raises(UserError, match="not at hand"):
        data.resolve("silesia")
    place = own.parents[1] / "place"
    (place / "silesia").mkdir(parents=True)
    monkeypatch.setenv("OVERSIDE_DATA", str(place))
    (place / "silesia" / "xml").write_bytes(little_silesia["xml"])
    with zipfile.ZipFile(place / "mr.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mr", little_silesia["mr"])
    assert data.absent("silesia") is None
    assert data.absent("silesia/x-ray") is not None
    found = data.resolve("silesia")
    assert [entry.name for entry in found.entries] == ["xml", "mr"]
    assert found.files[0] == place / "silesia" / "xml", "used where it lies"
    assert found.files[1].read_bytes() == little_silesia["mr"]
    assert found.note == "without x-ray, which are not at hand"
    assert data.resolve("silesia/mr").size_bytes == len(little_silesia["mr"])
    # Once unpacked, the archive is no longer needed.
    (place / "mr.zip").unlink()
    assert data.resolve("silesia/mr").files == [found.files[1]]
    row = next(row for row in data.table() if row["name"] == "silesia")
    assert (row["state"], row["files"]) == ("in part", ["xml", "mr"])


@pytest.mark.parametrize("content", [b"other", b"", b"<xml/>" * 4999 + b"<XML/>"])
def test_a_wrong_file_is_never_taken_for_silesia(
    own: Path, little_silesia: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    place = own.parents[1] / "place"
    place.mkdir()
    monkeypatch.setenv("OVERSIDE_DATA", str(place))
    (place / "xml").write_bytes(content)
    with pytest.raises(UserError, match="xml is not the file xml of the Silesia corpus"):
        data.resolve("silesia/xml")
    (place / "xml").unlink()
    with zipfile.ZipFile(place / "xml.zip", "w") as archive:
        archive.writestr("xml", content)
    with pytest.raises(UserError, match=r"xml\.zip is not the file xml of the Silesia corpus"):
        data.resolve("silesia/xml")
    (place / "xml.zip").write_bytes(b"PK no archive")
    with pytest.raises(UserError, match="it cannot be unpacked"):
        data.resolve("silesia/xml")
    assert not cache.cached()


def test_an_archive_cannot_unpack_to_more_than_the_file(
    own: Path, little_silesia: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = own.parents[1] / "place"
    place.mkdir()
    monkeypatch.setenv("OVERSIDE_DATA", str(place))
    with zipfile.ZipFile(place / "xml.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xml", b"<xml/>" * 5000 + bytes(64 << 20))
    with pytest.raises(UserError, match="not 30000 bytes long"):
        data.resolve("silesia/xml")


@pytest.mark.skipif(
    not (SHARED / "data/silesia").is_dir(), reason="no Silesia files beside the repository"
)
def test_the_real_files_are_those_of_the_table(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERSIDE_DATA", str(SHARED / "data"))
    found = data.resolve("silesia")
    assert found.entries
    for entry in found.entries:
        assert entry.size_bytes == silesia.MEMBERS[entry.name].size_bytes


def test_the_corpus_is_as_long_as_published() -> None:
    assert sum(member.size_bytes for member in silesia.MEMBERS.values()) == 211_938_580


def test_the_command_lists_makes_and_verifies(own: Path) -> None:
    def run(*words: str) -> tuple[int, str, str]:
        done = overside("data", *words)
        return done.returncode, done.stdout, done.stderr

    assert run("verify")[:2] == (0, "")
    code, out, _ = run("list", "--json")
    states = {row["name"]: row["state"] for row in json.loads(out)["data"]}
    assert code == 0
    assert states == {
        "accidents": "not made",
        "logs": "not made",
        "noise": "not made",
        "orders": "not made",
        "orders-large": "not made",
        "system": "not made",
        "silesia": "not at hand",
    }
    code, out, _ = run("make", "noise", "--json")
    assert code == 0
    assert json.loads(out)["data"][0]["digest"] == DIGESTS["noise"]
    code, out, _ = run("list")
    assert re.search(r"noise +made +16 MiB", out)
    assert "get it   overside data make logs" in out
    assert run("verify", "noise")[0] == 0
    os.truncate(own / "noise-0-1" / "noise.bin", 5)
    assert re.search(r"noise +broken", run("list")[1])
    code, out, _ = run("verify", "--json")
    assert code == 101
    assert json.loads(out)["data"][0]["ok"] is False
    assert run("make", "noise")[0] == 0
    code, out, _ = run("verify")
    assert (code, out) == (0, f"{'noise':<20} ok      {DIGESTS['noise']}\n")


def test_the_command_tells_what_cannot_be_fetched(own: Path) -> None:
    assert "overside data make logs" in overside("data", "fetch", "logs", code=2).stderr
    overside("data", "fetch", "enwik8", code=2)
    done = overside("data", "fetch", "--url", "file:///etc/passwd", code=2)
    assert "only http and https" in done.stderr


def test_the_command_runs_as_a_process(own: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overside", "data", "make", "noise"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert DIGESTS["noise"] in done.stdout
    assert done.stderr == ""
