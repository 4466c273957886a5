"""Base of both kinds of plug-in: their folders, their limits, and their failures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.errors import UserError, require_utf8
from overside.plugins import orphans, sandbox
from overside.plugins.orphans import Log
from overside.processes import Limits, Outcome
from overside.tasks.common import ExternalTask, Json, Metric

if TYPE_CHECKING:
    from overside.tasks.common import Test


def printable(text: str) -> str:
    """A plug-in's text without control sequences for a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


class PluginTask(ExternalTask):
    """A plug-in of either kind."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder.resolve()
        #: Topmost folder that it needs to read.
        self.root = self.folder
        self.description = printable(f"plug-in in {self.folder}")
        self.parameters = {}
        self.metrics: dict[str, Metric] = {}
        self.verified = False
        #: Reason why every sample fails: the plug-in is broken, or its `prepare` failed.
        self.failure: str | None = None
        #: `True` if it runs in a sandbox.
        self.is_confined = sandbox.is_wanted()
        self.work = Path()
        #: `prepare` got as far as running something: `clean` has something to do.
        self.started = False
        self._log: Log | None = None
        self._kept: set[int] = set()
        self._warnings: list[Json] = []

    @property
    def log(self) -> Log:
        """Log of the plug-in's output; before a run its content is discarded."""
        if self._log is None:
            self._log = Log(Path(os.devnull))
        return self._log

    def start(self, run_dir: Path) -> None:
        """Makes the places that the plug-in works in."""
        self.close()
        self.work = run_dir.resolve() / "plugins" / self.name
        try:
            require_utf8(self.folder)
            require_utf8(self.work)
            self.work.mkdir(parents=True, exist_ok=True)
            self._log = Log(run_dir / "logs" / f"plugin-{self.name}.log")
        except (OSError, UserError) as error:
            self.failure = f"has no place to work in: {error}"
            return
        self.started = True

    def writable(self) -> list[Path]:
        """Returns the folders to which its programs may write in a sandbox."""
        return [self.work] if self.started else []

    def environment(self) -> dict[str, str]:
        """The environment of its programs."""
        return {
            **os.environ,
            "OVERSIDE_WORK": str(self.work),
            # Pip must not write into the system's Python, nor into ours.
            "PIP_REQUIRE_VIRTUALENV": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def call(
        self,
        argv: Sequence[str],
        limits: Limits,
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        log_stdout: bool = False,
        keep_children: bool = False,
    ) -> Outcome:
        """Runs one of its programs, in a sandbox if that is wanted. Processes that `keep_children`
        leaves running, a server perhaps, live until `end_kept`."""
        if self.is_confined:
            argv = sandbox.command(argv, cwd=cwd, visible=[self.root], writable=self.writable())
        if self.started:
            try:
                # It may have removed it.
                self.work.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                return Outcome(None, fault="start", message=f"has no place to work in: {error}")
        outcome = orphans.run(
            argv,
            limits,
            cwd=cwd,
            log=self.log,
            env=self.environment() if env is None else env,
            stdin=stdin,
            log_stdout=log_stdout,
            keep_children=keep_children,
        )
        if self.is_confined and outcome.status is not None:
            outcome.status = sandbox.status(outcome.status)
            # Whatever is still there is the sandbox, which ends with all that is in it.
            outcome.left_behind = []
        self._kept |= outcome.kept
        return outcome

    def end_kept(self) -> None:
        """Ends the programs that `prepare` left running."""
        orphans.end_children(self._kept)
        self._kept = set()

    def close(self) -> None:
        """Ends the programs that `start` began."""
        self.started = False
        if self._log is not None:
            self._log.close()
            self._log = None

    def warn(self, message: str, remedy: str) -> None:
        """Says something with the next sample."""
        self._warnings.append({"kind": "plugin", "message": message, "remedy": remedy})

    def _common(self) -> Json:
        warnings, self._warnings = self._warnings, []
        applied = {
            "device": "plugin",
            "driver": self.name,
            "variant": "",
            "library": printable(str(self.folder)),
            "provenance": "measured",
        }
        return {
            "provenance": "measured",
            "timing": "real",
            "applied": applied,
            "warnings": warnings,
        }

    def ok(self, metrics: dict[str, float], **more: object) -> Json:
        """A sample that succeeded."""
        return {"status": "ok", **self._common(), "metrics": metrics, **more}

    def failed(self, message: str, kind: str = "plugin") -> Json:
        """A failed sample; the message names the plug-in's error."""
        text = f"plug-in {self.name} {message}"
        return {
            "status": "failed",
            "error": {"kind": kind, "message": printable(text[:4000])},
            **self._common(),
            "metrics": {},
        }

    def skipped(self, reason: str) -> Json:
        """A sample that the plug-in declined."""
        return {
            "status": "skipped",
            "reason": printable(reason[:4000]),
            **self._common(),
            "metrics": {},
        }

    def fault(self, outcome: Outcome, what: str) -> str | None:
        """Returns the failure of a program and the log to read; `None` if it ended well."""
        message = outcome.failure
        if message is None:
            return None
        last = outcome.stderr_tail.strip().splitlines()[-1:]
        said = f"; it said: {last[0][:300]}" if last else ""
        log = self.log.path
        where = "" if log == Path(os.devnull) else f" (see logs/{log.name})"
        return f"{what}: {message}{said}{where}"

    def tests_of(self, tests: Sequence[Test]) -> list[Json]:
        """Tests as a plug-in sees them; parameters without a value are left out."""
        return [
            {
                "test": test.id,
                "parameters": {n: v for n, v in test.parameters.items() if v is not None},
            }
            for test in tests
        ]
