"""Tasks with jobs of one operation on buffers of a data set: the common part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overside import _core
from overside.tasks.common import (
    ALL,
    Json,
    Machine,
    MeasuredTask,
    device_names,
    is_emulated,
    operation,
    restores,
)


class OffloadTask(MeasuredTask):
    """Task of one operation, or a family of them, on the buffers of a data set."""

    def operation(self, parameters: Json) -> str:
        """The operation as the devices call it."""
        return operation(self.name, parameters) or self.name

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; a batch is never larger than the depth, reconfiguration runs one job
        at a time, whole files are for placements and growing output buffers for jobs alone, a
        real device has no emulated timing, and an emulated one no threads; the agent decides how
        its device is set up. A test is named after the data it really has, not after `corpus`."""
        full = super().normal(parameters)
        full["data"] = real_data(full["data"])
        if isinstance(full.get("patterns"), str):
            full["patterns"] = [full["patterns"]]
        if full["placement"] is not None:
            return _placed(full)
        full["cpu_variant"], full["input"] = None, "buffers"
        if full["sizes"] == "adaptive":
            full["sizes"] = "fixed"
        if full["setting"] == "reconfiguration":
            full["depth"] = 1
        if full["depth"] != ALL:
            full["batch"] = min(full["batch"], full["depth"])
        emulated = is_emulated(full["device"])
        full["timing"] = (full["timing"] or "virtual") if emulated else None
        if emulated or "/" in full["device"]:
            full["threads"], full["cores"] = 1, None
        return full

    def test(self, parameters: Json) -> Json:
        """See `MeasuredTask`."""
        # What a placement does without stands at the worker's defaults.
        own = ("depth", "batch", "completion", "placement", "cpu_variant", "output_size")
        return {
            **{name: parameters[name] for name in own if parameters.get(name) is not None},
            "device": parameters["device"],
            "timing": parameters["timing"],
            "operation": self.operation(parameters),
            "variant": parameters["variant"],
            "level": parameters.get("level"),
            "patterns": [query(pattern) for pattern in parameters.get("patterns", ())],
            "buffer_size": parameters["buffer_size"],
            "threads": parameters["threads"],
            "cores": parameters["cores"],
            "input": parameters["input"],
            "sizes": parameters["sizes"],
            "setting": parameters["setting"],
            "data": {"name": parameters["data"], "sample_bytes": parameters["sample_bytes"]},
        }

    def timed_s(self, parameters: Json, sample_s: float) -> float:
        """See `MeasuredTask`: the CPU alone in virtual time is measured in real time as well."""
        both = parameters["placement"] == "cpu" and parameters["timing"] == "virtual"
        return 2 * sample_s if both else sample_s

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """A device is not there, or is there and cannot do this."""
        reason = _not_shared(parameters)
        if reason is not None:
            return reason
        if parameters["sizes"] == "adaptive" and restores(self.operation(parameters)):
            return f"sources of {self.name} have their lengths; sizes=adaptive is for other tasks"
        for target in _targets(parameters):
            reason = cannot(self.operation(target), target, machine)
            if reason is not None:
                return reason
        return no_data(parameters["data"])

    def doubt(self, parameters: Json, machine: Machine) -> str | None:
        """The compressed side of data that do not shrink is longer than the other."""
        operation, size = self.operation(parameters), parameters["buffer_size"]
        if not restores(operation):
            return None
        for name in device_names(parameters["device"]):
            device = machine.device(name) or {"capabilities": []}
            taken = [
                capability["max_source_bytes"]
                for capability in device["capabilities"]
                if capability["operation"] == operation
            ]
            if taken and taken[0] < _compressed_most(size):
                return (
                    f"{name} takes at most {taken[0]} bytes for {operation}, and what does not "
                    "shrink is longer when compressed"
                )
        return None


def cannot(operation: str, target: Json, machine: Machine) -> str | None:
    """Returns the reason why a device cannot do an operation; `None` if it can.

    `target` has the parameters of the operation on that device.
    """
    name = target["device"]
    device = machine.device(name)
    if device is None:
        return f"{name}: there is no such device here"
    if device.get("unavailable"):
        reason = " ".join(str(device["unavailable"]).split())
        return f"{name} is not available: {reason}"
    capability = next((c for c in device["capabilities"] if c["operation"] == operation), None)
    if capability is None:
        return f"{name} cannot do {operation}"
    return (
        _no_variant(name, operation, target, capability)
        or _too_large(name, operation, target, capability)
        or _no_level(operation, target, machine)
    )


def _placed(full: Json) -> Json:
    """The parameters of a placement, without those of a target that has no part in it."""
    full["placement"] = _core.placement(full["placement"])
    decides = (full["placement"], full["setting"]) == ("adaptive", "static")
    if full["sizes"] == "adaptive" and (full["input"] == "files" or not decides):
        full["sizes"] = "fixed"
    # The executor rings its doorbells and waits for completions in its own way.
    full["batch"] = full["completion"] = None
    emulated = is_emulated(full["device"])
    full["timing"] = (full["timing"] or "virtual") if emulated else None
    if full["placement"] != "device":
        full["cpu_variant"] = full["cpu_variant"] or "auto"
    else:
        full["cpu_variant"] = None
        if emulated or "/" in full["device"]:
            full["threads"], full["cores"] = 1, None
    if full["placement"] == "cpu":
        full["device"], full["variant"] = "cpu", full["cpu_variant"]
        # One clock for all points of a curve.
        full["timing"] = full["timing"] if full["timing"] == "virtual" else None
        full["depth"] = None
    return full


def _targets(parameters: Json) -> list[Json]:
    """The parameters of each device that a test needs, as if it were alone."""
    chosen = parameters.get("placement")
    if chosen is None:
        return [parameters]
    targets = []
    if chosen != "cpu":
        names = device_names(parameters["device"])
        targets += [{**parameters, "device": name} for name in names]
    if chosen != "device":
        own = {"device": "cpu", "variant": parameters["cpu_variant"], "depth": None}
        targets.append({**parameters, **own})
    return targets


def _not_shared(parameters: Json) -> str | None:
    """Returns the reason why the devices cannot share the stream by the placement.

    `None` if they can.
    """
    names, placement = device_names(parameters["device"]), parameters["placement"]
    if placement is None and len(names) > 1:
        return "without a placement there is one device; placement=device has all of them share"
    shares = str(placement).removeprefix("split:").split("+")
    if str(placement).startswith("split:") and len(shares) != len(names):
        return f"{placement} has not one percentage for each of {', '.join(names)}"
    return None


def _is_cut(parameters: Json) -> bool:
    """Returns `True` if buffers are cut to the devices' limits: files and the data's pieces."""
    return parameters.get("input") == "files" or parameters.get("sizes") == "own"


def _compressed_most(size: int) -> int:
    """The longest output of a compressor for `size` bytes: stored DEFLATE blocks add 5 bytes each
    64 KiB or less, LZ4 adds 1 byte in 255, frames have a header."""
    return size + size // 64 + 1024


def _no_variant(device: str, operation: str, parameters: Json, capability: Json) -> str | None:
    variant, there = parameters["variant"], capability["variants"]
    if variant == "auto" or variant in there:
        return None
    return f"{device} has no {variant} for {operation}; it has {', '.join(there) or 'nothing'}"


def _too_large(device: str, operation: str, parameters: Json, capability: Json) -> str | None:
    side = "destination" if restores(operation) else "source"
    limit = capability[f"max_{side}_bytes"]
    if parameters["buffer_size"] > limit and not _is_cut(parameters):
        return (
            f"{device} takes at most {limit} bytes for {operation}, not {parameters['buffer_size']}"
        )
    depth = parameters["depth"]
    if isinstance(depth, int) and depth > capability["max_depth"]:
        return (
            f"{device} takes at most {capability['max_depth']} jobs in flight for {operation}, "
            f"not {depth}"
        )
    if parameters["completion"] == "event" and not capability["event"]:
        return f"{device} signals no completions of {operation}; use completion=poll"
    return None


def _no_level(operation: str, parameters: Json, machine: Machine) -> str | None:
    level, name = parameters.get("level"), parameters["variant"]
    if level is None:
        return None
    listed: Sequence[Json] = next(
        (o["variants"] for o in machine.operations if o["operation"] == operation), []
    )
    if name == "auto" and listed:
        name = listed[0]["name"]
    variant = next((v for v in listed if v["name"] == name), None)
    if variant is None:
        return None
    if not variant.get("levels"):
        return f"{name} has no compression levels for {operation}; level={level} is not available"
    low, high = variant["levels"]
    return None if low <= level <= high else f"{name} has levels {low} to {high}, not {level}"


def real_data(name: str) -> str:
    """The data set that a name stands for: `corpus` is another one on another machine."""
    from overside import data  # noqa: PLC0415 (not needed to list tasks)

    return data.corpus() if name == data.CORPUS else name


def no_data(name: str) -> str | None:
    """Returns the reason why a data set is not available; `None` if it is."""
    from overside import data  # noqa: PLC0415 (not needed to list tasks)

    return data.absent(name)


#: The published queries on accident descriptions, by name.
QUERIES: Mapping[str, str] = {
    "q1": "At (.+)Exit (.+)",
    "q2": "(.+) on (.+) at Exit (.+)",
    "q3": "on (.+) at (.+)",
    "q4": "Ramp to (.+)",
}


def query(pattern: str) -> str:
    """The expression of a published query, or the pattern itself."""
    return QUERIES.get(pattern, pattern)
