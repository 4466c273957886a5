"""What a published figure about a link, a memory or a network is a figure of, in the words of our
tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from overside.report.published.figures import Json, stated_size

#: The kinds of facts that say how much.
_KINDS = ("measured", "ratio")
_COUNT = re.compile(r"(\d+)\s*(?:host |ARM )?(?:cores?|threads?)\b", re.IGNORECASE)
_BATCH = re.compile(r"batch (\d+)")
_DEPTH = re.compile(r"QD(\d+)")
#: Reads and writes of 8 bytes, as their study calls them.
_ACCESS = re.compile(r"(rnd|seq)\.(read|write)\b")
#: Ratios of DMA: the side above the line and the one below, as parameters.
_RATIOS: Mapping[str, tuple[str, str, str]] = {
    "event/polling": ("completion", "event", "poll"),
    "polling/event": ("completion", "poll", "event"),
    "dpu-initiated / host-initiated": ("initiator", "dpu", "host"),
    "host-/dpu-initiated": ("initiator", "host", "dpu"),
}
#: What our hops correspond to on a card, by the submodes of the literature.
_HOPS = {"SM1": "bridge", "SM2": "ovs-userspace", "SM3": "dpdk-af_packet"}


@dataclass(frozen=True)
class RequestedConditions:
    """What a test has to be for its figure to stand beside a published one."""

    task: str
    #: One of the task's metrics.
    metric: str
    #: Parameters that a test must have; of several values, any.
    must: Mapping[str, tuple[object, ...]]
    #: Numbers of which the nearest is taken, by parameter; what comes first counts first.
    near: Mapping[str, float] = field(default_factory=dict)
    #: The size as its study states it.
    stated: str = ""
    #: The size is smaller than this, in bytes.
    below: float | None = None
    #: The published figure is a ratio: the parameter in which its two sides differ, and what it is
    #: on the other side.
    against: tuple[str, str] | None = None


def conditions_of(fact: Json, one: Json) -> RequestedConditions | None:
    """What one of a fact's figures is about; nothing where no test of ours is about the same."""
    if fact["doubtful"] or fact["purpose"] == "context" or fact["kind"] not in _KINDS:
        return None
    workload = str(fact["workload"])
    if workload.lower().startswith("dma"):
        return _dma(fact, one)
    if workload.startswith("STREAM "):
        return _stream(fact, one)
    if workload.startswith("tinymembench"):
        return _chase(fact, one)
    if _ACCESS.match(workload):
        return _access(fact, one)
    if workload.startswith("TCP ") and one.get("bytes_per_s"):
        return _tcp(fact)
    return None


def _dma(fact: Json, one: Json) -> RequestedConditions | None:
    metric, workload = str(fact["metric"]).lower(), str(fact["workload"])
    ratio = next((sides for words, sides in _RATIOS.items() if words in metric), None)
    ours = _dma_metric(metric, one)
    if ours is None or (fact["kind"] == "ratio") != (ratio is not None):
        return None
    must: dict[str, tuple[object, ...]] = {}
    for name, said in {
        "operation": {"read": "read", "write": "write"},
        "completion": {"polling": "poll", "event": "event"},
        "initiator": {"DPU-initiated": "dpu", "host-initiated": "host"},
    }.items():
        found = [value for text, value in said.items() if text in workload]
        if len(found) == 1:
            must[name] = (found[0],)
    if "initiator" not in must and (side := _dma_side(fact, one)):
        must["initiator"] = (side,)
    against = None
    if ratio is not None:
        name, left, right = ratio
        must[name], against = (left,), (name, right)
    size = stated_size(f"{workload}; {metric}; {fact['conditions']}")
    below = size.size_bytes if size and size.sign.startswith("<") else None
    near: dict[str, float] = {}
    if size is not None and below is None:
        near["buffer_size"] = size.size_bytes
    # Latency and the use of a core: one operation at a time.
    if ours in {"latency_mean", "initiator_utilisation"}:
        near["depth"] = 1
    if cores := _COUNT.search(str(fact["conditions"])):
        near["threads"] = float(cores[1])
    if batch := _BATCH.search(str(fact["conditions"])):
        near["batch"] = float(batch[1])
    return RequestedConditions("dma", ours, must, near, size.text if size else "", below, against)


def _dma_metric(metric: str, one: Json) -> str | None:
    if "utilisation" in metric:
        return "initiator_utilisation"
    if "latency" in metric:
        return "latency_mean"
    if one.get("bytes_per_s"):
        return "throughput"
    return "rate" if "throughput" in metric else None


def _dma_side(fact: Json, one: Json) -> str | None:
    """Whose cores started it, as far as the device's name or the figure's key says."""
    if one["path"]:
        return "host" if one["path"][0] == "host" else None
    start, arrow, _ = str(fact["device"]).partition("->")
    return ("host" if start == "host" else "dpu") if arrow else None


def _stream(fact: Json, one: Json) -> RequestedConditions | None:
    kernel = str(fact["workload"]).removeprefix("STREAM ")
    if not one.get("bytes_per_s") or len(one["path"]) != 2:
        return None
    near = {"threads": float(one["path"][1])}
    must: dict[str, tuple[object, ...]] = {"pattern": ("stream",), "kernel": (kernel,)}
    return RequestedConditions("memory", "best_bandwidth", must, near)


def _chase(fact: Json, one: Json) -> RequestedConditions | None:
    size = stated_size(" ".join(one["path"]))
    if size is None:
        return None
    pages = ("small", "system") if "no hugepage" in fact["workload"] else ("huge",)
    must: dict[str, tuple[object, ...]] = {"pattern": ("chase",), "pages": pages}
    near = {"buffer_size": size.size_bytes, "threads": 1.0}
    return RequestedConditions("memory", "read_latency", must, near, size.text)


def _access(fact: Json, one: Json) -> RequestedConditions | None:
    found = _ACCESS.match(str(fact["workload"]))
    size = stated_size(str(fact["workload"]))
    if found is None or size is None or len(one["path"]) != 1:
        return None
    must: dict[str, tuple[object, ...]] = {
        "pattern": ("access",),
        "access": (found[2],),
        "order": ("random" if found[1] == "rnd" else "sequential",),
    }
    near = {"buffer_size": size.size_bytes, "threads": 1.0}
    return RequestedConditions("memory", "access_rate", must, near, size.text)


def _tcp(fact: Json) -> RequestedConditions | None:
    text = f"{fact['workload']}; {fact['metric']}; {fact['conditions']}"
    mode = next((hop for name, hop in _HOPS.items() if name in fact["workload"]), None)
    if ("on-path" in text) != (mode is not None):
        return None
    near: dict[str, float] = {}
    size, depth, threads = stated_size(text), _DEPTH.search(text), _COUNT.search(text)
    if size is not None:
        near["message_size"] = size.size_bytes
    if threads is not None:
        near["threads"] = near["connections"] = float(threads[1])
    if depth is not None:
        near["depth"] = float(depth[1])
    pattern = "stream" if depth is None else "round-trip"
    must: dict[str, tuple[object, ...]] = {"pattern": (pattern,), "mode": (mode,)}
    return RequestedConditions("network", "throughput", must, near, size.text if size else "")
