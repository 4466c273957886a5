"""The notebooks of the documents run, and what their cells end in shows itself."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import environment

pytest.importorskip("polars")

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))

#: Runs the cells that come as JSON on stdin as a kernel does, and says which forms the last
#: expression of each can be shown in.
EXECUTE = """
import ast, json, sys
names = {"__name__": "__main__"}
shown = []
for source in json.load(sys.stdin):
    cell = ast.parse(source)
    last = cell.body.pop() if cell.body and isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, "cell", "exec"), names)
    forms = []
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        for form in ("_repr_html_", "_repr_svg_", "__repr__"):
            if hasattr(value, form) and getattr(value, form)():
                forms.append(form)
    shown.append(forms)
print(json.dumps(shown), file=sys.stderr)
"""


def _sources(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    sources = _sources(notebook)
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE],
        input=json.dumps(sources),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stderr.splitlines()[-1])
    assert any("_repr_html_" in forms for forms in shown)
    assert any("_repr_svg_" in forms for forms in shown)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_the_outputs_of_its_cells(notebook: Path) -> None:
    cells = [c for c in json.loads(notebook.read_text())["cells"] if c["cell_type"] == "code"]
    for cell in cells:
        body = ast.parse("".join(cell["source"])).body
        assert bool(cell["outputs"]) == isinstance(body[-1], ast.Expr)
