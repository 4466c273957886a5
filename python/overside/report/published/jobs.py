"""Jobs on a device, and work shared by CPU and device, beside published figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from overside.bench.statistics import RunView, TestSummary
from overside.report import best, formatting, sweeps
from overside.report.best import Advice, Best
from overside.report.published.figures import (
    FIGURES_MAX,
    Comparison,
    Figure,
    Json,
    figure,
    in_turn,
    size_bytes,
    studies,
)
from overside.report.published.origin import in_words, origin
from overside.report.published.study import said
from overside.report.sweeps import Point, Series, Sweep
from overside.tasks.offload import QUERIES

#: Codecs in the terms of the scenarios, by the formats of boxes.
CODECS = {
    "deflate": ("deflate", "libdeflate"),
    "zlib": ("deflate", "libdeflate"),
    "gzip": ("deflate", "libdeflate"),
    "lz4-block": ("lz4",),
    "lz4": ("lz4",),
}

#: The study of co-processing cuts DEFLATE inputs to this length.
CUT_BYTES = 2 << 20


def comparisons(view: RunView, facts: Sequence[Json]) -> list[Comparison]:
    """The operations and shared work of a run that others have published rates of."""
    out = []
    for advice in best.advise(view):
        found = [pair for fact in facts for pair in _figures(fact, advice)]
        found = in_turn(found)
        if found:
            shown = found[:FIGURES_MAX]
            ours = sorted({one.size_bytes or 0: one for _, one in shown}.items())
            out.append(
                Comparison(
                    title=advice.group.title,
                    detail=advice.group.detail,
                    measured=tuple(_ours(one) for _, one in ours),
                    figures=tuple(one for one, _ in shown),
                    studies=studies(facts, [one for one, _ in shown]),
                    left_out=len(found) - len(shown),
                )
            )
    shared = [one for sweep in sweeps.sweeps(view) for one in _shared(sweep, facts)]
    return [*_together(out), *shared]


def _together(all_: Iterable[Comparison]) -> Iterator[Comparison]:
    """Merges comparisons of the same work with the same published figures, such as settings."""
    for _, same in groupby(all_, key=lambda one: (one.title, one.figures)):
        ways = list(same)
        if len(ways) == 1:
            yield ways[0]
            continue
        ours = [f"{line}, {one.detail}" for one in ways for line in one.measured]
        yield replace(ways[0], detail="", measured=tuple(ours))


def _shared(sweep: Sweep, facts: Sequence[Json]) -> Iterator[Comparison]:
    """Work shared by CPU and device beside published figures of the same split."""
    found = [pair for fact in facts for pair in _splits(fact, sweep)]
    shown = found[: FIGURES_MAX * 2]
    if not shown:
        return
    ours = {f"{series.setting} {point.name}": (series, point) for _, series, point in shown}
    figures = tuple(one for one, _, _ in shown)
    yield Comparison(
        title=f"{sweep.title} shared by the CPU and {sweep.label}",
        detail=sweep.detail,
        measured=tuple(_our_split(series, point) for series, point in ours.values()),
        figures=figures,
        studies=studies(facts, figures),
        left_out=len(found) - len(shown),
        chosen="at the nearest shares",
        provenance=sweep.provenance,
    )


def beside(view: RunView, facts: Sequence[Json]) -> Iterator[tuple[TestSummary, str]]:
    """Yields the tests of shared work that stand beside published figures, each with a fact."""
    for sweep in sweeps.sweeps(view):
        for fact in facts:
            for found, _, point in _splits(fact, sweep):
                if found.origin:
                    yield point.test, fact["id"]


def _splits(fact: Json, sweep: Sweep) -> Iterator[tuple[Figure, Series, Point]]:
    """The rates of a fact on the same shared work, each with our point of the nearest share."""
    lead = next((p.test for one in sweep.series for p in one.all), None)
    if fact["doubtful"] or fact["purpose"] == "context" or not lead:
        return
    codecs = CODECS.get(str(lead.parameters.get("format") or "deflate"), ())
    for one in fact["figures"]:
        keys = _keys(one, "split")
        same = keys.get("codec") in codecs and keys.get("direction") == lead.task
        series = next((own for own in sweep.series if own.setting == keys.get("setting")), None)
        if one.get("bytes_per_s") is None or not same or series is None or not series.points:
            continue
        share = float(keys["share"])
        point = min(series.points, key=lambda own: abs((own.asked or 0.0) - share))
        differs = tuple(_split_differences(fact, sweep, point, share, keys["codec"]))
        what = f"{fact['workload']}: {fact['metric']}"
        shown = figure(fact, one, fact["device"], what, differs)
        # The CPU alone was measured here.
        source = origin(point.test, fact["id"]) if point.asked != 0.0 else ""
        yield replace(shown, origin=in_words(source, fact, [one])), series, point


def _split_differences(
    fact: Json, sweep: Sweep, point: Point, share: float, codec: str
) -> Iterator[str]:
    """Yields the differences between a published split's conditions and ours, a phrase each."""
    here = "this machine" if point.asked == 0.0 else f"{sweep.label} and this machine"
    yield f"on {formatting.clean(fact['device'], 80)}; here on {here}"
    if point.asked != share:
        yield f"{share:g} % on the device; here {point.asked:g} %"
    if point.asked != 100.0:
        target = said(fact["id"]).get("cpu")
        there = f"was {target}" if target else "is not stated"
        yield f"the CPU target {there}; here {sweep.cpu or 'none'}"
    chunk = sweep.chunk_bytes
    if chunk is not None and codec == "lz4":
        yield f"whole files; here chunks of {formatting.size(chunk)}"
    elif chunk is not None and chunk != CUT_BYTES:
        yield f"inputs of {formatting.size(CUT_BYTES)}; here chunks of {formatting.size(chunk)}"
    if fact.get("basis") is None:
        yield "does not say which side’s bytes it counts; here the uncompressed"
    data = formatting.clean(point.test.parameters.get("data") or "its own data", 80)
    if "silesia" not in data.lower():
        yield f"mean over the files of the Silesia corpus; here one stream of “{data}”"


def _our_split(series: Series, point: Point) -> str:
    return f"{point.name}, contexts {series.title}: {sweeps.rate(point)}"


def _ours(one: Best) -> str:
    where = f" in {formatting.size(one.size_bytes)} buffers" if one.size_bytes is not None else ""
    rate = one.winner.throughput
    return (
        f"{one.winner.prose}{where}: {formatting.number(rate.median)} MB/s "
        f"({formatting.span(rate.low, rate.high)})"
    )


def _keys(one: Json, scenario: str) -> Json:
    """Returns the keys that a published rate asks of a scenario; none if it is not its rate."""
    ask = one.get("ask") or {}
    if ask.get("scenario") != scenario or ask.get("relative_to") or not one.get("bytes_per_s"):
        return {}
    keys: Json = ask["keys"]
    return keys


def _figures(fact: Json, advice: Advice) -> Iterator[tuple[Figure, Best]]:
    """The rates of a fact on the same kind of work, each with our figure of the nearest size."""
    if fact["doubtful"] or fact["purpose"] == "context":
        return
    for one in fact["figures"]:
        if not (keys := _same_work(one, advice)):
            continue
        ours = _nearest(advice, _size(keys))
        path = ", ".join(one["path"])
        what = f"{fact['workload']}: {fact['metric']}{f', {path}' if path else ''}"
        differs = tuple(_differences(fact, keys, advice, ours))
        yield figure(fact, one, fact["device"], what, differs), ours


def _same_work(one: Json, advice: Advice) -> Json:
    """Returns the keys that a published rate asks; none if it is of another kind of work."""
    task, form = advice.group.task, str(advice.group.parameters.get("format") or "deflate")
    match task:
        case "compress" | "decompress":
            keys = _keys(one, "codec")
            same = keys.get("codec") in CODECS.get(form, ()) and keys.get("direction") == task
            return keys if same else {}
        case "match":
            return _keys(one, "match")
        case "copy":
            keys = _keys(one, "machine")
            is_copy = keys.get("work") == "copy" and keys.get("function") == "memcpy"
            is_stream = keys.get("work") == "stream" and keys.get("kernel") == "copy"
            return keys if is_copy or is_stream else {}
    return {}


def _size(keys: Json) -> float | None:
    """The size of a published figure's buffers in bytes."""
    text = keys.get("buffer") if "pattern" in keys else keys.get("size")
    return size_bytes(text) if text else None


def _nearest(advice: Advice, size: float | None) -> Best:
    sized = [one for one in advice.best if one.size_bytes]
    if not size or not sized:
        return advice.best[-1]
    return min(sized, key=lambda one: abs(math.log((one.size_bytes or 1) / size)))


def _differences(fact: Json, keys: Json, advice: Advice, ours: Best) -> Iterator[str]:
    """Yields the differences between a published figure's conditions and ours, a phrase each."""
    codec = advice.group.task in {"compress", "decompress"}
    on_engine = keys.get("on", "engine") == "engine"
    if codec and on_engine and keys.get("context") == "kept":
        yield "the engine’s own time alone; here as the caller sees it"
    elif "pattern" in keys and on_engine:
        yield "an accelerator of a card; here this machine’s cores"
    else:
        yield f"on {formatting.clean(fact['device'], 80)}; here on this machine"
    if codec:
        yield from _basis(fact, ours)
    yield from _data(fact, advice)
    if advice.group.task == "compress":
        yield from _level(fact, advice)
    size, here = _size(keys), ours.size_bytes
    if here is not None and size is None:
        yield f"buffer size not stated; here {formatting.size(here)}"
    elif here is not None and size != here:
        sign = {"below": "< ", "from": ">= "}.get(keys.get("inputs", ""), "")
        yield f"buffers of {sign}{formatting.size(size or 0)}; here {formatting.size(here)}"
    if codec and on_engine:
        yield from _setting(keys, advice)
    if advice.group.task == "match":
        yield from _patterns(keys, advice)
    if "cores" in keys:
        yield f"{keys['cores']} cores; here {ours.winner.prose}"


def _basis(fact: Json, ours: Best) -> Iterator[str]:
    if fact.get("basis") == "compressed":
        ratio = ours.winner.ratio
        known = (
            f" (compressed to {formatting.number(ratio.median * 100, 2)} % here)" if ratio else ""
        )
        yield f"counts bytes of the compressed side; here the uncompressed{known}"
    elif fact.get("basis") is None:
        yield "does not say which side’s bytes it counts; here the uncompressed"


def _data(fact: Json, advice: Advice) -> Iterator[str]:
    here = formatting.clean(advice.group.parameters.get("data") or "its own data", 80)
    there = said(fact["id"]).get("data")
    if there is None:
        yield f"data not stated; here “{here}”"
    elif "silesia" not in there.lower() or "silesia" not in here.lower():
        yield f"on {there}; here “{here}”"


def _level(fact: Json, advice: Advice) -> Iterator[str]:
    here = advice.group.parameters.get("level")
    mine = "the library’s own" if here is None else formatting.value(here)
    there = said(fact["id"]).get("level")
    if there is None:
        yield f"level not stated; here {mine}"
    elif there != mine:
        yield f"level {there}; here {mine}"


def _setting(keys: Json, advice: Advice) -> Iterator[str]:
    there = "reconfiguration" if keys.get("context") == "new" else "static"
    here = str(advice.group.parameters.get("setting") or "static")
    if there != here:
        said = {
            "reconfiguration": "contexts set up for each file",
            "static": "contexts set up once",
        }
        yield f"{said[there]}; here {said.get(here, here)}"


def _patterns(keys: Json, advice: Advice) -> Iterator[str]:
    given = advice.group.parameters.get("patterns")
    chosen = [given] if isinstance(given, str) else list(given or ())
    here = {str(pattern) for pattern in chosen}
    asked = keys.get("pattern", "")
    there = {"1", "2", "3", "4"} if asked == "mean" else {asked[1:]}
    names = {name for name in QUERIES if re.sub(r"\D", "", name) in there}
    same = names and (here == names or here == {QUERIES[name] for name in names})
    if not same:
        mine = formatting.clean(", ".join(sorted(here)) or "its own patterns", 80)
        yield f"the patterns {formatting.listing(sorted(names)) or 'not stated'}; here {mine}"
