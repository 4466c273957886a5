"""The run itself: rounds of blocks of tests, each sample stored as it comes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from overside.bench import launch, modes, plan, statistics, store
from overside.bench.guard import RunGuard
from overside.bench.interrupts import Interrupts
from overside.bench.launch import Launch
from overside.bench.process import WorkerFailure, WorkerProcess
from overside.bench.progress import Progress
from overside.bench.schedule import Schedule
from overside.errors import Exit, as_user_error
from overside.processes import ProcessError
from overside.tasks.common import LOCAL, Consent, ExternalTask, Json, MeasuredTask, Test

_log = logging.getLogger(__name__)

#: Additional time that a sample may take for each byte of its data or its buffer, in seconds.
TIMEOUT_S_PER_BYTE = 4e-6

#: State of a run by the reason for which it ended before it was done.
_STATES = {"max_s reached": "incomplete", "disk full": "incomplete", "interrupted": "interrupted"}


#: Reason for skipping the tests of a plug-in that the user did not allow to run.
_NOT_ALLOWED = (
    "it may change this system, and nobody allowed that: --allow-scripts does, --sandbox keeps it "
    "from changing anything"
)


class _StopError(Exception):
    """Measuring ends before all is done; the text is the reason as the manifest has it."""


class Runner:
    """Takes the samples that a run still lacks."""

    def __init__(
        self,
        begun: Launch,
        *,
        quiet: bool,
        as_json_lines: bool = False,
        max_s: float | None = None,
        consent: Consent = lambda _: False,
        strict: bool = False,
        card_mode: str | None = None,
    ) -> None:
        """`as_json_lines`: events go to stdout, for programs. `max_s` overrides the box's;
        `strict`: a test whose emulated timing is invalid decides about the exit code;
        `card_mode`: the way through the card, where it cannot be seen from here."""
        self._begun = begun
        self._run = begun.run
        self._measure = begun.measure
        self._max_s = max_s or begun.measure.max_s
        self._consent = consent
        self._strict = strict
        #: Fields that every sample of this process has.
        mode = card_mode or modes.card_mode(modes.look())
        self._conditions: Json = {} if mode is None else {"card_mode": mode}
        manifest = begun.run.manifest
        self._seed: int = manifest["seed"]
        self._tests = [Test.from_json(entry) for entry in manifest["tests"]]
        self.schedule = Schedule(self._tests, begun.measure)
        for sample in store.read_samples(begun.run.path):
            self.schedule.note(sample)
        taken, missing = self.schedule.taken(), self.schedule.missing()
        self._progress = Progress(taken + missing, taken, quiet, as_json_lines=as_json_lines)
        self._progress.event(
            "started",
            path=str(begun.run.path),
            tests=len(self._tests),
            done=taken,
            total=taken + missing,
        )
        self._prepared: list[ExternalTask] = []
        self._guard = RunGuard(begun.run)
        self._deadline = 0.0
        #: Message for users about a failure of the disk; empty if there was none.
        self.disk_error = ""

    def run(self) -> Exit:
        """Measures until all is done, the time is up, the disk is full, or it is interrupted, and
        writes the final files. Whatever happens, plug-ins are cleaned up after."""
        self._deadline = time.monotonic() + self._max_s
        planned_done = False
        try:
            with Interrupts() as interrupts:
                try:
                    self._prepare(interrupts)
                    for number in range(self._measure.rounds):
                        self._round(number, self.schedule.due(number), interrupts)
                    planned_done = True
                    reason = self._further_rounds(interrupts)
                except _StopError as stop:
                    reason = str(stop)
                finally:
                    self._clean()
        finally:
            self._progress.close()
        code = self._conclude(reason, planned_done)
        launch.conclude(self._run)
        manifest = self._run.manifest
        ended = {key: manifest[key] for key in ("state", "counts", "rounds", "exit_code")}
        self._progress.event("ended", path=str(self._run.path), **ended)
        return code

    def _conclude(self, reason: str, planned_done: bool) -> Exit:
        state = _STATES.get(reason, "complete")
        if reason == "max_s reached" and planned_done:
            state = "complete"
        full = self.schedule.full_rounds
        manifest = self._run.manifest
        manifest["tests"] = [test.json() for test in self._tests]
        counts = statistics.counts(statistics.load_tests(self._run.path, manifest))
        code = self._exit_code(state, counts)
        manifest |= {
            "metrics": self._metrics(),
            "counts": counts,
            "state": state,
            "ended": store.now(),
            "exit_code": int(code),
            "rounds": {
                "done": min(full, self._measure.rounds),
                "planned": self._measure.rounds,
                "most": self.schedule.most_rounds,
                "reason": reason,
            },
        }
        return code

    def _metrics(self) -> Json:
        """The manifest's, with those that some plug-ins name only when they measure."""
        known = dict(self._run.manifest["metrics"])
        for task in self._prepared:
            store.add_metrics(known, task)
        return known

    def _exit_code(self, state: str, counts: Mapping[str, int]) -> Exit:
        """Returns the exit code of the run; failures outweigh missing samples.

        docs/exit-codes.md has the rules.
        """
        if state == "interrupted":
            return Exit.INTERRUPTED
        if "verification" in self.schedule.failures:
            return Exit.VERIFICATION_FAILED
        if self.schedule.failures:
            return Exit.TEST_FAILED
        if state == "incomplete":
            return Exit.INCOMPLETE
        if counts["invalid"] and (self._strict or not counts["ok"]):
            return Exit.INVALID_TIMING
        return Exit.OK if counts["ok"] else Exit.ABSENT

    def _further_rounds(self, interrupts: Interrupts) -> str:
        """Adds rounds where intervals are wide; returns why it ended."""
        while True:
            tests, reason = self.schedule.further(self._deadline - time.monotonic())
            if not tests:
                return reason
            self._round(self.schedule.next_round, tests, interrupts)

    def _round(self, number: int, tests: Sequence[Test], interrupts: Interrupts) -> None:
        self._progress.round(number, len(tests))
        order = 0
        for block in plan.blocks(tests):
            task = self._begun.tasks[block[0].task]
            if isinstance(task, ExternalTask):
                self._external_block(task, number, order, block, interrupts)
            elif isinstance(task, MeasuredTask):
                self._measured_block(task, number, order, block, interrupts)
            order += len(block)

    def _measured_block(
        self,
        task: MeasuredTask,
        number: int,
        order: int,
        block: Sequence[Test],
        interrupts: Interrupts,
    ) -> None:
        """Runs a block in a fresh process; in another one after each test that breaks it."""
        log = self._run.path / "logs" / f"worker-round{number}-block{block[0].block}.log"
        worker: WorkerProcess | None = None
        try:
            for place, test in enumerate(block, order):
                self._check_time(interrupts)
                prefix = tuple(task.worker_prefix(test.parameters) if test.node == LOCAL else ())
                if worker is not None and worker.prefix != prefix:
                    worker.close()
                    worker = None
                if worker is None:
                    worker = self._start(log, prefix)
                head, begin = _head(test, number, place), time.monotonic()
                self._progress.begin(test)
                request = self._request(task, test)
                reply = worker.measure(request, request["timeout_s"], self._deadline, interrupts.fd)
                if isinstance(reply, WorkerFailure):
                    worker.close()
                    worker = None
                    reply = self._failure(reply)
                self._store(test, head | reply, begin)
        finally:
            if worker is not None:
                worker.close()

    def _start(self, log: Path, prefix: Sequence[str]) -> WorkerProcess:
        try:
            with as_user_error("", ProcessError, code=Exit.ABSENT):
                return WorkerProcess(log, prefix)
        except OSError as error:
            raise self._disk(error) from None

    def _request(self, task: MeasuredTask, test: Test) -> Json:
        """The test as the worker takes it: the files where the task has data, and the times."""
        request = task.test({k: v for k, v in test.parameters.items() if k != "node"})
        if test.node != LOCAL:
            request["node"] = test.node
        largest = 0
        for part in (request, request.get("beside") or {}):
            largest = max(largest, part.get("buffer_size", 0))
            if "data" in part:
                data = part["data"]
                largest = max(largest, data["sample_bytes"])
                files = self._begun.data[data["name"]]
                data["files"] = [str(path) for path in files]
                if test.node != LOCAL or "node" in part:
                    # All of it may have to be sent.
                    largest = max(largest, _bytes(files))
        return request | {
            "warmup_s": self._measure.warmup_s,
            "sample_s": self._measure.sample_s,
            "timeout_s": task.beside_s
            + self._measure.warmup_s
            + task.timed_s(test.parameters, self._measure.sample_s)
            + largest * TIMEOUT_S_PER_BYTE,
            "seed": self._seed,
        }

    @staticmethod
    def _failure(ended: WorkerFailure) -> Json:
        _log.info("a worker gave no sample: %s: %s", ended.why, ended.message)
        if ended.why == "time":
            raise _StopError("max_s reached")
        if ended.why == "interrupt":
            raise _StopError("interrupted")
        error = {"kind": ended.why, "message": ended.message}
        return {"status": "failed", "error": error, "warnings": []}

    def _external_block(
        self,
        task: ExternalTask,
        number: int,
        order: int,
        block: Sequence[Test],
        interrupts: Interrupts,
    ) -> None:
        for place, test in enumerate(block, order):
            self._check_time(interrupts)
            head, begin = _head(test, number, place), time.monotonic()
            self._progress.begin(test)
            left = self._deadline - begin
            timeout_s = min(task.timeout_s, left)
            try:
                with self._guard.watching() as changed, interrupts.raising():
                    sample = task.sample(test, number, timeout_s)
            except KeyboardInterrupt:
                raise _StopError("interrupted") from None
            except OSError as error:
                raise self._disk(error) from None
            if changed:
                sample |= _spoiled(task, changed)
            kind = (sample.get("error") or {}).get("kind")
            if kind == "timeout" and timeout_s == left:
                # The run's time was up, not the plug-in's.
                raise _StopError("max_s reached")
            self._store(test, head | sample, begin)

    def _prepare(self, interrupts: Interrupts) -> None:
        """Makes the plug-ins ready that have something to do."""
        waiting: dict[str, list[Test]] = {}
        for test in self._tests:
            if not self.schedule.is_over(test):
                waiting.setdefault(test.task, []).append(test)
        tasks = {name: self._begun.tasks[name] for name in waiting}
        external = {name: task for name, task in tasks.items() if isinstance(task, ExternalTask)}
        changes = {name: task.changes for name, task in external.items() if task.changes}
        try:
            with interrupts.raising():
                is_allowed = not changes or self._consent(
                    "".join(f"{name}: {about}\n" for name, about in changes.items())
                )
            for name, task in external.items():
                self._check_time(interrupts)
                reason: str | None = _NOT_ALLOWED
                if is_allowed or name not in changes:
                    self._prepared.append(task)
                    reason = self._prepared_by(task, waiting[name], interrupts)
                if reason is not None:
                    self._skip(waiting[name], reason)
        except KeyboardInterrupt:
            raise _StopError("interrupted") from None

    def _prepared_by(
        self, task: ExternalTask, tests: Sequence[Test], interrupts: Interrupts
    ) -> str | None:
        try:
            with self._guard.watching() as changed, interrupts.raising():
                reason = task.prepare(self._run.path, tests)
        except OSError as error:
            raise self._disk(error) from None
        if changed:
            task.failure = _meddled(changed)
        return reason

    def _skip(self, tests: Sequence[Test], reason: str) -> None:
        for test in tests:
            test.status, test.reason = "skipped", reason
        self.schedule.drop(tests)

    def _clean(self) -> None:
        with ExitStack() as stack:
            for task in reversed(self._prepared):
                stack.callback(self._cleaned_by, task)

    def _cleaned_by(self, task: ExternalTask) -> None:
        """Cleans after a task. `clean` can no longer spoil figures by changes to the run's files,
        so it also runs where these cannot be watched."""
        cleaned = False
        try:
            with self._guard.watching():
                cleaned = True
                task.clean()
        except OSError as error:
            if not cleaned:
                task.clean()
            self._disk(error)

    def _check_time(self, interrupts: Interrupts) -> None:
        if interrupts.received is not None:
            raise _StopError("interrupted")
        if time.monotonic() >= self._deadline:
            raise _StopError("max_s reached")

    def _store(self, test: Test, sample: Json, begin: float) -> None:
        try:
            self._run.append(sample | self._conditions)
        except OSError as error:
            raise self._disk(error) from None
        self.schedule.note(sample, time.monotonic() - begin)
        is_repeated = sample["status"] == "ok"
        left = 0 if is_repeated else max(0, self._measure.rounds - sample["round"] - 1)
        self._progress.step(test, sample, left)
        if sample["status"] == "failed":
            self._progress.failed(test, sample["error"]["message"])

    def _disk(self, error: OSError) -> _StopError:
        self.disk_error = f"cannot write {self._run.path}: {error.strerror}"
        return _StopError("disk full")


def _meddled(changed: Sequence[str]) -> str:
    return f"changed the run's own files ({', '.join(changed)}), which were put back"


def _spoiled(task: ExternalTask, changed: Sequence[str]) -> Json:
    """Returns the failed sample of a plug-in that changed the run's own files."""
    message = f"plug-in {task.name} {_meddled(changed)}"
    return {"status": "failed", "error": {"kind": "plugin", "message": message}, "metrics": {}}


def _bytes(files: Sequence[Path]) -> int:
    """Returns the total size of the files in bytes.

    A missing file counts as 0; the sample reports it.
    """
    total = 0
    for path in files:
        with suppress(OSError):
            total += path.stat().st_size
    return total


def _head(test: Test, number: int, place: int) -> Json:
    """Returns the fields of a sample that the runner itself fills in."""
    head = {"test": test.id, "round": number, "order": place, "started": store.now()}
    return head if test.node == LOCAL else head | {"node": test.node}
