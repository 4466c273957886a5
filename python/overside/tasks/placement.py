"""Placements: who gets which chunks of a stream. The same words as in Rust."""

from __future__ import annotations

import re

#: What a placement can be, for people.
WORDS = "cpu, device, split:PERCENT or adaptive"

_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,12})?")


def canonical(text: str) -> str:
    """The one way to write a placement: a split that gives everything to one side is that side.

    Raises `ValueError` if it is none.
    """
    if text in ("cpu", "device", "adaptive"):
        return text
    kind, _, percent = text.partition(":")
    if kind != "split":
        raise ValueError(f"there is no placement {text!r}; it can be {WORDS}")
    if not _PERCENT.fullmatch(percent) or float(percent) > 100:
        raise ValueError(f"{percent!r} is not a percentage from 0 to 100")
    value = float(percent)
    if value in (0.0, 100.0):
        return "cpu" if value == 0.0 else "device"
    return f"split:{value:.12g}"


def percent(text: object) -> float | None:
    """The share of the bytes that is asked to go to the device; `None` where it is chosen while
    running, and for what is no placement."""
    match text:
        case "cpu":
            return 0.0
        case "device":
            return 100.0
        case str() if text.startswith("split:"):
            try:
                return float(text.removeprefix("split:"))
            except ValueError:
                return None
    return None


def uses_cpu(text: str) -> bool:
    """The CPU gets chunks of its own."""
    return text != "device"


def uses_device(text: str) -> bool:
    """The device gets chunks."""
    return text != "cpu"
