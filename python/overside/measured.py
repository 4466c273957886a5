"""Profile of this machine for scenarios of the model, from the figures of a run.

Only tests count that ran for real, on the CPU, and were verified. A parameter that is one number is
taken from the longest buffers; of several ways to do it, from the fastest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overside import _core
from overside.advise import File
from overside.bench.statistics import RunView, TestSummary, load_run
from overside.calibration import fit, writing
from overside.calibration.figures import word
from overside.errors import Exit, UserError, as_user_error
from overside.tasks.common import Json

#: Name of the profile of this machine in a scenario.
NAME = "here"
_SOURCE = "measured by Overside {version} on {model}, {started}, run {id}"
_QUERIES = ["q1", "q2", "q3", "q4"]


@dataclass(frozen=True)
class Rule:
    """Rule for the tests that give a parameter of the model."""

    parameter: str
    task: str
    metric: str
    unit: str
    #: Values that the tests' parameters must have; of a tuple any one.
    where: Mapping[str, Any]
    #: The axis of a table and the test's parameter that is on it; a number if none.
    by: tuple[str, str] | None = None
    #: `True` if the figure is the part saved, and the metric the part left.
    is_saved: bool = False

    def takes(self, test: TestSummary) -> bool:
        """Returns `True` if the rule applies to the test."""
        if test.task != self.task or self.metric not in test.metrics:
            return False
        one_thread = test.parameters.get("threads") in (None, 1)
        return (one_thread or (self.by is not None and self.by[1] == "threads")) and all(
            test.parameters.get(name) in (value if isinstance(value, tuple) else (value,))
            for name, value in self.where.items()
        )


def _codec(task: str, form: str, variant: str, parameter: str, metric: str, **more: Any) -> Rule:
    where = {"format": form, "variant": variant, **more}
    return Rule(f"codec.{parameter}", task, metric, "MB/s", where)


#: Rates of decompression count compressed bytes, shared inputs uncompressed ones, as in studies.
RULES = (
    _codec("compress", "deflate", "zlib", "deflate.compress.rate", "throughput", level=(1, 2, 3)),
    _codec("compress", "deflate", "zlib", "deflate.compress.split", "throughput", level=6),
    _codec("compress", "deflate", "libdeflate", "libdeflate.compress.rate", "throughput", level=1),
    _codec("decompress", "deflate", "zlib", "deflate.decompress.rate", "compressed_throughput"),
    _codec("decompress", "deflate", "zlib", "deflate.decompress.split", "throughput"),
    _codec(
        "decompress",
        "deflate",
        "libdeflate",
        "libdeflate.decompress.rate",
        "compressed_throughput",
    ),
    _codec("compress", "lz4-block", "lz4", "lz4.compress.rate", "throughput"),
    _codec("decompress", "lz4-block", "lz4", "lz4.decompress.rate", "compressed_throughput"),
    _codec("decompress", "lz4-block", "lz4", "lz4.decompress.corpus", "compressed_throughput"),
    *(
        Rule(f"codec.{codec}.reduction", "compress", "ratio", "count", where, is_saved=True)
        for codec, where in (
            ("deflate", {"format": "deflate", "variant": "zlib", "level": (1, 2, 3)}),
            ("lz4", {"format": "lz4-block", "variant": "lz4"}),
        )
    ),
    *(
        Rule(
            f"codec.regex.{variant}.rate",
            "match",
            "throughput",
            "MB/s",
            {"variant": variant, "patterns": (_QUERIES,)},
        )
        for variant in ("re2", "hyperscan")
    ),
    Rule(
        "memory.latency.random",
        "memory",
        "read_latency",
        "ns",
        {"pattern": "chase", "pages": ("small", "system", None)},
        ("bytes", "buffer_size"),
    ),
    *(
        Rule(
            f"memory.access.{order}-{access}",
            "memory",
            "access_rate",
            "Mops/s",
            {"pattern": "access", "access": access, "order": order},
            ("bytes", "buffer_size"),
        )
        for order in ("random", "sequential")
        for access in ("read", "write")
    ),
    *(
        Rule(
            f"stream.{kernel}",
            "memory",
            "bandwidth",
            "MB/s",
            {"pattern": "stream", "kernel": kernel},
            ("cores", "threads"),
        )
        for kernel in ("copy", "scale", "add", "triad")
    ),
    Rule("memory.copy", "copy", "throughput", "MB/s", {}, ("bytes", "buffer_size")),
)


def profile_of(path: Path) -> tuple[str, str]:
    """The name and the text of the profile: of a run, or of a file that is one.

    Raises `UserError` where nothing is of use.
    """
    if path.suffix == ".toml":
        return str(path), File.read(path).text
    view = load_run(path)
    form = profile(view)
    if not form["values"] and not form["tables"]:
        raise UserError(
            f"{path} measured nothing of this machine that a scenario reads",
            "`overside run quick` and `overside run memory` do",
            Exit.NOTHING_SELECTED,
        )
    with as_user_error(f"{path} cannot be used", ValueError):
        return str(path), _core.profile_toml(json.dumps(form))


def profile(view: RunView) -> Json:
    """Returns a profile of this machine with the figures that a run measured."""
    cpu = view.environment.get("cpu") or {}
    model = str(cpu.get("model") or "a processor that does not say its model")
    about = {
        "version": view.manifest.get("version"),
        "model": model,
        "started": str(view.manifest.get("started"))[:10],
        "id": view.manifest.get("id"),
    }
    mode = "what a run measured of this machine"
    form = writing.empty(_SOURCE.format(**about), name=NAME, card=model[:200], mode=mode)
    writer = writing.Writer(form)
    usable = [test for test in view.tests if _is_usable(test)]
    for rule in RULES:
        _apply(rule, [test for test in usable if rule.takes(test)], writer)
    if form["values"] or form["tables"]:
        writing.machine(writer, view.environment)
    return form


def _is_usable(test: TestSummary) -> bool:
    alone = test.parameters.get("device") in (None, "cpu")
    placed = test.parameters.get("placement") in (None, "cpu")
    real = (test.status, test.provenance, test.timing) == ("ok", "measured", "real")
    return alone and placed and real and test.verified


def _apply(rule: Rule, tests: Sequence[TestSummary], writer: writing.Writer) -> None:
    if not tests:
        return
    fact = writer.fact(word(rule.parameter.replace(".", "-")), _says(rule, tests))
    if rule.by is not None:
        axis, name = rule.by
        writer.table(rule.parameter, axis, list(_points(rule, tests, name)), rule.unit, fact)
        return
    longest = max(int(test.parameters.get("buffer_size") or 0) for test in tests)
    at = [test for test in tests if int(test.parameters.get("buffer_size") or 0) == longest]
    best = max(at, key=lambda test: test.metrics[rule.metric].median)
    value = fit.over_rounds(list(best.values[rule.metric].values()))
    if value is not None and rule.is_saved:
        # Data that does not shrink saves nothing, and no value says so.
        saved = fit.Value(1 - value.value, 1 - value.high, 1 - value.low, value.n, value.kind)
        value = saved if saved.low > 0 else None
    writer.value(rule.parameter, value, rule.unit, fact)


def _points(
    rule: Rule, tests: Sequence[TestSummary], name: str
) -> Iterator[tuple[float, fit.Value]]:
    found: dict[float, TestSummary] = {}
    for test in tests:
        at = float(test.parameters.get(name) or 1)
        known = found.get(at)
        figure = test.metrics[rule.metric].median
        if known is None or figure > known.metrics[rule.metric].median:
            found[at] = test
    for at, test in found.items():
        value = fit.over_rounds(list(test.values[rule.metric].values()))
        if value is not None:
            yield at, value


def _says(rule: Rule, tests: Sequence[TestSummary]) -> str:
    libraries = sorted({str((test.applied or {}).get("library")) for test in tests})
    data = sorted({str(test.parameters["data"]) for test in tests if "data" in test.parameters})
    levels = sorted({str(one) for test in tests if (one := test.parameters.get("level"))})
    parts = [f"task {rule.task}, {rule.metric}", ", ".join(libraries)]
    parts += [f"level {', '.join(levels)}"] if levels else []
    parts += [f"data {', '.join(data)}"] if data else []
    return "; ".join(parts)[:400]
