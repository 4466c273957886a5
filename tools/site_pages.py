"""Pages of the site that are made from something else: MkDocs calls this as a hook.

The first page is README.md; commands come from `--help`, the schema's page from the schema, the
reports of the gallery from the runs beside it. The documents themselves are written as GitHub
shows them, and adapted here.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from overside import report
from overside.bench.statistics import load_run

ROOT = Path(__file__).resolve().parents[1]

#: Files outside of docs/ that are pages, and what documents call them.
OUTSIDE = {"../CHANGELOG.md": "changes.md", "../fuzz/README.md": "fuzzing.md"}

#: A verb in a list of verbs: two spaces before it and at least two behind it.
_VERB = re.compile(r"^ {2}([a-z][a-z-]*) {2,}\S")

#: A link whose text is the name of the document: `[network.md](network.md#modes)`.
_NAMED = re.compile(r"\[([a-z0-9-]+\.md)\]\(((?:[a-z./]*/)?\1(?:#[^)]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    made = {
        "index.md": _inside(ROOT / "README.md"),
        "reference/commands.md": _commands(),
        "reference/box-schema.md": _schema(
            json.loads((ROOT / "docs/measure/box.schema.json").read_text())
        ),
    }
    for notebook in sorted((ROOT / "docs").rglob("*.ipynb")):
        name = notebook.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        made[name] = _notebook(json.loads(notebook.read_text())["cells"])
    for outside, name in OUTSIDE.items():
        made[name] = _inside(ROOT / "docs" / outside)
    for run in sorted((ROOT / "docs" / "measure/gallery").glob("*.tar.gz")):
        made[f"measure/gallery/{run.name.removesuffix('.tar.gz')}.html"] = _report(run)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Links to those pages; and lists, whose items Python-Markdown wants indented by four."""
    folder = posixpath.dirname(page.file.src_uri) or "."
    for link in OUTSIDE.items():
        outside, inside = (posixpath.relpath(path, folder) for path in link)
        markdown = markdown.replace(f"]({outside})", f"]({inside})")
    markdown = _NAMED.sub(lambda link: f"[{_title(link[1])}]({link[2]})", markdown)
    markdown = markdown.replace(".ipynb)", ".md)")
    return "\n".join(_indented(markdown.split("\n")))


@cache
def _title(name: str) -> str:
    """A document's title, or its name if it is not in docs/; no two have one name."""
    path = next((ROOT / "docs").rglob(name), None)
    first = path.read_text().partition("\n")[0] if path else ""
    return first.removeprefix("# ") or name


def _inside(path: Path) -> str:
    """A document from outside of docs/, with links as from inside."""
    return path.resolve().read_text().replace("](docs/", "](")


def _indented(lines: list[str]) -> Iterator[str]:
    in_item = in_fence = False
    for line in lines:
        if line.lstrip().startswith("```") and not in_item:
            in_fence = not in_fence
        if line and not line.startswith("   "):
            in_item = not in_fence and bool(re.match(r"[0-9]{1,2}\. ", line))
        yield f" {line}" if in_item and line.startswith("   ") else line


def _commands() -> str:
    """Every verb with its help."""
    text = ["# Commands\n", "What every verb says with `--help`.\n"]
    top = command_help()
    text += [_block(top)]
    for verb in verbs(top):
        own = command_help(verb)
        text += [f"## overside {verb}\n", _block(own)]
        for action in verbs(own):
            text += [f"### overside {verb} {action}\n", _block(command_help(verb, action))]
    return "\n".join(text)


def command_help(*words: str) -> str:
    """Help of a verb or of the command.

    Raises `RuntimeError` if there is no such verb.
    """
    beside = Path(sys.executable).with_name("overside")
    command = str(beside) if beside.exists() else shutil.which("overside") or "overside"
    done = subprocess.run(
        [command, *words, "--help"],
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        raise RuntimeError(f"overside {' '.join(words)} --help: {done.stderr}")
    return done.stdout


def verbs(text: str) -> list[str]:
    """The verbs, or a verb's actions, that a help lists."""
    found = [match[1] for line in text.splitlines() if (match := _VERB.match(line))]
    return [name for name in dict.fromkeys(found) if name != "help"]


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


def _notebook(cells: list[dict[str, Any]]) -> str:
    """A notebook as Markdown, with the outputs that are kept in it."""
    text = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text.append(source)
            continue
        text.append(f"```python\n{source}\n```")
        text += [_output(output.get("data", {})) for output in cell["outputs"]]
    return "\n\n".join(text)


def _output(data: dict[str, Any]) -> str:
    """Output of a cell, in the richest of the stored formats."""
    found = {kind: "".join(value) for kind, value in data.items()}
    if "text/html" in found:
        # A blank line would end a block of HTML.
        lines = (line.strip() for line in found["text/html"].splitlines())
        return f'<div class="output">{" ".join(filter(None, lines))}</div>'
    if "image/svg+xml" in found:
        picture = base64.b64encode(found["image/svg+xml"].encode()).decode()
        return f'<img class="output" alt="chart" src="data:image/svg+xml;base64,{picture}">'
    return f"```text\n{found.get('text/plain', '')}\n```"


def _report(archive: Path) -> str:
    """The report of a run whose files are packed in `archive`, as this version makes it."""
    with tempfile.TemporaryDirectory() as directory, tarfile.open(archive) as files:
        files.extractall(directory, filter="data")
        return report.render(load_run(Path(directory)), "html")


def _schema(schema: dict[str, Any]) -> str:
    """The schema of boxes as tables."""
    text = [
        "# Box schema\n",
        "Generated from [box.schema.json](../measure/box.schema.json), JSON Schema 2020-12. "
        "[Boxes](../boxes.md) explains how the keys are used.\n",
    ]
    parts = {"Box": schema} | schema["$defs"]
    for name, part in parts.items():
        text.append(f"## {name}\n")
        if "description" in part:
            text.append(part["description"].replace("\n", " ") + "\n")
        if "properties" in part:
            text.append("| key | what it is | type | default |\n|---|---|---|---|")
            for key, value in part["properties"].items():
                about = value.get("description", "").replace("\n", " ")
                default = _default(value, is_required=key in part.get("required", []))
                text.append(f"| `{key}` | {about} | {_type(value)} | {default} |")
            text.append("")
        else:
            text.append(f"{_type(part)}\n")
    return "\n".join(text)


def _default(value: dict[str, Any], *, is_required: bool) -> str:
    if is_required:
        return "required"
    default = value.get("default")
    # What its type says has defaults of its own.
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _type(value: dict[str, Any]) -> str:
    """A value's type and bounds, in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in value:
            return " or ".join(_type(one) for one in value[key])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{json.dumps(one)}`" for one in value["enum"])
    kinds = value.get("type", "any")
    kind = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if isinstance(value.get("items"), dict):
        kind += f" of {_type(value['items'])}"
    if isinstance(value.get("additionalProperties"), dict):
        kind += f" of {_type(value['additionalProperties'])}"
    said = []
    for low, high, what in (
        ("minimum", "maximum", ""),
        ("exclusiveMinimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " keys"),
    ):
        if low in value and high in value:
            above = "above " if low.startswith("exclusive") else ""
            said.append(f"{above}{value[low]} to {value[high]}{what}")
        elif high in value and low != "exclusiveMinimum" and "exclusiveMinimum" not in value:
            said.append(f"at most {value[high]}{what}")
    return ", ".join([kind, *said])
