"""Beyond one machine, with Ray.

`placement` starts the nodes of a pipeline on machines that have what they need; `box_run` runs a
box on many machines at once, and `merge` makes one run of theirs. Needs the extra
`overside[fleet]`: Ray.

Ray's own ports let anyone in who can reach them: a cluster belongs into a network of its own. Nodes
that are started here listen with a secret password.
"""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Mapping
from typing import Any

from overside.errors import Exit, UserError, as_user_error

#: Longest time in seconds for connecting to a cluster.
_CONNECT_S = 5.0


def connect(address: str, resources: Mapping[str, float] = {}) -> Any:
    """Connects to a Ray cluster, or starts one with these resources on this machine if `address` is
    `local`; gives the module `ray`.

    Raises `UserError` if Ray is absent or the cluster cannot be reached.
    """
    # Ray would report to its makers that it was started.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    what = "this needs Ray, which cannot be imported"
    remedy = "pip install 'overside[fleet]', here and on the machines of the cluster"
    with as_user_error(what, ImportError, remedy=remedy, code=Exit.ABSENT):
        ray = importlib.import_module("ray")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options |= {"include_dashboard": False, "resources": dict(resources)}
    try:
        _check_reachable(address)
        ray.init(address=address, **options)
    except (RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"no Ray cluster can be reached at {address!r}: {first}",
            "ray start --head --resources='{\"bf2\": 1}' begins one; --ray-address names another",
            Exit.ABSENT,
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raises `OSError` if nothing listens there: Ray would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()


def machines(ray: Any) -> list[dict[str, Any]]:
    """The machines of the cluster that are alive, in an order that is the same each time."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    return sorted(alive, key=lambda node: (_name(node), node["NodeID"]))


def _name(node: Mapping[str, Any]) -> tuple[str, str]:
    return str(node.get("NodeName") or ""), str(node.get("NodeManagerAddress") or "")


def resources(node: Mapping[str, Any]) -> dict[str, float]:
    """Returns the resources of a machine, without those that Ray adds by itself."""
    own = ("CPU", "GPU", "memory", "object_store_memory")
    return {
        name: amount
        for name, amount in sorted(node["Resources"].items())
        if name not in own and not name.startswith(("node:", "accelerator_type:"))
    }
