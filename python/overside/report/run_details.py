"""Origin of a run's figures: its command and method, its machine, its data."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from overside.bench.statistics import RunView
from overside.report import formatting
from overside.tasks.common import LOCAL, Json

#: The most facts about the machine.
FACTS_MAX = 300
#: The most libraries that are named, and the most characters of a box that is shown.
_LIBRARIES_MAX, _BOX_MAX = 40, 100_000
#: The most ways of checking results that are named.
CHECKS_MAX = 20
ABBREVIATIONS = {
    **{word: word.upper() for word in ("cpu", "smt", "aslr", "numa", "simd")},
    "khz": "in kHz",
    "percent": "in %",
    "c": "in °C",
}


def command(view: RunView) -> str:
    """The command line that made the run, ready for a shell."""
    parts = view.manifest.get("command")
    if not isinstance(parts, list):
        return formatting.clean(parts or "", 1_000)
    return " ".join(shlex.quote(formatting.clean(part, 400)) for part in parts[:100])


def method(view: RunView) -> list[tuple[str, str]]:
    """Returns the method of measuring, as pairs of topic and text."""
    manifest = view.manifest
    rounds, box = mapping(manifest.get("rounds")), mapping(manifest.get("box"))
    policy = mapping(box.get("measure"))
    checks = {formatting.clean(t.check.get("method", ""), 80) for t in view.tests if t.check}
    out = [
        (
            "Rounds",
            f"{formatting.value(rounds.get('done'))} of at least "
            f"{formatting.value(rounds.get('planned'))}; stopped because: "
            f"{formatting.value(rounds.get('reason'))}. A round is a fresh process that runs "
            "each test of a block once; tests that are compared stand in one block, in "
            "alternating order (ABBA).",
        ),
        (
            "Estimates",
            "Median over the rounds. The interval holds the median with 95 % confidence: by "
            "order statistics from 6 rounds on, by a bootstrap over rounds from 20 on; with "
            "fewer, the range. Nothing is discarded; outliers are named.",
        ),
        (
            "Verification",
            "Every sample is checked against an independent implementation"
            + (f" ({'; '.join(sorted(checks - {''})[:CHECKS_MAX])})." if checks - {""} else ".")
            + " A failed job is a failed test, never a fast one.",
        ),
        (
            "Units",
            "MB is a million bytes, KiB is 1,024 bytes. Throughput counts bytes of the "
            "uncompressed side. "
            "CPU cost counts the host's CPU seconds, not those that emulation burns.",
        ),
    ]
    times = [
        f"{text} {formatting.duration(float(policy[key]))}"
        for key, text in (("warmup_s", "warm-up"), ("sample_s", "sample"), ("max_s", "at most"))
        if isinstance(policy.get(key), int | float)
    ]
    modes = {formatting.clean(test.card_mode, 200) for test in view.tests if test.card_mode}
    if modes:
        out.append(("Card mode", "; ".join(sorted(modes)[:CHECKS_MAX]) + "."))
    target = policy.get("target_interval")
    if isinstance(target, int | float):
        times.append(f"target width of an interval {formatting.number(target * 100, 2)} %")
    if times:
        out.append(("Policy", ", ".join(times) + "."))
    out += [
        ("Seed", formatting.value(manifest.get("seed"))),
        ("Box", f"{formatting.value(manifest.get('box_path'))}, SHA-256 {digest(view)}"),
        ("Started", when(manifest.get("started"))),
        ("Ended", when(manifest.get("ended"))),
        ("Overside", built(manifest)),
    ]
    return out


def built(manifest: Mapping[str, Any]) -> str:
    """The version that measured, with its commit if that is known."""
    version = formatting.value(manifest.get("version"))
    commit, _, dirty = str(manifest.get("commit") or "").partition("-")
    if not commit:
        return version
    changed = ", with changes that are not committed" if dirty else ""
    return f"{version}, commit {formatting.clean(commit, 40)}{changed}"


def again(view: RunView) -> list[tuple[str, str]]:
    """Returns the commands that repeat a run, and the box to save first if it was a user's own."""
    manifest = view.manifest
    box = mapping(manifest.get("box"))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", str(box.get("name") or "box"))[:60]
    seed = manifest.get("seed")
    of_seed = f" --seed {seed}" if isinstance(seed, int) else ""
    versions = [f"# Overside {built(manifest)}"]
    software = mapping(mapping(view.environment).get("software"))
    versions += [
        f"# {formatting.clean(library, 60)} {formatting.clean(version, 60)}"
        for library, version in mapping(software.get("libraries")).items()
    ][:_LIBRARIES_MAX]
    lines = [
        *versions,
        *(f"# data {one['name']}: SHA-256 {one['digest']}" for one in data(view)),
        f"overside run {shlex.quote(f'{name}.json')}{of_seed}",
    ]
    out = [("Type this", "\n".join(lines))]
    if box:
        try:
            text = json.dumps(box, indent=1, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):
            return out
        if len(text) <= _BOX_MAX:
            out.append((f"{name}.json", text))
    return out


def digest(view: RunView) -> str:
    """Returns the digest of the box, or that it was not recorded."""
    return formatting.clean(view.manifest.get("box_digest") or "not recorded", 80)


def when(text: object) -> str:
    """A time of the manifest for people: `21 November 2026, 10:00 UTC`."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return "not recorded"
    return f"{time.day} {time:%B %Y, %H:%M} UTC"


def elapsed(view: RunView) -> str:
    """Returns the duration of the run; empty if it did not end."""
    try:
        started = datetime.fromisoformat(str(view.manifest.get("started")))
        ended = datetime.fromisoformat(str(view.manifest.get("ended")))
    except ValueError:
        return ""
    return formatting.duration((ended - started).total_seconds())


def machine(view: RunView) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the recorded facts about the machine, by topic, with reasons for missing ones.

    If there are several machines, topics begin with the machine's name.
    """
    if not view.nodes:
        return _topics(view.environment, FACTS_MAX)
    machines = _machines(view)
    share = max(1, FACTS_MAX // len(machines))
    return [
        (f"{formatting.clean(node, 60)}: {topic}", facts)
        for node, environment in machines.items()
        for topic, facts in _topics(environment, share)
    ]


def _machines(view: RunView) -> Mapping[str, Json]:
    """Returns the recorded description of each machine that measured.

    A merged run has no description of this machine itself.
    """
    return ({LOCAL: view.environment} if view.environment else {}) | view.nodes


def _topics(environment: Mapping[str, Any], left: int) -> list[tuple[str, list[tuple[str, str]]]]:
    topics: dict[str, list[tuple[str, str]]] = {}
    for name, value in environment.items():
        if name == "schema" or name.endswith("_reason") or left <= 0:
            continue
        facts = list(_facts(name, value, environment.get(f"{name}_reason")))[:left]
        left -= len(facts)
        nested = isinstance(value, dict)
        topic = _words(name) if nested else "General"
        topics.setdefault(topic, []).extend(facts)
    return [(topic, facts) for topic, facts in topics.items() if facts]


def _facts(name: str, value: object, reason: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth < 3:
        for key, inner in value.items():
            if not str(key).endswith("_reason"):
                for label, text in _facts(str(key), inner, value.get(f"{key}_reason"), depth + 1):
                    yield (label if depth == 0 else f"{_words(name)}: {label}"), text
        return
    yield _words(name), _fact(name, value, reason)


def _fact(name: str, value: object, reason: object) -> str:
    if value is None:
        return f"not known: {formatting.clean(reason, 200)}" if reason else "not known"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name.endswith("_bytes"):
            return formatting.size(value)
        if name.endswith("_ns"):
            return formatting.duration(value / 1e9)
        if name.endswith("_s"):
            return formatting.duration(value)
        return f"{value:,}" if isinstance(value, int) else formatting.number(value, 4)
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return formatting.clean("; ".join(_inline(item) for item in value), 600)
    if isinstance(value, dict):
        return formatting.clean(_inline(value), 600)
    return formatting.value(value) or "none"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{_words(str(key)).lower()} {_fact(str(key), item, None)}"
            for key, item in value.items()
        )
    return formatting.value(value)


def _words(name: str) -> str:
    """A key as a label: `huge_pages_bytes` is `Huge pages`."""
    text = formatting.clean(name, 80)
    for unit in ("_bytes", "_ns", "_s"):
        text = text.removesuffix(unit)
    text = text.replace("_", " ")
    text = " ".join(ABBREVIATIONS.get(word, word) for word in text.split(" "))
    return text[:1].upper() + text[1:]


def cpu(view: RunView) -> str:
    """The machine in a few words: its CPU's model and cores; empty if nothing was recorded."""
    if view.nodes:
        return formatting.plural(len(_machines(view)), "machine")
    about = view.environment.get("cpu")
    if not isinstance(about, Mapping):
        return formatting.clean(about or "", 120)
    parts = [formatting.clean(about.get("model") or "", 120)]
    cores = about.get("cores")
    if isinstance(cores, int):
        parts.append(formatting.plural(cores, "core"))
    return ", ".join(part for part in parts if part)


def data(view: RunView) -> list[dict[str, str]]:
    """The data sets."""
    out = []
    for item in items(view.manifest.get("data")):
        about = mapping(item)
        files = about.get("files")
        size = about.get("size_bytes")
        out.append(
            {
                "name": formatting.value(about.get("name")),
                "size": formatting.size(size) if isinstance(size, int | float) else "–",
                "files": str(len(files)) if isinstance(files, list) else "–",
                "digest": formatting.clean(about.get("digest") or "–", 140),
                "origin": formatting.clean(about.get("origin") or "–", 300),
            }
        )
    return out


def mapping(value: object) -> Mapping[str, Any]:
    """An object of a manifest; empty where something else stands in its place."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """A list of a manifest; empty where something else stands in its place."""
    return value if isinstance(value, list) else []
