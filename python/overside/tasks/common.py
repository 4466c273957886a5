"""What every task says about itself, and what the built-in ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: What `json` makes of a JSON object.
Json = dict[str, Any]
#: Answers whether what the text says may be done; asked once a run.
Consent = Callable[[str], bool]


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


def latencies(of: str) -> dict[str, Metric]:
    """What a histogram of latencies tells; `of` says of what."""
    return {
        f"latency_{name}": Metric("µs", "lower", f"{what} {of}")
        for name, what in {
            "mean": "mean",
            "min": "shortest",
            "p50": "median",
            "p90": "90th percentile of the",
            "p99": "99th percentile of the",
            "p999": "99.9th percentile of the",
            "max": "longest",
        }.items()
    }


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
    #: Parameters and metrics that are not listed are allowed too, with any value.
    is_open: bool = False

    def normal(self, parameters: Json) -> Json:
        """The parameters with the defaults filled in, and without what has no effect on this
        test: two points that come out equal are one test."""
        defaults = {name: parameter.default for name, parameter in self.parameters.items()}
        return defaults | parameters

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

    #: What may stand as its `device` though it is none of the devices: links.
    links: tuple[str, ...] = ()
    #: Parameters that name a node: `host`, an agent, or an address with a colon.
    nodes: tuple[str, ...] = ()
    #: How long a sample may take beside its timed parts and what it reads.
    beside_s: float = 60.0

    @abstractmethod
    def test(self, parameters: Json) -> Json:
        """The test as `overside._core.Worker.measure` takes it; `kind` says which of its kinds it
        is (crates/measure/src/kinds), without it jobs on a device. Of the data, where it has some,
        it gives the name and `sample_bytes`; the runner adds the files, the times and the seed."""

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


@dataclass(frozen=True)
class Machine:
    """What can be measured here: asked once, before tests are planned."""

    #: What `overside._core.devices()` lists.
    devices: Sequence[Json] = ()
    #: What `overside._core.variants()` lists.
    operations: Sequence[Json] = ()
    #: What `overside._core.devices_dpdk()` lists, asked when it matters: asking starts DPDK.
    dpdk: Callable[[], Sequence[Json]] = tuple
    #: What `overside._core.devices_agents()` lists, asked when it matters: asking takes a while.
    agents: Callable[[], Sequence[Json]] = tuple

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
        kind = f"{node}/*" if slash else f"{name.partition(':')[0]}:*"
        devices = self.dpdk() if kind == "dpdk:*" else self.agents() if slash else self.devices
        found = {device["name"]: device for device in devices}
        return found.get(name) or found.get(kind) or found.get("*/*")
