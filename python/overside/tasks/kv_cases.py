"""Cases: places of clients and server of a key-value store, by the studies' names (CH-SH...).

The names are declared in Rust, crates/measure/measure/src/tasks/kv.rs. What one means is read from
it: clients (C) and the server (S) are on a host (H), on its DPU (D) or on both, and `L-` means that
the clients' machine is the server's own.
"""

from __future__ import annotations

import functools

from overside.tasks.common import LOCAL, Json, declarations

#: Agents by these names are the clients' host, its DPU, and the server's own DPU.
_CLIENT, _CLIENT_DPU, _OWN_DPU = "client", "client-dpu", "dpu"


@functools.cache
def _all() -> dict[str, tuple[str, str]]:
    """`load_from` and `design` of each."""
    declared = {one["name"]: one for one in declarations()["kv"]["parameters"]}
    return {choice["name"]: _meant(choice["name"]) for choice in declared["case"]["choices"]}


def _meant(name: str) -> tuple[str, str]:
    clients, server = name.removeprefix("L-").split("-")
    far = {"D": _OWN_DPU if name.startswith("L-") else _CLIENT_DPU, "H": _CLIENT}
    load_from = "+".join(far[place] for place in clients.removeprefix("C"))
    return load_from, {"H": "cpu-only", "D": "dpu-only"}[server.removeprefix("S")]


def normal(full: Json) -> Json:
    """A case has its clients and its design; where clients and design are those of one, it is
    that one."""
    if full["case"] is None:
        where = (full["load_from"], full["design"])
        case = next((name for name, meant in _all().items() if meant == where), None)
        return full | {"case": case}
    load_from, design = _all()[full["case"]]
    full = dict(full)
    if full["load_from"] == LOCAL:
        full["load_from"] = load_from
    if full["design"] == "cpu-only":
        full["design"] = design
    return full


def unavailable(parameters: Json) -> str | None:
    """Returns the reason why parameters contradict their case; `None` if they do not."""
    load_from, design = parameters["load_from"], parameters["design"]
    named = next((name for name in _all() if name == str(load_from).upper()), None)
    if named is not None:
        return f"load_from={load_from} is where clients and server run, not an agent: case={named}"
    case = parameters["case"]
    if case is None:
        return None
    clients, asked = _all()[case]
    if design != asked:
        return f"case {case} has design={asked}, not {design}: leave design or case away"
    count = len(clients.split("+"))
    if len(str(load_from).split("+")) != count:
        return f"clients of case {case} are as in load_from={clients}, not as in {load_from}"
    return None
