"""A plug-in of dpBento, run as dpBento runs it: a directory with `prepare.py`, `run.py`,
`report.py` and `clean.py`.

What is different, and why, is listed in dpbento.md: failures are noticed, the user is asked
before anything is run, pip installs into an environment of the run, and figures are collected after
each call, so that they belong to a test.
"""

from __future__ import annotations

import json
import os
import shutil
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overside.plugins.csv_figures import ResultFiles, figures
from overside.plugins.task import PluginTask
from overside.processes import Limits, Outcome
from overside.tasks.common import Json, Metric

if TYPE_CHECKING:
    from overside.tasks.common import Test

PREPARE_TIMEOUT_S = 3600.0
REPORT_TIMEOUT_S = 600.0
#: The scripts in the directory of a plug-in.
SCRIPTS = ("prepare.py", "run.py", "report.py", "clean.py")
#: The parameter that holds dpBento's `benchmark_items`, which all go into one call.
ITEMS = "benchmark_items"
#: Most files, and most bytes, that are kept of a plug-in's results.
RESULT_FILES_MAX = 1000
RESULT_BYTES_MAX = 64 << 20
_OUTPUT_BYTES_MAX = 16 << 20
#: `pip` of the run's environment. Where this Python has no pip of its own, it gets one.
_PIP = """#!/bin/sh
python="$(dirname "$0")/python3"
"$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null || exit
exec "$python" -m pip "$@"
"""


class ScriptsPlugin(PluginTask):
    """A plug-in directory of dpBento."""

    is_open = True
    # One call repeats by itself, and loads what it needs: hours are no fault.
    timeout_s = 4 * 3600.0

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.description = f"dpBento {self.description}; its figures are unverified"
        #: The tree that the plug-in expects around it: `ROOT/benchmarks/CLASS`, `ROOT/output`.
        self.root = self.folder.parent.parent
        self.in_tree = self.folder.parent.name == "benchmarks"
        self.metrics = {
            f"{name}.run_time": Metric("s", "lower", "wall time of run.py, its start included")
        }
        self._changed: set[Path] = set()
        self._reported = ""

    @property
    def changes(self) -> str:
        """See `ExternalTask`: unknown changes by its scripts. In a sandbox they can do little."""
        return "" if self.is_confined else "scripts of dpBento may do whatever you may"

    def writable(self) -> list[Path]:
        """See `PluginTask`: it writes beside its scripts and to the tree's output, too."""
        return [*super().writable(), self.root / "output", self.folder]

    def prepare(self, run_dir: Path, tests: Sequence[Test]) -> str | None:
        """See `ExternalTask`."""
        self.start(run_dir)
        if self.failure:
            return None
        self._reported = self._metrics(tests[0].metrics if tests else ())
        try:
            self._make_environment()
            if self.is_confined:
                (self.root / "output").mkdir(exist_ok=True)
        except OSError as error:
            self.failure = f"has no place to work in: {error}"
            return None
        outcome = self._call("prepare.py", [], PREPARE_TIMEOUT_S, keep_children=True)
        self.failure = self.fault(outcome, "(prepare.py)")
        return None

    @property
    def _bin(self) -> Path:
        return self.work / "env" / "bin"

    def _make_environment(self) -> None:
        """Makes a Python environment of the run, which pip installs into."""
        if (self._bin / "pip").exists():
            return
        venv.EnvBuilder(system_site_packages=True, symlinks=True).create(self._bin.parent)
        for name in ("pip", "pip3"):
            (self._bin / name).write_text(_PIP)
            (self._bin / name).chmod(0o755)

    def sample(self, test: Test, round_number: int, timeout_s: float) -> Json:
        """See `ExternalTask`."""
        if self.failure:
            return self.failed(self.failure)
        before = ResultFiles.of(self._places())
        metrics = self._metrics(test.metrics)
        outcome = self._call("run.py", [*arguments(test.parameters), metrics], timeout_s)
        fault = self.fault(outcome, "(run.py)")
        if fault:
            return self.failed(fault, "timeout" if outcome.fault == "timeout" else "plugin")
        after = ResultFiles.of(self._places())
        rows = list(after.new_rows(before))
        changed = after.changed(before)
        if not changed and not outcome.stdout.strip():
            return self.failed(
                "(run.py) ended well, but left no output: no file is new or changed in "
                f"{' or '.join(str(place) for place in self._places())}, and it printed nothing"
            )
        if not rows:
            # Some plug-ins write their figures in report.py, for all tests at once.
            report = self._call("report.py", [metrics], REPORT_TIMEOUT_S)
            fault = self.fault(report, "(report.py)")
            if fault:
                return self.failed(fault)
            final = ResultFiles.of(self._places())
            rows = list(final.new_rows(before))
            changed += final.changed(after)
        self._changed.update(changed)
        found = figures(rows, test.parameters, test.metrics)
        if not found:
            self.warn(
                f"plug-in {self.name} left no CSV file with figures",
                f"see what it printed in logs/{self.log.path.name}, and its files in plugins/",
            )
        values = {f"{self.name}.run_time": outcome.elapsed_ns / 1e9}
        for name, figure in found.items():
            full = f"{self.name}.{name}"
            self.metrics.setdefault(
                full, Metric(figure.unit, "", "as the plug-in's CSV file names it; unverified")
            )
            values[full] = figure.value
        if outcome.left_behind:
            names = ", ".join(sorted(set(outcome.left_behind)))[:200]
            self.warn(
                f"plug-in {self.name} left processes running after run.py ({names})",
                "they were ended, for they would have disturbed the tests after it",
            )
        return self.ok(values, elapsed_ns=outcome.elapsed_ns)

    def clean(self) -> None:
        """See `ExternalTask`. Runs the last report.py and keeps its results first."""
        if not self.started:
            return
        try:
            if self._changed:
                before = ResultFiles.of(self._places())
                self._call("report.py", [self._reported], REPORT_TIMEOUT_S)
                self._changed.update(ResultFiles.of(self._places()).changed(before))
                try:
                    self._keep_results()
                except OSError as error:
                    self.log.write(f"overside: results not kept: {error}\n".encode())
            self._call("clean.py", [], PREPARE_TIMEOUT_S)
        finally:
            self.end_kept()
            self.close()

    def _metrics(self, asked: Sequence[str]) -> str:
        """The argument that names the metrics; ours are none of the script's business."""
        names = [name for name in asked if not name.startswith(f"{self.name}.")]
        return f"--metrics={json.dumps(names)}"

    def _keep_results(self) -> None:
        """Copies the plug-in's output files into the run, before clean.py removes them."""
        left = RESULT_BYTES_MAX
        for path in sorted(self._changed)[:RESULT_FILES_MAX]:
            for place in self._places():
                if path.is_relative_to(place) and path.is_file():
                    left -= path.stat().st_size
                    target = self.work / "results" / path.relative_to(place)
                    if left >= 0 and not path.is_relative_to(self.work / "results"):
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(path, target)
                    break

    def _places(self) -> list[Path]:
        """Returns the folders to which dpBento's plug-ins may write their results."""
        return [self.root / "output", self.folder, self.work]

    def _call(
        self, script: str, opts: Sequence[str], timeout_s: float, *, keep_children: bool = False
    ) -> Outcome:
        """Runs one script as dpBento does: `python3 ROOT/benchmarks/CLASS/SCRIPT ...`."""
        argv = ["python3", str(self.folder / script), *opts]
        self.log.write(f"--- {' '.join(argv)}\n".encode("utf-8", "replace"))
        environment = self.environment()
        path = environment.get("PATH", os.defpath)
        environment["PATH"] = f"{self._bin}{os.pathsep}{path}"
        environment["VIRTUAL_ENV"] = str(self._bin.parent)
        return self.call(
            argv,
            Limits(timeout_s, _OUTPUT_BYTES_MAX, cut_output=True),
            cwd=self.root if self.in_tree else self.work,
            env=environment,
            # Some scripts wait for Enter.
            stdin=b"\n" * 64,
            log_stdout=True,
            keep_children=keep_children,
        )


def arguments(parameters: Json) -> list[str]:
    """A test's parameters as dpBento puts them on run.py's command line."""
    items = parameters.get(ITEMS, [])
    opts = [f"--{ITEMS}", ",".join(items if isinstance(items, list) else [str(items)])]
    for name, value in parameters.items():
        if name != ITEMS:
            opts += [f"--{name}", _argument(value)]
    return opts


def _argument(value: Any) -> str:
    """Returns the value as Python prints it, since dpBento passes it so: `True`, `[0.5, 'a']`."""
    return str(value)
