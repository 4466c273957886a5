"""What every task says about itself, and what the built-in ones share."""

from __future__ import annotations

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside import _core

if TYPE_CHECKING:
    from overside.bench.plan import Test
    from overside.data import DataSet

#: What `json` makes of a JSON object.
Json = dict[str, Any]
#: The node that this machine is.
LOCAL = "local"
#: The cores of the machine that measures, as a number of threads.
ALL = "all"
#: Answers whether what the text says may be done; asked once a run.
Consent = Callable[[str], bool]


@functools.cache
def declarations() -> Mapping[str, Json]:
    """What the built-in tasks declare of themselves, by name; in Rust, crates/measure/src/tasks."""
    return {task["name"]: task for task in json.loads(_core.tasks())}


@functools.cache
def operation_parameter(task: str) -> tuple[str, str] | None:
    """The parameter that completes the name of a built-in task's operation, and its default;
    `None` for a task that has one operation or none."""
    declared = declarations().get(task)
    template: str = (declared and declared["operation"]) or ""
    for one in declared["parameters"] if declared else ():
        if f"{{{one['name']}}}" in template:
            return one["name"], one["default"]
    return None


def operation(task: str, parameters: Mapping[str, Any]) -> str | None:
    """The operation of a built-in task's jobs, as profiles and devices call it; `None` for what is
    not about jobs on a device."""
    declared = declarations().get(task)
    if declared is None or declared["operation"] is None:
        return None
    completed = operation_parameter(task)
    if completed is None:
        return str(declared["operation"])
    name, default = completed
    return str(declared["operation"].format_map({name: parameters.get(name) or default}))


@functools.cache
def presentation(task: str) -> Json:
    """How tests of a task are grouped, titled and drawn; of a plug-in, which declares nothing of
    that, as if their parameters meant what they mean to the built-in tasks."""
    declared = declarations()
    if task in declared:
        form: Json = declared[task]["report"]
        return form
    ways = [way for known in declared.values() for way in known["report"]["ways"]]
    return {
        "titles": [],
        "ways": list(dict.fromkeys(ways)),
        "size": "buffer_size",
        "labels": {"when": None, "parameters": []},
        "variants": [],
        "references": [],
        "advised": True,
        "charts": "jobs",
        "axes": [],
        "stages": [],
    }


@functools.cache
def choices(task: str) -> Mapping[str, Mapping[str, str]]:
    """The titles of a built-in task's parameters' values."""
    parameters = declarations()[task]["parameters"] if task in declarations() else []
    return {
        parameter["name"]: {choice["name"]: choice["title"] for choice in parameter["choices"]}
        for parameter in parameters
    }


@dataclass(frozen=True)
class Parameter:
    """One parameter of a task: an axis of a box."""

    #: `string`, `integer`, `number`, `boolean`, `strings` (a list of texts is one value),
    #: `integers` (a list of whole numbers is one value) or `any`.
    kind: str
    #: One line for people.
    doc: str
    #: The value where the box gives none; `None`: the task decides.
    default: Any = None
    #: Unit of a number, `""` without one.
    unit: str = ""
    #: The only values allowed.
    choices: tuple[str, ...] = ()
    #: The smallest and the largest number allowed.
    minimum: float | None = None
    maximum: float | None = None
    #: The most that a value which is a list may hold.
    most_values: int | None = None
    #: Words that stand for a number.
    words: tuple[str, ...] = ()
    #: What the text names: `device`, `variant`, `data`, `node`, `placement`, `patterns` or nothing.
    refers_to: str | None = None
    #: Links that may stand for a device, by themselves or after an agent's name.
    links: tuple[str, ...] = ()

    @staticmethod
    def declared(form: Json) -> Parameter:
        """One of a built-in task."""
        fields = {name: value for name, value in form.items() if name != "name"}
        choices = tuple(choice["name"] for choice in form["choices"])
        lists = {name: tuple(form[name]) for name in ("links", "words")}
        return Parameter(**fields | lists | {"choices": choices})


@dataclass(frozen=True)
class Metric:
    """One figure that a task gives."""

    unit: str
    #: `higher` or `lower`.
    better: str
    description: str

    def json(self) -> Json:
        """As in a run's manifest."""
        return {"unit": self.unit, "better": self.better, "description": self.description}


class Task(ABC):
    """What a name in a box stands for: a built-in task or a plug-in."""

    #: The name that boxes use.
    name: str
    #: One line for people.
    description: str
    #: Its parameters, in the order they are shown.
    parameters: Mapping[str, Parameter]
    #: Its metrics; the first is the one that decides where a box asks for none.
    metrics: Mapping[str, Metric]
    #: Its results are checked. Without that they enter no advice and no verdict.
    verified: bool = True
    #: Why it takes no `node`; empty: it takes one, or is a plug-in.
    no_nodes: str = ""
    #: Parameters and metrics that are not listed are allowed too, with any value.
    is_open: bool = False

    def declare(self, name: str) -> None:
        """Becomes the built-in task of that name."""
        form = declarations()[name]
        self.name, self.description = name, form["description"]
        self.verified = form["verified"]
        self.parameters = {one["name"]: Parameter.declared(one) for one in form["parameters"]}
        self.metrics = {
            one["name"]: Metric(one["unit"], one["better"], one["description"])
            for one in form["metrics"]
        }

    def normal(self, parameters: Json) -> Json:
        """The parameters with the defaults filled in, and without what has no effect on this
        test: two points that come out equal are one test."""
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        return defaults | parameters

    @property
    def takes_node(self) -> bool:
        """Whether a test may be for another node than this machine."""
        parameter = self.parameters.get("node")
        return parameter is not None and parameter.refers_to == "node"

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """Why a test cannot be for the agent of that name, as far as is known here, or `None`.
        Takes what `normal` gave."""
        del parameters
        return machine.no_node(node)

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """Why a test cannot run on this machine, or `None`. Takes what `normal` gave."""
        del parameters, machine
        return None

    def doubt(self, parameters: Json, machine: Machine) -> str | None:
        """Why a test that is not unavailable may turn out to be once its data are known, or
        `None`. Takes what `normal` gave."""
        del parameters, machine
        return None


class MeasuredTask(Task):
    """A task that the measuring loop runs in a worker process."""

    #: How long a sample may take beside its timed parts and what it reads.
    beside_s: float = 60.0
    #: How long it usually takes beside them, for estimates: seen on a machine with two cores.
    extra_s: float = 0.01

    def __init__(self, name: str) -> None:
        self.declare(name)

    def test(self, parameters: Json) -> Json:
        """The test as `overside._core.Worker.measure` takes it; `kind` says which of its kinds it
        is (crates/measure/src/tasks), without it jobs on a device. Of the data, where it has some,
        it gives the name and `sample_bytes`; the runner adds the files, the times and the seed."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"kind": self.name, **given}

    def timed_s(self, parameters: Json, sample_s: float) -> float:
        """How long the timed parts of a sample take, where the box asks for `sample_s`."""
        del parameters
        return sample_s

    def out_of_bounds(self, parameters: Json, times: Mapping[str, float]) -> str | None:
        """Why a test asks for more than there can be in a box with this `warmup_s` and `sample_s`,
        or `None`. Takes what `normal` gave."""
        del parameters, times
        return None

    def data_name(self, parameters: Json) -> str | None:
        """What the data of a test are called, as `test` says it; `None`: it has none."""
        name: str | None = parameters.get("data")
        return name

    def data_set(self, parameters: Json, seed: int) -> DataSet:
        """The data of a test, found or made. Raises `UserError` if they are not to be had."""
        from overside import data  # noqa: PLC0415 (a box of plug-ins needs none)

        return data.resolve(parameters["data"], seed=seed)

    def worker_prefix(self, parameters: Json) -> Sequence[str]:
        """The command that the worker of a test is started by; empty: as it is."""
        del parameters
        return ()


class ExternalTask(Task):
    """A task that runs programs of its own: a plug-in. Called from the runner's main thread.

    Ctrl-C arrives in any of these as `KeyboardInterrupt`: end your children and let it pass.
    """

    #: How long one sample may take.
    timeout_s: float = 600.0
    #: Why every sample fails; nothing is run then.
    failure: str | None = None

    def sample_s(self, parameters: Json) -> float | None:
        """About how many seconds a sample takes; `None`: as long as the box measures."""
        del parameters
        return None

    @property
    def changes(self) -> str:
        """What it may change on this machine, for the user to allow before `prepare`; empty where
        there is nothing to allow."""
        return ""

    @abstractmethod
    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """Makes ready for `tests`, once a run. A text says why none of them can run: they are
        skipped with it. Logs go below `run_dir / "logs"`."""

    @abstractmethod
    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Measures once; the sample as docs/results.md describes it, without `test`, `round`,
        `order` and `started`. Failures are samples too, not exceptions."""

    @abstractmethod
    def clean(self) -> None:
        """Undoes `prepare`; called once whenever `prepare` was, whatever happened since."""


def device_names(devices: str) -> list[str]:
    """The devices that share a stream: `dpu0/cpu+dpu0/dpdk:mlx5_0` are two."""
    return devices.split("+")


def is_emulated(devices: str) -> bool:
    """Whether one of them is emulated."""
    return any(name.startswith("emulated:") for name in device_names(devices))


@dataclass(frozen=True)
class Machine:
    """What can be measured here: asked once, before tests are planned."""

    #: The devices that `overside._core.devices` lists without starting or asking anything.
    devices: Sequence[Json] = ()
    #: What `overside._core.variants()` lists.
    operations: Sequence[Json] = ()
    #: Lists the devices of the other backends, by their prefixes; asked when it matters.
    costly: Mapping[str, Callable[[], Sequence[Json]]] = field(default_factory=dict)

    def agents(self) -> Sequence[Json]:
        """The devices of all agents."""
        return self._listed("*/")

    def _listed(self, prefix: str) -> Sequence[Json]:
        return self.costly[prefix]() if prefix in self.costly else self.devices

    def no_node(self, node: str) -> str | None:
        """Why the agent of that name cannot be used, or `None`."""
        for device in self.agents():
            name = str(device["name"])
            reason = " ".join(str(device.get("unavailable") or "").split())
            if name == "*/*":
                return f"it is not known which agents there are: {reason}"
            if name.startswith(f"{node}/"):
                return f"{node} is not available: {reason}" if name == f"{node}/*" else None
        return self.no_agent(node)

    @staticmethod
    def no_agent(node: str) -> str:
        """That there is no agent of that name."""
        return f"no agent is called {node!r}; `overside agents add {node} HOST:PORT` adds it"

    def nodes(self) -> list[str] | None:
        """The agents there are; `None` where it is not known."""
        names = [str(device["name"]).partition("/")[0] for device in self.agents()]
        return None if "*" in names else list(dict.fromkeys(names))

    def device(self, name: str) -> Json | None:
        """The device of that name, or the entry that says why none of its kind can be had
        (`emulated:*`, where the profiles cannot be read; `dpdk:*`, where there is no DPDK;
        `dpu0/*`, where the agent cannot be reached; `*/*`, where it is not known which there
        are)."""
        node, slash, _ = name.partition("/")
        prefix = "*/" if slash else name.partition(":")[0]
        found = {device["name"]: device for device in self._listed(prefix)}
        kind = f"{node}/*" if slash else f"{prefix}:*"
        return found.get(name) or found.get(kind) or found.get("*/*")
