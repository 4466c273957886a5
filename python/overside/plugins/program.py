"""A plug-in that is one program: JSON on its stdin, JSON lines on its stdout, logs on stderr.

The protocol is described in plugins.md. Nothing here trusts the program: every violation becomes a
failed sample that names it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from overside import strict_json
from overside.plugins.description import NUMBER_MAX, PROTOCOL, describe_problems, is_number
from overside.plugins.task import PluginTask, printable
from overside.processes import Limits
from overside.tasks.common import Json, Metric, Parameter

if TYPE_CHECKING:
    from overside.tasks.common import Test

DESCRIBE_TIMEOUT_S = 10.0
PREPARE_TIMEOUT_S = 1800.0
REPORT_TIMEOUT_S = 300.0
#: Bounds on a program's answer.
LINE_BYTES_MAX = 1 << 20
LINES_MAX = 100_000

_ERROR_KINDS = ("verification", "job", "lost", "data", "plugin")
_SAMPLE_KEYS = {"metrics", "work", "elapsed_ns", "check", "cpu"}


class ProtocolError(Exception):
    """Violation of the protocol by a plug-in's program; `kind` is that of the sample's error."""

    def __init__(self, message: str, kind: str = "plugin") -> None:
        super().__init__(message)
        self.kind = kind


class ProgramPlugin(PluginTask):
    """A plug-in that answers `describe | prepare | run | report | clean`."""

    def __init__(self, program: Path, name: str) -> None:
        super().__init__(program.parent, name)
        self.program = program.resolve()
        self.verifies = False
        self.declared_changes: list[str] = []
        self._samples: list[Json] = []
        try:
            self._take(self.describe())
        except ProtocolError as error:
            # The box stays valid: the tests of this plug-in fail and say so, the others run.
            self.failure = str(error)
            self.is_open = True

    def describe(self) -> Json:
        """Asks the program for its description. Raises `ProtocolError`."""
        lines = self._ask("describe", {}, DESCRIBE_TIMEOUT_S, cwd=self.folder)
        if len(lines) != 1:
            _bad(f"answered describe with {len(lines)} lines; it must be one")
        return lines[0]

    def _take(self, about: Json) -> None:
        problems = describe_problems(about, self.name)
        if problems:
            _bad(f"describes itself wrongly: {'; '.join(problems[:5])}")
        self.description = about["description"]
        self.parameters = {
            name: Parameter(
                entry["type"],
                entry.get("description", ""),
                entry.get("default"),
                entry.get("unit", ""),
                tuple(entry.get("choices", ())),
                entry.get("minimum"),
                entry.get("maximum"),
            )
            for name, entry in about["parameters"].items()
        }
        # A plug-in's metric carries its name: two plug-ins may mean different things by `rate`.
        self.metrics = {
            f"{self.name}.{name}": Metric(
                entry.get("unit", ""), entry.get("better", ""), entry.get("description", "")
            )
            for name, entry in about["metrics"].items()
        }
        self.verifies = about.get("verifies", False)
        self.verified = self.verifies and all(m.unit and m.better for m in self.metrics.values())
        self.declared_changes = list(about.get("changes_system", []))
        self.timeout_s = float(about.get("timeout_s", self.timeout_s))

    @property
    def changes(self) -> str:
        """See `ExternalTask`: the changes that it declares. In a sandbox it can change nothing."""
        return "" if self.is_confined else "; ".join(self.declared_changes)

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """See `ExternalTask`."""
        if self.failure:
            return None
        self.start(run_dir)
        if self.failure:
            return None
        request = {"tests": self.tests_of(tests)}
        try:
            for line in self._ask("prepare", request, PREPARE_TIMEOUT_S, keep_children=True):
                if "skip" in line:
                    return printable(str(line["skip"])[:4000])
                if "error" in line:
                    kind, message = _error(line["error"])
                    _bad(f"could not prepare ({kind}): {message}")
        except ProtocolError as error:
            self.failure = str(error)
        return None

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """See `ExternalTask`."""
        if self.failure:
            return self.failed(self.failure)
        request = {
            **self.tests_of([test])[0],
            "round": round_number,
            "timeout_s": timeout_s,
        }
        try:
            sample = self._sample(self._ask("run", request, timeout_s))
        except ProtocolError as error:
            sample = self.failed(str(error), error.kind)
        self._samples.append(
            {
                **self.tests_of([test])[0],
                "round": round_number,
                "status": sample["status"],
                "metrics": {
                    name.removeprefix(f"{self.name}."): value
                    for name, value in sample["metrics"].items()
                },
            }
        )
        return sample

    def clean(self) -> None:
        """See `ExternalTask`. Asks for the plug-in's own report first."""
        if not self.started:
            return
        try:
            for verb, request in (("report", {"samples": self._samples}), ("clean", {})):
                if verb == "report" and not self._samples:
                    continue
                try:
                    lines = self._ask(verb, request, REPORT_TIMEOUT_S)
                    self._note(verb, lines)
                except (ProtocolError, OSError) as error:
                    self.log.write(f"overside: plug-in {self.name} {error}\n".encode())
        finally:
            self.end_kept()
            self.close()

    def _note(self, verb: str, lines: Sequence[Json]) -> None:
        """Keeps the plug-in's messages to the reader."""
        notes = [str(line["note"]) for line in lines if "note" in line]
        if notes:
            text = "".join(f"{note}\n" for note in notes)
            (self.work / f"{verb}.txt").write_text(text, "utf-8", "replace")

    def _ask(
        self,
        verb: str,
        request: Mapping[str, Any],
        timeout_s: float,
        *,
        cwd: Path | None = None,
        keep_children: bool = False,
    ) -> list[Json]:
        """Runs the program with a verb; its answer, one object a line."""
        self.log.write(f"--- {verb} {request.get('test', '')}\n".encode())
        body = {"plugin": PROTOCOL, "verb": verb, "work_dir": str(self.work), **request}
        outcome = self.call(
            [str(self.program), verb],
            Limits(timeout_s, linger_s=2.0),
            cwd=cwd or self.work,
            stdin=json.dumps(body).encode(),
            keep_children=keep_children,
        )
        fault = self.fault(outcome, f"({verb})")
        kind = "timeout" if outcome.fault == "timeout" else "plugin"
        # An error that the program explains says more than its exit status.
        try:
            lines = read_lines(outcome.stdout)
        except ProtocolError as error:
            raise ProtocolError(fault or f"({verb}) {error}", kind) from None
        if fault and not any("error" in line or "skip" in line for line in lines):
            raise ProtocolError(fault, kind)
        if outcome.left_behind and not fault:
            names = ", ".join(sorted(set(outcome.left_behind)))[:200]
            _bad(f"({verb}): left processes running ({names}), which were ended")
        return lines

    def _sample(self, lines: Sequence[Json]) -> Json:
        """One sample from the repetitions of one call: medians, for they are no rounds."""
        repetitions = []
        for number, line in enumerate(lines, 1):
            if "skip" in line:
                return self.skipped(str(line["skip"]))
            if "error" in line:
                kind, message = _error(line["error"])
                return self.failed(f"reports: {message}", kind)
            check = self._check_repetition(line, f"line {number}")
            if check is not None and not check["ok"]:
                said = ": ".join(str(check[k]) for k in ("method", "value") if check.get(k))
                message = f"found a wrong result (line {number})"
                return self.failed(f"{message}: {said}" if said else message, "verification")
            repetitions.append(line)
        if not repetitions:
            _bad("answered run with nothing; it must print one JSON object for each repetition")
        values: dict[str, list[float]] = {}
        for line in repetitions:
            for name, value in line["metrics"].items():
                values.setdefault(f"{self.name}.{name}", []).append(value)
        more: Json = {}
        works = [line["work"] for line in repetitions if "work" in line]
        if works:
            keys = sorted({key for work in works for key in work})
            more["work"] = {key: sum(work.get(key, 0) for work in works) for key in keys}
        elapsed = [line["elapsed_ns"] for line in repetitions if "elapsed_ns" in line]
        if elapsed:
            more["elapsed_ns"] = int(sum(elapsed))
        cpu_s = [line["cpu"]["host_s"] for line in repetitions if "cpu" in line]
        if cpu_s:
            more["cpu"] = {"host_s": sum(cpu_s)}
        checks = [line["check"] for line in repetitions if "check" in line]
        if checks:
            more["check"] = {
                "method": checks[-1].get("method", "by the plug-in"),
                "value": checks[-1].get("value", ""),
                "buffers": len(checks),
            }
        return self.ok({name: statistics.median(v) for name, v in values.items()}, **more)

    def _check_repetition(self, line: Json, where: str) -> Json | None:
        """Raises `ProtocolError` unless the line is a repetition; returns its check."""
        unknown = sorted(set(line) - _SAMPLE_KEYS)
        if unknown:
            _bad(f"({where}) has the unknown key {unknown[0]!r}")
        metrics = line.get("metrics")
        if not isinstance(metrics, dict) or not metrics:
            _bad(f"({where}) has no metrics")
        for name, value in metrics.items():
            if f"{self.name}.{name}" not in self.metrics:
                _bad(f"({where}) has the metric {name!r}, which describe does not name")
            if not is_number(value):
                what = f"which is not a number up to {NUMBER_MAX:g}"
                _bad(f"({where}) gives {name} as {value!r}, {what}")
        _check_amounts(line, where)
        check = line.get("check")
        if check is None:
            if self.verifies:
                _bad(f"({where}) has no check, though describe says that it verifies its results")
            return None
        if not isinstance(check, dict) or not isinstance(check.get("ok"), bool):
            _bad(f'({where}): check must be an object with "ok": true or false')
        return dict(check)


def _check_amounts(line: Json, where: str) -> None:
    """Raises `ProtocolError` unless work, cpu and elapsed_ns are amounts where they are given."""
    for key, allowed in (("work", {"jobs", "bytes", "compressed_bytes"}), ("cpu", {"host_s"})):
        entry = line.get(key)
        if entry is None and key not in line:
            continue
        if (
            not isinstance(entry, dict)
            or not entry
            or set(entry) - allowed
            or not all(is_number(value) and value >= 0 for value in entry.values())
        ):
            _bad(
                f"({where}): {key} must be an object of {', '.join(sorted(allowed))}, "
                "each a number that is not negative"
            )
    elapsed = line.get("elapsed_ns", 0)
    if not is_number(elapsed) or elapsed < 0:
        _bad(f"({where}): elapsed_ns must be a number of nanoseconds")


def read_lines(output: bytes) -> list[Json]:
    """JSON lines; raises `ProtocolError` that names the first line that is none."""
    lines = []
    for number, raw in enumerate(output.split(b"\n"), 1):
        if not raw.strip():
            continue
        if number > LINES_MAX:
            _bad(f"printed more than {LINES_MAX} lines")
        if len(raw) > LINE_BYTES_MAX:
            _bad(f"line {number} is longer than {LINE_BYTES_MAX >> 20} MiB")
        try:
            line = strict_json.loads(raw)
        except UnicodeDecodeError:
            _bad(f"line {number} of its output is not UTF-8; logs belong on stderr")
        except ValueError as error:
            shown = raw[:60].decode("utf-8", "replace")
            _bad(
                f"line {number} of its output is not JSON ({shown!r}): {error}; "
                "logs belong on stderr"
            )
        if not isinstance(line, dict):
            _bad(f"line {number} of its output is not a JSON object")
        lines.append(line)
    return lines


def _error(error: object) -> tuple[str, str]:
    """Kind and message of an error that the program reports."""
    if not isinstance(error, dict):
        return "plugin", str(error)[:2000]
    kind = error.get("kind")
    return kind if kind in _ERROR_KINDS else "plugin", str(error.get("message", ""))[:2000]


def _bad(message: str) -> NoReturn:
    raise ProtocolError(message)
