"""One run of those that several machines made of the same box.

A test of the merged run is a test on one machine: its parameters have `node` beside those of the
box, so machines stand in groups of their own and nothing is computed across them. The runs
themselves are kept below `runs/`, a directory each; everything else is made of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from overside.bench import statistics, store
from overside.bench.store import RunStore
from overside.errors import Exit, UserError
from overside.tasks.common import LOCAL, Json, test_id

#: Directory in a merged run that has the runs of the machines.
RUNS = "runs"


@dataclass(frozen=True)
class NodeResult:
    """Result of running a box on a machine."""

    #: Name of the machine in reports.
    node: str
    #: Resources of the machine, as declared to Ray.
    resources: Mapping[str, float]
    #: The exit code of `overside run`; `None` if it is unknown.
    code: int | None
    #: Reason why there is no run, or no complete one; empty if there is.
    problem: str = ""


def merge(store_: RunStore, box: Json, results: Sequence[NodeResult]) -> Exit:
    """Completes a run that `begin` began, from the runs below `runs/`; returns its exit code."""
    manifest, about = store_.manifest, []
    rounds: list[Json] = []
    for result in results:
        entry: Json = {
            "node": result.node,
            "resources": dict(result.resources),
            "exit_code": result.code,
        }
        path = store_.path / RUNS / result.node
        problem = result.problem
        if path.is_dir():
            try:
                one = _add(store_, path, result.node)
                entry |= {"run": one["id"], "version": one["version"], "state": one["state"]}
                rounds.append(one["rounds"])
            except UserError as error:
                problem = problem or str(error)
        if problem:
            entry["problem"] = problem
            message = f"{result.node}: {problem}"
            remedy = "the results of the others are kept; run the box again when it is back"
            manifest["warnings"].append({"kind": "node", "message": message, "remedy": remedy})
        about.append(entry)
    code = _code(results, about)
    manifest |= {"fleet": about, "box": box, "ended": store.now(), "exit_code": int(code)}
    manifest["state"] = "interrupted" if code == Exit.INTERRUPTED else "complete"
    if any(entry.get("state") != "complete" for entry in about) and code != Exit.INTERRUPTED:
        manifest["state"] = "incomplete"
    if rounds:
        manifest["rounds"] = _rounds(rounds)
    manifest["counts"] = statistics.counts(statistics.load_tests(store_.path, manifest))
    store_.write_manifest()
    return code


def begin(out: Path, name: str, about: Json) -> RunStore:
    """Makes the directory of a merged run. `about` has the keys that are known beforehand.

    Raises `UserError`.
    """
    manifest: Json = {
        "schema": store.SCHEMA,
        "id": store.new_id(name),
        "started": store.now(),
        "ended": None,
        "state": "running",
        "exit_code": None,
        "rounds": {"done": 0, "planned": 0, "most": 0, "reason": None},
        "data": [],
        "metrics": {},
        "tests": [],
        "warnings": [],
        "late_limit": statistics.LATE_LIMIT,
        **about,
    }
    return RunStore.create(out, manifest)


def _add(into: RunStore, path: Path, node: str) -> Json:
    """Adds a machine's run to the merged one; its manifest. Raises `UserError` if it is damaged."""
    one = store.read_manifest(path)
    store.check_manifest(path, one, needed=True)
    ids, nodes = {}, {}
    tests = []
    block = 1 + max((test["block"] for test in into.manifest["tests"]), default=-1)
    for test in one["tests"]:
        # An agent that measured for a machine is another one than that of another machine.
        agent = test.get("node", LOCAL)
        where = node if agent == LOCAL else f"{node}.{agent}"
        parameters = {"node": where} | test["parameters"]
        if agent != LOCAL:
            parameters["node"] = where
        ids[test["id"]], nodes[test["id"]] = test_id(test["task"], parameters), where
        changed = {"id": ids[test["id"]], "parameters": parameters, "node": where}
        tests.append(test | changed | {"block": block + test["block"]})
    for sample in store.read_samples(path):
        if sample["test"] in ids:
            own = {"test": ids[sample["test"]], "node": nodes[sample["test"]]}
            into.append(sample | own)
    into.manifest["tests"] += tests
    for name, metric in one["metrics"].items():
        into.manifest["metrics"].setdefault(name, metric)
    known = {(entry.get("name"), entry.get("digest")) for entry in into.manifest["data"]}
    into.manifest["data"] += [
        entry for entry in one["data"] if (entry.get("name"), entry.get("digest")) not in known
    ]
    for warning in one["warnings"]:
        message = f"{node}: {warning.get('message', '')}"
        into.manifest["warnings"].append(warning | {"message": message})
    into.write_node(node, store.read_environment(path) | {"name": node})
    for agent, about in store.read_nodes(path).items():
        into.write_node(f"{node}.{agent}", about)
    if (path / "logs").is_dir():
        shutil.copytree(path / "logs", into.path / "logs" / node, dirs_exist_ok=True)
    return one


def _rounds(rounds: Sequence[Json]) -> Json:
    """Combines the rounds of all machines.

    `done` is the fewest of any machine; `planned` and `most` are the highest of any machine.
    """
    reasons = list(dict.fromkeys(str(one.get("reason")) for one in rounds))
    return {
        "done": min(one.get("done") or 0 for one in rounds),
        "planned": max(one.get("planned") or 0 for one in rounds),
        "most": max(one.get("most") or 0 for one in rounds),
        "reason": "; ".join(reasons),
    }


#: Exit codes in the order of their weight, the gravest first.
_CODES = (
    Exit.INTERRUPTED,
    Exit.VERIFICATION_FAILED,
    Exit.TEST_FAILED,
    Exit.INCOMPLETE,
    Exit.INVALID_TIMING,
)


def _code(results: Sequence[NodeResult], about: Sequence[Json]) -> Exit:
    """The gravest of the machines' codes; a machine that has no run makes the run incomplete."""
    codes = {result.code for result in results}
    if all("run" not in entry for entry in about):
        known = sorted(code for code in codes if code in set(Exit))
        return Exit(known[0]) if known else Exit.ABSENT
    if any("problem" in entry or "run" not in entry for entry in about):
        codes.add(int(Exit.INCOMPLETE))
    return next((code for code in _CODES if code in codes), Exit.OK)
