"""Plug-ins: programs of other people that a box can name like a built-in task.

There are two kinds. New ones are a program that answers `describe`, `prepare`, `run`, `report`
and `clean` (plugin_program.py; docs/plugins.md). Those of dpBento are a directory with
`prepare.py`, `run.py`, `report.py` and `clean.py` (plugin_scripts.py; docs/dpbento.md). This
module finds them and holds what they share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from overside.bench import bounded, consent
from overside.tasks.common import Consent, ExternalTask, Json, Metric

if TYPE_CHECKING:
    from overside.bench.plan import Test

#: A list of folders like PATH, where plug-ins are looked for after those beside the box.
PATH_VARIABLE = "OVERSIDE_PLUGINS"
#: The program in the directory of a new plug-in.
PROGRAM = "plugin"
#: The scripts in the directory of a dpBento plug-in.
SCRIPTS = ("prepare.py", "run.py", "report.py", "clean.py")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_PARENTS_MAX = 4


def search_paths(box: Path | None = None) -> list[Path]:
    """Where plug-ins are looked for, in order: beside the box, in the folders of
    `OVERSIDE_PLUGINS`, and in the tree of dpBento that the box stands in."""
    paths: list[Path] = []
    if box is not None:
        here = box.resolve().parent
        paths += [here / "plugins", here]
    for word in os.environ.get(PATH_VARIABLE, "").split(os.pathsep):
        if word:
            folder = Path(word).expanduser().resolve()
            paths += [folder, folder / "benchmarks"]
    if box is not None:
        parents = [here, *here.parents][:_PARENTS_MAX]
        paths += [parent / "benchmarks" for parent in parents]
    return list(dict.fromkeys(paths))


def find(name: str, box: Path | None = None) -> PluginTask | None:
    """The first plug-in of that name for a box, or `None`.

    One that is there but broken is found too: its tests fail and say why.
    """
    # A name from a box must not lead out of the folders that are looked in.
    if not _NAME.fullmatch(name):
        return None
    beside = box.resolve().parent if box is not None else None
    for path in search_paths(box):
        found = at(path / name, name)
        if found is None and path != beside and path.name != "benchmarks":
            found = program_at(path / name, name)
        if found is None and path.name == name:
            # A box inside its own plug-in, as `overside plugin new` makes one.
            found = at(path, name)
        if found is not None:
            return found
    return None


def at(folder: Path, name: str) -> PluginTask | None:
    """The plug-in in this folder, under the name that a box calls it."""
    # Both build on this module.
    from overside.bench.plugin_program import ProgramPlugin  # noqa: PLC0415
    from overside.bench.plugin_scripts import ScriptsPlugin  # noqa: PLC0415

    try:
        if (folder / PROGRAM).is_file():
            return ProgramPlugin(folder / PROGRAM, name)
        if all((folder / script).is_file() for script in SCRIPTS):
            return ScriptsPlugin(folder, name)
    except OSError:
        return None
    return None


def program_at(path: Path, name: str) -> PluginTask | None:
    """The plug-in that is a single executable file. Not looked for beside a box: a program there
    that happens to have a task's name must not be started."""
    from overside.bench.plugin_program import ProgramPlugin  # noqa: PLC0415

    return ProgramPlugin(path, name) if path.is_file() and os.access(path, os.X_OK) else None


def printable(text: str) -> str:
    """A plug-in's words without what could command a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


class PluginTask(ExternalTask):
    """What both kinds of plug-in share: where they work, what they may do, how they fail."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder.resolve()
        self.description = f"plug-in in {self.folder}"
        self.parameters = {}
        self.metrics: dict[str, Metric] = {}
        self.verified = False
        #: Why every sample fails: the plug-in is broken, or its `prepare` failed.
        self.failure: str | None = None
        #: May `prepare` and `clean` change the system?
        self.may_change = False
        self.work = Path()
        #: `prepare` got as far as running something: `clean` has something to do.
        self.started = False
        self._shims = Path()
        self._log: bounded.Log | None = None
        self._kept: list[str] = []
        self._warnings: list[Json] = []

    @property
    def log(self) -> bounded.Log:
        """What the plug-in says; before a run there is no place for it."""
        if self._log is None:
            self._log = bounded.Log(Path(os.devnull))
        return self._log

    def system_changes(self) -> list[str]:
        """What `prepare` and `clean` would change on this machine, as far as it can be read."""
        raise NotImplementedError

    def start(self, run_dir: Path, allowed: Consent) -> str | None:
        """Makes the places that the plug-in works in, and asks whether it may change the system.
        Returns why it may not, or `None`."""
        self.close()
        self.work = run_dir.resolve() / "plugins" / self.name
        self.may_change = False
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            self._log = bounded.Log(run_dir / "logs" / f"plugin-{self.name}.log")
            self._shims = consent.shims(self.work / ".refuse")
        except OSError as error:
            self.failure = f"has no place to work in: {error}"
            return None
        self.started = True
        self.refused()  # of an earlier run, which this one resumes
        changes = self.system_changes()
        if not changes:
            return None
        listed = "\n".join(f"  {change}" for change in changes[:10])
        more = f"\n  and {len(changes) - 10} more" if len(changes) > 10 else ""
        question = printable(
            f"plug-in {self.name} ({self.folder}) would change this system:\n{listed}{more}"
        )
        self.may_change = allowed(question)
        return None if self.may_change else not_allowed(changes)

    def environment(self) -> dict[str, str]:
        """The environment of its programs. Those that change the system refuse, unless allowed."""
        environment = dict(os.environ)
        environment["OVERSIDE_WORK"] = str(self.work)
        # Pip must not write into the system's Python, nor into ours.
        environment["PIP_REQUIRE_VIRTUALENV"] = "1"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if self.started and not self.may_change:
            path = environment.get("PATH", os.defpath)
            environment["PATH"] = f"{self._shims}{os.pathsep}{path}"
        return environment

    def refused(self) -> str | None:
        """What it tried to change without being allowed to, since the last call."""
        commands = [] if self.may_change else consent.refused(self._shims)
        return not_allowed([f"called {command}" for command in commands]) if commands else None

    def keep(self, outcome: bounded.Outcome) -> None:
        """Processes that `prepare` left running, a server perhaps, live until `clean`."""
        if outcome.mark:
            self._kept.append(outcome.mark)

    def end_kept(self) -> None:
        """Ends what `prepare` left running."""
        while self._kept:
            bounded.end_marked(self._kept.pop())

    def close(self) -> None:
        """Ends what `start` began."""
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
            "library": str(self.folder),
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
        """A sample that failed; the message says what the plug-in did."""
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

    def fault(self, outcome: bounded.Outcome, what: str) -> str | None:
        """What went wrong with a program, and where to look; `None` if it ended well."""
        message = outcome.message if outcome.fault else outcome.died
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


def not_allowed(changes: Sequence[str]) -> str:
    """Why something does not run that would change the system."""
    shown = "; ".join(changes[:3]) + (" ..." if len(changes) > 3 else "")
    return f"it would change this system ({printable(shown)}); allow it with --allow-system-changes"
