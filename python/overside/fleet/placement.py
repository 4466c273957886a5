"""Starts nodes of a pipeline on the machines of a Ray cluster, for `overside flow run --on ray`.

1. The first line of stdin names them: `{"ray_address", "nodes": {NAME: {"resources",
   "tls_keys"}}}`.
2. Ray places an actor for each by its resources (`node_process`).
3. A line on stdout has their addresses, `{"nodes": {NAME: {"address", "password", "machine",
   "starts"}}}`, and another one each time a node was started again.
4. When stdin ends, the nodes are ended.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

from overside import fleet
from overside.errors import Exit, UserError, printable
from overside.fleet.node_process import NodeProcess

#: Longest time in seconds that Ray may take to start all nodes.
_START_S = 120.0
#: Seconds between two checks whether nodes have moved.
_LOOK_S = 0.5
#: Longest time in seconds for ending all nodes.
_END_S = 15.0

Json = dict[str, Any]


@dataclass
class _Node:
    """A node's actor, the question that it has not answered yet, and its last answer."""

    actor: Any
    asked: Any = None
    place: Json = field(default_factory=dict)
    starts: int = 0


class Placement:
    """The nodes of a pipeline."""

    def __init__(self, ray: Any, wanted: Mapping[str, Json]) -> None:
        self._ray = ray
        _check(ray, wanted)
        self._nodes = {
            name: _Node(
                ray.remote(NodeProcess)
                .options(num_cpus=0, resources=about["resources"], max_restarts=-1)
                .remote(about["tls_keys"])
            )
            for name, about in wanted.items()
        }

    def wait(self) -> None:
        """Waits until all nodes are there. Raises `UserError` if Ray does not start them."""
        end = time.monotonic() + _START_S
        while missing := [name for name, node in self._nodes.items() if not node.place]:
            if time.monotonic() > end:
                raise UserError(
                    f"Ray has not started {', '.join(missing)} within {_START_S:g} s",
                    "`ray status` says what is taken; other pipelines may have the resources",
                    Exit.ABSENT,
                )
            self.look(_LOOK_S, is_first=True)

    def look(self, wait_s: float, *, is_first: bool = False) -> list[str]:
        """Asks each node where it is, and takes the answers of those that have answered within
        `wait_s`. The names of nodes that were started since they were asked last."""
        from ray.exceptions import RayActorError, RayTaskError  # noqa: PLC0415

        for node in self._nodes.values():
            node.asked = node.asked or node.actor.place.remote()
        asked = {node.asked: (name, node) for name, node in self._nodes.items()}
        ready, _ = self._ray.wait(list(asked), num_returns=len(asked), timeout=wait_s)
        started = []
        for reference in ready:
            name, node = asked[reference]
            node.asked = None
            try:
                place = self._ray.get(reference)
            except RayActorError:
                # It is being started again, here or elsewhere.
                continue
            except RayTaskError as error:
                if is_first:
                    raise UserError(str(error.cause), "", Exit.ABSENT) from None
                continue
            if place != node.place:
                node.place, node.starts = place, node.starts + 1
                started.append(name)
        return started

    def message(self) -> Json:
        """Returns the message to the native command with the places of all nodes."""
        keys = ("address", "password", "machine")
        return {
            "nodes": {
                name: {key: node.place[key] for key in keys} | {"starts": node.starts}
                for name, node in self._nodes.items()
            }
        }

    def end(self) -> None:
        """Ends the nodes."""
        ending = [node.actor.stop.remote() for node in self._nodes.values()]
        self._ray.wait(ending, num_returns=len(ending), timeout=_END_S / 2)
        for node in self._nodes.values():
            self._ray.kill(node.actor)


def _check(ray: Any, wanted: Mapping[str, Json]) -> None:
    """Raises `UserError` if no machine has a node's resources: Ray would wait for one."""
    there = [fleet.resources(node) for node in fleet.machines(ray)]
    for name, about in wanted.items():
        needs = about["resources"]
        if any(all(has.get(key, 0) >= n for key, n in needs.items()) for has in there):
            continue
        found = "; ".join(_text(has) or "none" for has in there) or "no machines"
        raise UserError(
            f"no machine of the Ray cluster has {_text(needs)} for node {name}; they have: {found}",
            f"ray start --address=HEAD:6379 --resources='{json.dumps(needs)}'",
            Exit.ABSENT,
        )


def _text(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items())


def main() -> int:
    """Serves the process at the other ends of stdin and stdout."""
    with _own_stdout() as out:
        try:
            request = json.loads(sys.stdin.readline())
            needed: dict[str, float] = {}
            for about in request["nodes"].values():
                for name, amount in about["resources"].items():
                    needed[name] = needed.get(name, 0.0) + amount
            _serve(fleet.connect(request["ray_address"], needed), request["nodes"], out)
        except UserError as error:
            _say(str(error))
            return error.code
        except (KeyboardInterrupt, BrokenPipeError):
            return Exit.INTERRUPTED
    return Exit.OK


def _serve(ray: Any, wanted: Mapping[str, Json], out: TextIO) -> None:
    placement = Placement(ray, wanted)
    try:
        placement.wait()
        print(json.dumps(placement.message()), file=out, flush=True)
        while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
            if started := placement.look(0.0):
                message = placement.message()
                print(json.dumps(message), file=out, flush=True)
                for name in started:
                    machine = message["nodes"][name]["machine"]
                    _say(f"Ray has started {name} again, on {machine}")
    finally:
        # Whatever Ray does, nobody waits for ever.
        timer = threading.Timer(_END_S, os._exit, (Exit.OK,))
        timer.daemon = True
        timer.start()
        with suppress(Exception):
            placement.end()
        ray.shutdown()
        timer.cancel()


def _say(text: str) -> None:
    print(f"overside flow run: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def _own_stdout() -> Iterator[TextIO]:
    """Yields the process's stdout, and sends the output of others, such as Ray, to stderr."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        yield out


if __name__ == "__main__":
    sys.exit(main())
