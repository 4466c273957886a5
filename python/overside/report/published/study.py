"""Conditions of published figures as their studies state them, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any


@cache
def entries() -> list[dict[str, Any]]:
    """The entries of `conditions.toml`, in their order."""
    text = resources.files(__package__).joinpath("conditions.toml").read_text("utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["conditions"]
    return found


def said(fact: str) -> Mapping[str, str]:
    """Returns what is known of a fact: the stated `level`, `cpu`, `data` and `program`, and the
    fact that was `derived` from it."""
    out: dict[str, str] = {}
    for entry in entries():
        if any(fnmatchcase(fact, pattern) for pattern in entry["facts"]):
            out |= {name: text for name, text in entry.items() if name != "facts"}
    return out
