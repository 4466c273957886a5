"""The published schema of boxes, as an editor or another program would use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/measure/box.schema.json").read_text())
BOXES = sorted((ROOT / "boxes").rglob("*.json"))
LEAST: dict[str, Any] = {"schema": "box/1", "name": "n", "tasks": [{"task": "copy"}]}


def validator() -> jsonschema.Draft202012Validator:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("path", BOXES, ids=lambda path: path.stem)
def test_the_boxes_that_are_shipped_keep_to_it(path: Path) -> None:
    validator().validate(json.loads(path.read_text()))


def test_times_and_shares_may_have_units() -> None:
    measure = {"max_s": "10min", "warmup_s": "50 ms", "sample_s": 0.1, "target_interval": "5%"}
    validator().validate(LEAST | {"measure": measure})


def test_the_smallest_box_keeps_to_it() -> None:
    validator().validate(LEAST)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "box/2"},
        {"name": "two words"},
        {"sed": 7},
        {"seed": -1},
        {"tasks": []},
        {"tasks": [{"task": "copy", "parmeters": {}}]},
        {"tasks": [{"task": "copy", "parameters": {"depth": []}}]},
        {"tasks": [{"task": "copy", "parameters": {"depth": None}}]},
        {"tasks": [{"task": "copy", "parameters": {"depth": {"pow2": [1, 41]}}}]},
        {"tasks": [{"task": "copy", "parameters": {"a b": 1}}]},
        {"tasks": [{"task": "copy", "metrics": ["rate", "rate"]}]},
        {"nodes": []},
        {"measure": {"rounds": 0}},
        {"measure": {"sample_s": 0}},
        {"measure": {"sample_s": "5%"}},
        {"measure": {"target_interval": "5s"}},
    ],
)
def test_what_overside_refuses_it_refuses_too(change: dict[str, Any]) -> None:
    assert not validator().is_valid(LEAST | change)
