"""Conditions of published figures about links, memory and networks, in terms of our tests.

They are read from the question that a fact asks of a scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from overside.report.published.figures import Json, size_bytes
from overside.tasks.offload import QUERIES

#: The kinds of facts with amounts.
_KINDS = ("measured", "ratio")
#: The figures of the scenario `dma`, as our task calls them.
_DMA = {
    "of a core": "initiator_utilisation",
    "over a short DMA": "latency_mean",
    "DMAs": "rate",
    "peak": "throughput",
    "DMAs by the host over those by the card": "rate",
}
#: Up to here a question speaks of short transfers, whatever their length.
SHORT_BYTES = 64
#: Our hops for the paths through a card in the scenario.
_HOPS = {"ends": None, "sm1": "bridge", "sm2": "ovs-userspace", "sm3": "dpdk-af_packet"}


@dataclass(frozen=True)
class RequestedConditions:
    """Conditions that a test must meet for its figure to be shown beside a published one."""

    task: str
    #: Name of the metric, one of the task's.
    metric: str
    #: Parameters that a test must have; of several values, any.
    must: Mapping[str, tuple[object, ...]]
    #: Numbers of which the nearest is taken, by parameter; the first parameter counts first.
    near: Mapping[str, float] = field(default_factory=dict)
    #: The size as the question states it.
    stated: str = ""
    #: The published figure is a ratio: the parameter in which its two sides differ, and its value
    #: on the other side.
    against: tuple[str, str] | None = None


def conditions_of(fact: Json, one: Json) -> RequestedConditions | None:
    """Returns the conditions of one of a fact's figures; `None` if no test of ours matches it."""
    ask = one.get("ask")
    if not ask or fact["doubtful"] or fact["purpose"] == "context" or fact["kind"] not in _KINDS:
        return None
    read = _SCENARIOS.get(ask["scenario"])
    return read(ask) if read else None


def _dma(ask: Json) -> RequestedConditions | None:
    keys, other = ask["keys"], dict(ask.get("relative_to", {}))
    ours = _DMA.get(ask["figure"])
    if ask["figure"].startswith("DMAs by the host"):
        keys, other = keys | {"initiator": "host"}, {"initiator": "dpu"}
    is_ratio = ask["figure"] == "over a short DMA"
    if ours is None or keys.get("primitive") != "dma" or (is_ratio and not other):
        return None
    against = None
    if other:
        ((name, value), *more) = other.items()
        if more or name not in ("completion", "initiator"):
            return None
        against = (name, value)
    names = {"access": "operation", "completion": "completion", "initiator": "initiator"}
    must = {
        ours_: (keys[theirs],)
        for theirs, ours_ in names.items()
        if theirs in keys and theirs not in ask["open"]
    }
    size = keys.get("bytes", "")
    near = {"buffer_size": size_bytes(size)} if size else {}
    # Latency and the use of a core: one operation at a time.
    if ours in {"latency_mean", "initiator_utilisation"}:
        near["depth"] = 1
    for theirs, name in (("cores", "threads"), ("depth", "batch")):
        if theirs in keys:
            near[name] = float(keys[theirs])
    return RequestedConditions("dma", ours, must, near, size, against)


def _machine(ask: Json) -> RequestedConditions | None:
    keys = ask["keys"]
    if ask.get("relative_to") or "other" in keys:
        return None
    threads = {"threads": float(keys.get("cores", 1))}
    size = keys.get("bytes", "")
    must: dict[str, tuple[object, ...]]
    match keys.get("work"), ask["figure"]:
        case "stream", "moved":
            must = {"pattern": ("stream",), "kernel": (keys.get("kernel"),)}
            return RequestedConditions("memory", "best_bandwidth", must, threads)
        case "latency", "latency":
            pages = ("small", "system") if keys.get("pages") == "small" else ("huge",)
            must = {"pattern": ("chase",), "pages": pages}
            ours = "read_latency"
        case "access", "accesses":
            order, _, access = keys["access"].partition("-")
            must = {"pattern": ("access",), "access": (access,), "order": (order,)}
            ours = "access_rate"
        case _:
            return None
    near = {"buffer_size": size_bytes(size), **threads}
    return RequestedConditions("memory", ours, must, near, size)


def _network(ask: Json) -> RequestedConditions | None:
    keys = ask["keys"]
    path = keys.get("path")
    if ask["figure"] != "TCP" or ask.get("relative_to") or path not in _HOPS:
        return None
    size = keys.get("bytes", "")
    near = {"message_size": size_bytes(size)} if size else {}
    if "threads" in keys:
        near["threads"] = near["connections"] = float(keys["threads"])
    pattern = "round-trip" if path == "ends" else "stream"
    # Runs of older releases do not say the protocol.
    must: dict[str, tuple[object, ...]] = {
        "pattern": (pattern,),
        "mode": (_HOPS[path],),
        "protocol": ("tcp", None),
        "rate": (None,),
        "bit_rate": (None,),
    }
    return RequestedConditions("network", "throughput", must, near, size)


def _match(ask: Json) -> RequestedConditions | None:
    keys = ask["keys"]
    pattern = keys.get("pattern")
    if keys.get("on", "engine") != "engine" or pattern not in QUERIES:
        return None
    # Without one of them the study's figure is of the usual 1 KiB, and of as many as bring most.
    near = {"batch": float(keys["batch"])} if "batch" in keys else {}
    near |= {"buffer_size": size_bytes(keys.get("buffer", "1 KiB"))}
    alone: tuple[object, ...] = ([pattern], pattern, [QUERIES[pattern]], QUERIES[pattern])
    return RequestedConditions("match", "throughput", {"patterns": alone}, near)


#: Functions that read the questions of each scenario.
_SCENARIOS: Mapping[str, Callable[[Json], RequestedConditions | None]] = {
    "dma": _dma,
    "machine": _machine,
    "match": _match,
    "network": _network,
}
