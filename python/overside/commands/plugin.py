"""Make a new plug-in, or check one."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overside.commands import Arguments, output
from overside.errors import Exit, UserError
from overside.plugins.discovery import PROGRAM, at
from overside.plugins.program import ProgramPlugin
from overside.plugins.scripts import SCRIPTS, ScriptsPlugin
from overside.plugins.task import PluginTask
from overside.tasks import NAMES
from overside.tasks.common import Parameter, Test

_TEMPLATE = Path(__file__).parent / "plugin_template"
_FILES = {"plugin.j2": PROGRAM, "README.md.j2": "README.md", "box.json.j2": "box.json"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Step:
    """One thing that was checked."""

    #: `ok`, `note` or `wrong`.
    verdict: str
    what: str


def main(args: Arguments) -> int:
    """Runs the verb."""
    if args.action == "new":
        return _new(args.name, args.dir, args.json)
    return _check(args)


def _new(name: str, parent: Path, as_json: bool) -> int:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot be a plug-in's name",
            "use letters, digits, _ and -, beginning with a letter or digit; at most 64",
        )
    if name in NAMES:
        raise UserError(
            f"{name} is a built-in task, which the plug-in would hide", "take another name"
        )
    folder = parent / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UserError(
            f"{folder} exists; nothing was written", "take another name, or --dir"
        ) from None
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}", "choose another --dir") from None
    for template, target in _FILES.items():
        text = (_TEMPLATE / template).read_text("utf-8").replace("{{ name }}", name)
        (folder / target).write_text(text, "utf-8")
    (folder / PROGRAM).chmod(0o755)
    box = folder / "box.json"
    if as_json:
        output.document("plugin/1", folder=str(folder), box=str(box))
        return Exit.OK
    print(
        f"{folder} holds a plug-in that works; its README.md explains how.\n"
        f"  overside plugin check {folder}\n"
        f"  overside run {box}"
    )
    return Exit.OK


def _check(args: Arguments) -> int:
    folder: Path = args.folder.resolve()
    if not folder.exists():
        raise UserError(f"{args.folder} does not exist", "give the plug-in's folder")
    plugin = at(folder, folder.name)
    if plugin is None:
        raise UserError(
            f"{args.folder} holds no plug-in",
            f"a plug-in is a folder with an executable called {PROGRAM!r}; "
            f"one of dpBento has {', '.join(SCRIPTS)}",
        )
    steps = []
    for step in _steps(plugin, args.timeout, args.allow_scripts):
        steps.append(step)
        if not args.json:
            print(f"{step.verdict:<5}  {step.what}", flush=True)
    is_good = all(step.verdict != "wrong" for step in steps)
    if args.json:
        shown = [asdict(step) for step in steps]
        output.document("plugin-check/1", plugin=str(folder), ok=is_good, steps=shown)
    return Exit.OK if is_good else Exit.TEST_FAILED


def _steps(plugin: PluginTask, timeout_s: float, allow: bool) -> Iterator[Step]:
    if isinstance(plugin, ScriptsPlugin):
        yield from _scripts(plugin)
    elif isinstance(plugin, ProgramPlugin):
        yield from _program(plugin, timeout_s, allow)


def _scripts(plugin: ScriptsPlugin) -> Iterator[Step]:
    """Reads only: the scripts of a dpBento plug-in may take hours or install packages."""
    for script in SCRIPTS:
        try:
            ast.parse((plugin.folder / script).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            yield Step("wrong", f"{script} cannot be run by Python: {error}")
        else:
            yield Step("ok", f"{script} is Python")
    yield Step("note", "runs only if you allow it, with --allow-scripts, or with --sandbox")
    yield Step("note", "figures of dpBento's plug-ins are shown as unverified")


def _program(plugin: ProgramPlugin, timeout_s: float, allow: bool) -> Iterator[Step]:
    if plugin.failure:
        yield Step("wrong", plugin.failure)
        return
    yield Step("ok", f"describe: {plugin.description}")
    if not plugin.verified:
        missing = [name for name, m in plugin.metrics.items() if not (m.unit and m.better)]
        why = f"{missing[0]} has no unit or no direction" if missing else '"verifies" is not true'
        yield Step("note", f"its figures are shown as unverified: {why}")
    parameters = {name: _example(p) for name, p in plugin.parameters.items()}
    if plugin.changes and not allow:
        yield Step(
            "note", f"not run, for it changes this system ({plugin.changes}): --allow-scripts"
        )
        return
    test = Test(f"{plugin.name}/check", plugin.name, parameters, list(plugin.metrics))
    with tempfile.TemporaryDirectory(prefix="overside-check-") as run_dir:
        try:
            reason = plugin.prepare(Path(run_dir), [test])
            if reason:
                yield Step("note", f"prepare: skipped: {reason}")
                return
            if plugin.failure:
                yield Step("wrong", plugin.failure)
                return
            yield Step("ok", "prepare")
            for round_number in range(2):
                yield _judged(plugin.sample(test, round_number, timeout_s))
        finally:
            plugin.clean()
            log = Path(run_dir, "logs", f"plugin-{plugin.name}.log")
            wrong = [
                line.removeprefix("overside: ")
                for line in (log.read_text("utf-8", "replace") if log.exists() else "").splitlines()
                if line.startswith("overside: ")
            ]
        for line in wrong:
            yield Step("wrong", line)
        if not wrong:
            yield Step("ok", "report and clean")


def _judged(sample: dict[str, Any]) -> Step:
    if sample["status"] == "failed":
        return Step("wrong", sample["error"]["message"])
    if sample["status"] == "skipped":
        return Step("note", f"run: skipped: {sample['reason']}")
    figures = ", ".join(f"{name} {value:.6g}" for name, value in sample["metrics"].items())
    return Step("ok", f"run: {figures}")


def _example(parameter: Parameter) -> Any:
    """A value that the parameter allows, its default if it has one."""
    if parameter.default is not None:
        return parameter.default
    if parameter.choices:
        return parameter.choices[0]
    number = parameter.minimum if parameter.minimum is not None else 1
    return {
        "string": "",
        "boolean": False,
        "strings": [],
        "integers": [],
        "integer": int(number),
        "number": number,
    }.get(parameter.kind)
