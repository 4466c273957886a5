"""The break-even: from which buffer size a device is faster than the CPU, one buffer at a time.

The model computes it (`overside._core.advise`); here it is put into words, the same everywhere.
"""

from __future__ import annotations

import re

from overside.report import formatting
from overside.tasks.common import Json


def text(prediction: Json) -> str:
    """The answer in a few words: `between 4 KiB and 16 KiB`."""
    match prediction["kind"]:
        case "range":
            low, high = (formatting.size(prediction[key]) for key in ("low_bytes", "high_bytes"))
            if prediction["low_bytes"] >= prediction["high_bytes"]:
                return f"from {high}"
            return (
                f"between {low} and {high}"
                if prediction["low_bytes"]
                else f"from {high} at the latest"
            )
        case "not-below":
            return f"not below {formatting.size(prediction['bytes'])}"
        case "never":
            return "never"
    return "no prediction"


def reason(prediction: Json) -> str:
    """Returns the end of a sentence about a prediction: its reason, or the part that is unknown.

    Empty if the answer is complete.
    """
    match prediction["kind"]:
        case "not-below":
            return "; above that: unknown"
        case "never":
            return f": {with_sizes(formatting.clean(prediction['reason'], 300))}"
        case "range":
            return ""
    return ", because not all of its fixed costs are published"


def with_sizes(sentence: str) -> str:
    """Replaces amounts in bytes, as the model writes them, by sizes with units."""
    return re.sub(r"\d{4,}(?: bytes)?", lambda found: _size(found[0]), sentence)


def _size(amount: str) -> str:
    return formatting.size(int(amount.removesuffix(" bytes")))
