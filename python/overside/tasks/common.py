"""Tasks: the declarations that every task makes, and the base of the built-in ones."""

from __future__ import annotations

import functools
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside import _core

if TYPE_CHECKING:
    from overside.data import DataSet

#: Type that `json` returns for a JSON object.
Json = dict[str, Any]
#: The node that this machine is.
LOCAL = "local"
#: The cores of the machine that measures, as a number of threads.
ALL = "all"
#: Parameters that are compared: tests that differ in no others are shown side by side.
COMPARED = (
    *("device", "variant", "threads", "cores", "timing", "placement", "pages", "mode"),
    *("source", "destination", "node"),
    *("server", "protocol", "design", "load_from", "link_batch", "overlap", "send"),
)
#: Parameters that are compared between placements: also those that belong to one target only.
_COMPARED_PLACEMENTS = (*COMPARED, "depth", "cpu_variant")
#: Answers whether the action in the text may be done; asked once a run.
Consent = Callable[[str], bool]


@dataclass
class Test:
    """One point of a task's parameters."""

    __test__ = False  # not a test of pytest

    id: str
    task: str
    parameters: Json
    #: The metrics that the box asked for, the one that decides about further rounds first.
    metrics: list[str]
    block: int = 0
    #: `planned` or `skipped`.
    status: str = "planned"
    reason: str | None = None
    verified: bool = True
    #: The machine that measures it.
    node: str = LOCAL
    #: Reason why a planned test may still be skipped, once its data are known. Not in a manifest,
    #: since the test's samples have the outcome.
    doubt: str | None = None

    def json(self) -> Json:
        """Returns the test in the form of a run's manifest."""
        left_out = {"doubt"} if self.reason is not None else {"doubt", "reason"}
        return {name: value for name, value in vars(self).items() if name not in left_out}

    @classmethod
    def from_json(cls, entry: Json) -> Test:
        """From a run's manifest."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in entry.items() if name in known})

    @property
    def group(self) -> str:
        """The same for tests that are compared with each other."""
        compared = _COMPARED_PLACEMENTS if self.parameters.get("placement") else COMPARED
        rest = {k: v for k, v in self.parameters.items() if k not in compared}
        return f"{self.task} {_canonical(rest)}"


def test_id(task: str, parameters: Json) -> str:
    """Names a test by what it measures: the same in every run on every machine.

    A parameter that is null is as good as absent.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    digest = hashlib.sha256(f"{task}\n{_canonical(given)}".encode()).hexdigest()
    return f"{task}/{digest[:12]}"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@functools.cache
def declarations() -> Mapping[str, Json]:
    """Returns the declarations of the built-in tasks, by name.

    They are made in Rust, in crates/measure/measure/src/tasks.
    """
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
    """The operation of a built-in task's jobs, as profiles and devices call it; `None` for tests
    other than jobs on a device."""
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
    """Returns the rules by which tests of a task are grouped, titled and drawn.

    A plug-in declares none, so its parameters are treated as those of the built-in tasks.
    """
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
    #: Kind of name that the text is: `device`, `variant`, `data`, `node`, `placement`, `patterns`
    #: or none.
    refers_to: str | None = None
    #: Links that may stand for a device, by themselves or after an agent's name.
    links: tuple[str, ...] = ()
    #: Emulated cards that run no jobs and may be given all the same.
    cards: tuple[str, ...] = ()

    @staticmethod
    def declared(form: Json) -> Parameter:
        """Returns a parameter of a built-in task."""
        fields = {name: value for name, value in form.items() if name != "name"}
        choices = tuple(choice["name"] for choice in form["choices"])
        lists = {name: tuple(form[name]) for name in ("links", "cards", "words")}
        return Parameter(**fields | lists | {"choices": choices})


@dataclass(frozen=True)
class Metric:
    """One figure that a task gives."""

    unit: str
    #: `higher` or `lower`.
    better: str
    description: str

    def json(self) -> Json:
        """Returns the metric in the form of a run's manifest."""
        return {"unit": self.unit, "better": self.better, "description": self.description}


class Task(ABC):
    """Base class of all tasks: the built-in ones and the plug-ins."""

    #: The name that boxes use.
    name: str
    #: One line for people.
    description: str
    #: Parameters of the task, in the order in which they are shown.
    parameters: Mapping[str, Parameter]
    #: Metrics of the task; the first one decides if a box asks for none.
    metrics: Mapping[str, Metric]
    #: `True` if results are checked. Unchecked results enter no advice and no verdict.
    verified: bool = True
    #: Reason why the task takes no `node`; empty: it takes one, or is a plug-in.
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
        """The parameters with the defaults filled in, and without parameters that have no effect on
        this test: two points that become equal are one test."""
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        return defaults | parameters

    @property
    def takes_node(self) -> bool:
        """Returns `True` if a test may be for another node than this machine."""
        parameter = self.parameters.get("node")
        return parameter is not None and parameter.refers_to == "node"

    def no_node(self, parameters: Json, node: str, machine: Machine) -> str | None:
        """Returns the reason why a test cannot be for the agent `node`; `None` if none is known.

        `parameters` are from `normal`.
        """
        del parameters
        return machine.no_node(node)

    def unavailable(self, parameters: Json, machine: Machine) -> str | None:
        """Returns the reason why a test cannot run on this machine; `None` if it can.

        `parameters` are from `normal`.
        """
        del parameters, machine
        return None

    def doubt(self, parameters: Json, machine: Machine) -> str | None:
        """Returns the reason why a test may become unavailable once its data are known.

        `None` if there is no such reason. `parameters` are from `normal`.
        """
        del parameters, machine
        return None


class MeasuredTask(Task):
    """A task that the measuring loop runs in a worker process."""

    #: Longest time of a sample in seconds, without its timed parts and the reading of its data.
    beside_s: float = 60.0
    #: Usual time of a sample in seconds without its timed parts, for estimates: measured on a
    #: machine with two cores.
    extra_s: float = 0.01

    def __init__(self, name: str) -> None:
        self.declare(name)

    def test(self, parameters: Json) -> Json:
        """The test as `overside._core.Worker.measure` takes it; `kind` is its kind
        (crates/measure/measure/src/tasks), without it jobs on a device. Of the data, where it
        has some, it gives the name and `sample_bytes`; the runner adds the files, the times and
        the seed."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return {"kind": self.name, **given}

    def timed_s(self, parameters: Json, sample_s: float) -> float:
        """Returns the seconds of the timed parts of a sample, if the box asks for `sample_s`."""
        del parameters
        return sample_s

    def out_of_bounds(self, parameters: Json, times: Mapping[str, float]) -> str | None:
        """Returns the reason why a test exceeds its bounds; `None` if it does not.

        `times` are the box's `warmup_s` and `sample_s`. `parameters` are from `normal`.
        """
        del parameters, times
        return None

    def data_name(self, parameters: Json) -> str | None:
        """Returns the name of a test's data, as `test` gives it; `None` if it has no data."""
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

    #: Longest time of one sample in seconds.
    timeout_s: float = 600.0
    #: Reason why every sample fails; if there is one, no program is run.
    failure: str | None = None

    def sample_s(self, parameters: Json) -> float | None:
        """About how many seconds a sample takes; `None`: as long as the box measures."""
        del parameters
        return None

    @property
    def changes(self) -> str:
        """Changes that it may make to this machine, which the user must allow before `prepare`.

        Empty if it makes none.
        """
        return ""

    @abstractmethod
    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """Makes ready for `tests`, once a run. Returns the reason if none of them can run: they are
        skipped with it. Logs go below `run_dir / "logs"`."""

    @abstractmethod
    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """Measures once; the sample as results.md describes it, without `test`, `round`,
        `order` and `started`. Failures are samples too, not exceptions."""

    @abstractmethod
    def clean(self) -> None:
        """Undoes `prepare`; called once whenever `prepare` was, whatever happened since."""


def restores(operation: str) -> bool:
    """Returns `True` if the operation undoes another one, as decompression does."""
    return bool(presentation(operation.partition("-")[0])["restores"])


def device_names(devices: str) -> list[str]:
    """The devices that share a stream: `dpu0/cpu+dpu0/dpdk:mlx5_0` are two."""
    return devices.split("+")


def is_emulated(devices: str) -> bool:
    """Returns `True` if one of the devices is emulated."""
    return any(name.startswith("emulated:") for name in device_names(devices))


@dataclass(frozen=True)
class Machine:
    """Devices and operations of this machine, listed once before tests are planned."""

    #: The devices that `overside._core.devices` lists without starting or asking anything.
    devices: Sequence[Json] = ()
    #: Operations that `overside._core.variants()` lists.
    operations: Sequence[Json] = ()
    #: Lists the devices of the other backends, by their prefixes; asked when it matters.
    costly: Mapping[str, Callable[[], Sequence[Json]]] = field(default_factory=dict)

    def agents(self) -> Sequence[Json]:
        """The devices of all agents."""
        return self._listed("*/")

    def _listed(self, prefix: str) -> Sequence[Json]:
        return self.costly[prefix]() if prefix in self.costly else self.devices

    def no_node(self, node: str) -> str | None:
        """Returns the reason why the agent `node` cannot be used; `None` if it can."""
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
        """Returns the message that there is no agent of that name."""
        return f"no agent is called {node!r}; `overside agents add {node} HOST:PORT` adds it"

    def nodes(self) -> list[str] | None:
        """The agents there are; `None` where it is not known."""
        names = [str(device["name"]).partition("/")[0] for device in self.agents()]
        return None if "*" in names else list(dict.fromkeys(names))

    def device(self, name: str) -> Json | None:
        """The device of that name, or the entry with the reason why none of its kind is available
        (`emulated:*`, where the profiles cannot be read; `dpdk:*`, where there is no DPDK;
        `dpu0/*`, where the agent cannot be reached; `*/*`, where it is not known which there
        are)."""
        node, slash, _ = name.partition("/")
        prefix = "*/" if slash else name.partition(":")[0]
        found = {device["name"]: device for device in self._listed(prefix)}
        kind = f"{node}/*" if slash else f"{prefix}:*"
        return found.get(name) or found.get(kind) or found.get("*/*")
