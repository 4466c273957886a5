"""Moves bytes between a host and a DPU, or between their substitutes."""

from __future__ import annotations

from overside.tasks.common import Json, Machine, MeasuredTask, is_emulated

#: Variants that copy over shared memory; the others are transports of UCX.
_COPIERS = ("engine", "caller")


class DmaTask(MeasuredTask):
    """Reads, writes and messages between two sides."""

    #: Both sides connect first.
    extra_s = 0.03

    def normal(self, parameters: Json) -> Json:
        """Fills in defaults; a link has variants of its own or none, an emulated engine has
        virtual time unless it is paced, a batch is never larger than the depth, a read has no
        payload to hand over, and without completions single operations have no latency."""
        full = super().normal(parameters)
        link = full["device"].rpartition("/")[2]
        copies = full["variant"] in _COPIERS
        if link != ("shm" if copies else "ucx"):
            full["variant"] = "engine" if link == "shm" else None
        emulated = is_emulated(full["device"])
        full["timing"] = (full["timing"] or "virtual") if emulated else None
        if full["variant"] != "engine" and full["timing"] != "paced":
            full["engine_core"] = None
        full["batch"] = min(full["batch"], full["depth"])
        if full["operation"] == "read":
            full["inline"] = False
        if full["completion"] == "none":
            full["measure"] = "throughput"
        if full["depth"] == 1 and full["threads"] == 1:
            full["buffers"] = "same"
        return full

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """A device that is not there, or is there and does not copy; an agent that is away."""
        name, known = parameters["device"], self.parameters["device"].links
        if name in known or name.startswith("emulated:"):
            return None
        node, slash, link = name.partition("/")
        if slash and link in known:
            return machine.no_node(node)
        if slash:
            links = ", ".join(f"{node}/{link}" for link in known)
            return f"{name} moves no bytes between host and agent; the links are {links}"
        device = machine.device(name)
        if device is None:
            return f"{name}: there is no such device here; the links are {', '.join(known)}"
        if device.get("unavailable"):
            reason = " ".join(str(device["unavailable"]).split())
            return f"{name} is not available: {reason}"
        if all(one["operation"] != "copy" for one in device["capabilities"]):
            return f"{name} cannot copy"
        return None


TASK = DmaTask("dma")
