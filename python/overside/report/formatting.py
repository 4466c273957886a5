"""Numbers, units and names as a reader meets them; the same words in every format."""

from __future__ import annotations

import functools
import json
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from overside import _core, tasks
from overside.bench import plan
from overside.tasks.common import choices, declarations, presentation

# The longest text from outside (a plug-in's message, a path) that is shown in one place.
TEXT_MAX = 2_000

_CODE = re.compile(r"`([^`]+)`")

PROVENANCE = {
    "measured": "Measured",
    "emulated": "Emulated",
    "modelled": "Modelled",
    "published": "Published",
}

STATUS = {
    "ok": "passed",
    "invalid": "invalid timing",
    "failed": "failed",
    "skipped": "skipped",
    "missing": "not measured",
}


def clean(text: object, limit: int = TEXT_MAX) -> str:
    """Text from outside without what could steer a terminal or reorder a line.

    Control and format characters (terminal escapes, bidirectional overrides) become spaces, and
    text beyond `limit` characters is cut with an ellipsis.
    """
    out = str(text)[: limit + 1]
    if not out.isprintable():
        out = "".join(
            " " if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} else c for c in out
        )
    out = " ".join(out.split())
    return out if len(out) <= limit else out[:limit].rstrip() + "…"


def html(text: str) -> str:
    """Text escaped for HTML; text between backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits: `0.0412`, `4.80`, `1,240`."""
    return "–" if value is None else _core.number(value, digits)


def span(low: float, high: float, dash: str = "–") -> str:
    """Two bounds with the fewest digits, from three to five, by which they differ."""
    for digits in (3, 4, 5):
        text = number(low, digits), number(high, digits)
        if text[0] != text[1]:
            break
    return f"{text[0]}{dash}{text[1]}"


def times(value: float) -> str:
    """Formats a factor: two significant digits below ten, three above."""
    return number(value, 2 if abs(value) < 9.95 else 3)


duration = _core.duration


def size(size_bytes: float) -> str:
    """A size in binary units; a limit just below a round one is written so: `16 KiB − 1 B`."""
    whole = int(size_bytes) + 1
    if size_bytes == whole - 1 and whole >= 4096 and whole & (whole - 1) == 0:
        return f"{_core.size(whole)} − 1 B"
    return _core.size(size_bytes)


def plural(count: int, one: str, many: str = "") -> str:
    """`1 test`, `2 tests`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listing(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(words)
    return (
        items[0]
        if len(items) == 1
        else ", ".join(items[:-1]) + " and " + items[-1]
        if items
        else ""
    )


@functools.cache
def _libraries() -> Mapping[str, str]:
    """Returns the names for people of all variants, of libraries and of tasks without one."""
    variants = [one for form in json.loads(_core.variants()) for one in form["variants"]]
    own = [one for task in declarations() for one in presentation(task)["variants"]]
    return {one["name"]: one["label"] for one in variants} | {
        one["name"]: one["title"] for one in own
    }


def library(variant: object) -> str:
    """Returns the name for people of a variant's library; an unknown variant stays as it is."""
    name = clean(variant, 60)
    return _libraries().get(name, name)


def choice(task: str, parameter: str, parameters: Mapping[str, Any]) -> str:
    """A parameter's value as people know it: `DEFLATE`."""
    value = parameters.get(parameter)
    if value is None:
        declared = declarations()[task]["parameters"]
        value = next((one["default"] for one in declared if one["name"] == parameter), "")
    name = clean(value, 60)
    return choices(task).get(parameter, {}).get(name, name)


def operation(task: str, parameters: Mapping[str, Any]) -> str:
    """Returns the operation of a test in words: `Compress to DEFLATE`."""
    for title in presentation(task)["titles"]:
        if title["when"] is None or parameters.get(title["when"]):
            names = _placeholders(title["text"])
            values = {name: choice(task, name, parameters) for name in names}
            return str(title["text"].format_map(values))
    return clean(task, 120)


def _placeholders(title: str) -> list[str]:
    return [name for _, name, _, _ in string.Formatter().parse(title) if name]


@functools.cache
def named() -> frozenset[str]:
    """The parameters that stand in titles and at the beginning of labels."""
    forms = [presentation(task) for task in declarations()]
    titles = [title["text"] for form in forms for title in form["titles"]]
    labels = [name for form in forms for name in form["labels"]["parameters"]]
    return frozenset(labels + [name for title in titles for name in _placeholders(title)])


def ends(parameters: Mapping[str, Any]) -> str:
    """Between whom a network test sends: `host to dpu0`."""
    source, destination = (parameters.get(end) or "host" for end in ("source", "destination"))
    if (source, destination) == ("host", "host"):
        return "loopback"
    return f"{clean(source, 40)} to {clean(destination, 40)}"


def value(anything: object) -> str:
    """A parameter's value as the tables show it."""
    if anything is None:
        return "default"
    if isinstance(anything, bool):
        return "yes" if anything else "no"
    if isinstance(anything, list | tuple):
        return clean(", ".join(str(item) for item in anything), 200)
    return clean(anything, 200)


def device(name: object) -> str:
    """A device as a reader knows it: `emulated:bf2` is an emulated BlueField-2."""
    text = clean(name, 200)
    if "+" in text:
        return " + ".join(device(one) for one in text.split("+"))
    if text.startswith("emulated:"):
        return f"emulated {card(text.removeprefix('emulated:'))}"
    known = {"cpu": "CPU", "shm": "shared memory", "ucx": "UCX"}
    node, slash, link = text.partition("/")
    if slash and link in ("shm", "ucx"):
        return f"{known[link]} with {node}"
    return known.get(text, text)


def is_stand_in(name: object) -> bool:
    """Returns `True` if software stands in for the device.

    It is a link through this machine's own memory, or a driver of DPDK that computes on this
    machine's cores.
    """
    device_name = clean(name, 80).rpartition("/")[2]
    return device_name == "shm" or device_name in {
        f"dpdk:{driver}" for driver in ("compress_isal", "compress_zlib", "dma_skeleton")
    }


def over(name: object) -> str:
    """A device or a link, and that it is a stand-in if it is one."""
    mark = " (software stand-in)" if is_stand_in(name) else ""
    return device(name) + mark


def short(value: float) -> str:
    """A figure for a narrow place: `2.16M`, `86.9k`."""
    for least, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= least:
            return f"{number(value / least)}{prefix}"
    return number(value)


def side(name: object) -> str:
    """An end of a link."""
    text = clean(name, 20)
    return {"dpu": "DPU"}.get(text, text)


def card(profile: str) -> str:
    """A profile's card by its product name where the name gives it away."""
    known = {"bf1": "BlueField-1", "bf2": "BlueField-2", "bf3": "BlueField-3"}
    head, _, rest = clean(profile, 80).partition("-")
    titles = {
        "soc": "its own cores",
        "doca22": "DOCA 2.2",
        "older-doca": "older DOCA",
        "cores:1": "one core",
    }
    rest = titles.get(rest, rest)
    return known[head] + (f" ({rest})" if rest else "") if head in known else clean(profile, 80)


def parameter(task: str, key: str, value: object) -> str:
    """A parameter's value as people write it: sizes in the unit that fits them."""
    known = tasks.find(task)
    about = known.parameters.get(key) if known is not None else None
    if about is not None and about.unit == "bytes" and isinstance(value, int):
        return size(value)
    return plan.text(value)
