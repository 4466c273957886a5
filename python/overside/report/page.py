"""The report as one self-contained HTML file that works offline.

A strict content security policy is part of it: only the page's own style and scripts run, by
their digests, and nothing is ever loaded. Text from outside (a plug-in's message, a path, a box's
name) is data everywhere: escaped by the template, and never part of a script or a style.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from overside import verdict
from overside.bench import store
from overside.bench.statistics import RunView, TestSummary
from overside.data import cache as cache_of_data
from overside.report import advice as advised
from overside.report import (
    audit,
    best,
    charts,
    formatting,
    groups,
    nodes,
    published,
    run_details,
    study_charts,
    sweep_charts,
    sweeps,
    test_table,
    vega,
    view_model,
)
from overside.report.best import Advice
from overside.report.charts import Chart
from overside.report.groups import Group
from overside.report.published import Reproduction
from overside.report.sweeps import Sweep
from overside.tasks.common import Json

if TYPE_CHECKING:
    from jinja2 import Environment

#: JavaScript that makes the bundled function available to the page's script.
_SNIPPET = "window.vegaEmbed = vegaEmbed;"

#: The most operations with charts: each has up to eight.
GROUPS_MAX = 24
#: The most sizes in a table with one column a size.
SIZES_MAX = 16

#: The most warnings about the whole run that stand above all figures.
CAUTIONS_MAX = 3

ABOUT = {
    "measured": "On the machine’s devices, with a real clock.",
    "emulated": "Real bytes, released at modelled times. Not a measurement of a card; not to be "
    "compared with the charts above.",
}


SWEEP_ABOUT = {
    "measured": "Both sides on the machine’s devices, with a real clock.",
    "emulated": "The CPU’s chunks were really computed here; the device’s are real bytes, "
    "released at modelled times. Not a measurement of a card, and not to be compared with "
    "measured figures.",
}


def page(view: RunView) -> str:
    """The page."""
    panels, specs, left_out = _charts(view)
    shared = [_sweep(one, index, specs) for index, one in enumerate(_sweeps(view))]
    context = _context(view)
    if not panels:
        context["sections"] = [one for one in context["sections"] if one[0] != "operations"]
    context |= {"charts": panels, "charts_left_out": left_out, "sweeps": shared}
    context["studies"] = [_study(one, specs) for one in context["studies"]]
    return render("page.html.j2", specs, context)


def render(template: str, specs: Json, context: Json) -> str:
    """A page of that template, with the charts `specs` by the elements that they are drawn in."""
    from markupsafe import Markup  # noqa: PLC0415 (start-up of other verbs)

    environment, style, script = _templates()
    bundle = _bundle() if specs else ""
    # Not text from outside: this package's own files, the bundle, and JSON that `_data` made safe.
    own = {"style": style, "script": script, "bundle": bundle, "specs": _data(specs)}
    return environment.get_template(template).render(
        **context,
        **{name: Markup(text) for name, text in own.items()},  # noqa: S704
        policy=_policy(style, [bundle, script] if specs else [script]),
    )


@cache
def _templates() -> tuple[Environment, str, str]:
    """The templates, the style sheet and the script."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    here = Path(__file__).parent / "page"
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["keep"] = _keep
    environment.filters["times"] = formatting.times
    style, script = ((here / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return environment, style, script


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that sets `vegaEmbed`. Making it takes seconds,
    so it is kept in the user's cache, its digest in the first line."""
    import vl_convert  # noqa: PLC0415

    version = importlib.metadata.version("vl-convert-python")
    path = cache_of_data.directory() / f"vega-{version}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        digest, _, script = path.read_text("utf-8").partition("\n")
        if digest == _sha256(_SNIPPET + script):
            return script
    script = str(vl_convert.javascript_bundle(_SNIPPET))
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        store.write_atomically(path, f"{_sha256(_SNIPPET + script)}\n{script}")
    return script


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Policy that allows only the page's own style and scripts. Saved SVG stays in the page."""

    def digest(text: str) -> str:
        sha = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(sha).decode()}'"

    allowed = " ".join(digest(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _keep(text: str) -> str:
    """Returns the text with each figure, its unit and its interval on one line, and text between
    backticks as code."""
    from markupsafe import Markup  # noqa: PLC0415 (start-up of other verbs)

    text = re.sub(r"(?<=\d)–(?=\d)", "–\u2060", text)
    text = re.sub(r"(?<=\d) (?=MB/s|KiB|MiB|GiB|CPU|%|times|thread)", "\u00a0", text)
    return Markup(formatting.html(text))  # noqa: S704 (escaped)


def _data(specs: Json) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(specs, ensure_ascii=True, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _context(view: RunView) -> Json:
    advice = best.advise(view)
    warnings = view_model.warnings(view)
    problems = view_model.problems(view)
    table = test_table.table(view, list(islice(view_model.rows(view), view_model.ROWS_MAX)))
    rows = table["rows"]
    matrix, emulated = _matrix(advice), _emulated(view)
    others = published.comparisons(view, published.core()) if view.tests else []
    hidden = len(view.tests) - len(rows)
    of_studies = published.reproductions(view, published.core()) if view.tests else []
    where, no_where = advised.of_run(view)
    by_node = nodes.table(view)
    sections = [
        ("verdict", "Verdict", True),
        ("nodes", "By node", by_node is not None),
        ("study", "The study’s figure", bool(of_studies)),
        ("operations", "Charts", any(t.status in ("ok", "invalid") for t in view.tests)),
        ("coprocessing", "Co-processing", any(sweeps.placed(t) for t in view.tests)),
        ("where", "Placement", where is not None or bool(no_where)),
        ("sizes", "By size", bool(advice)),
        ("emulated", "Emulated", bool(emulated["rows"])),
        ("tests", "All tests", True),
        ("problems", "Skipped and failed", bool(problems)),
        ("warnings", "Warnings", True),
        ("published", "Published", bool(others)),
        ("method", "Method", True),
        ("audit", "Audit", True),
        ("data", "Data", True),
        ("machine", "Machine", True),
    ]
    return {
        "title": view_model.title(view),
        "version": formatting.value(view.manifest.get("version")),
        "run_id": formatting.clean(view.manifest.get("id") or view.path.name, 200),
        "cpu": run_details.cpu(view),
        "when": run_details.when(view.manifest.get("started")),
        "elapsed": run_details.elapsed(view),
        "counts": view_model.counts_words(view),
        "notes": formatting.plural(len(warnings), "warning") if warnings else "",
        "alerts": view_model.alerts(view),
        "cautions": [m for one in warnings if one.of_run for m, _ in one.messages][:CAUTIONS_MAX],
        "sections": [(anchor, text) for anchor, text, there in sections if there],
        "advice": [_advice(one) for one in advice],
        "verdict": verdict.of_run(view),
        "data_words": formatting.listing(
            f"“{one['name']}” ({one['size']})" for one in run_details.data(view)
        ),
        "bars_words": best.bars_words(view),
        "interval_words": best.interval_words(view),
        "where": where,
        "no_where": no_where,
        "nodes": by_node,
        "audit": audit.planted_mistakes(view),
        "audit_trusted": audit.is_trusted(view),
        "noise_words": audit.noise_words(view),
        "matrix": matrix,
        "emulated": emulated,
        "published": others,
        "studies": of_studies,
        "rows": rows,
        "rows_left_out": f"{hidden:,} more tests are in samples.csv." if hidden else "",
        "same": view_model.parameters(view_model.constants(view)),
        "columns": table["columns"],
        "filters": {
            "operation": sorted({row["operation"] for row in rows}),
            "status": sorted({row["status"] for row in rows}),
            "provenance": sorted({row["provenance"] for row in rows} - {""}),
        },
        "problems": problems,
        "warnings": warnings,
        "method": run_details.method(view),
        "command": run_details.command(view),
        "again": run_details.again(view),
        "data": run_details.data(view),
        "machine": run_details.machine(view),
    }


def _advice(advice: Advice) -> Json:
    return {
        "title": advice.group.title,
        "detail": advice.group.detail,
        "figure": formatting.number(best.headline(advice).throughput.median),
        "sentences": best.sentence_parts(advice),
    }


def _matrix(advice: Sequence[Advice]) -> Json:
    sizes = sorted({one.size_bytes for item in advice for one in item.best if one.size_bytes})
    sizes = _thin(sizes)
    rows = []
    for item in advice:
        by_size = {one.size_bytes: one for one in item.best}
        cells = [_cell(by_size[size]) if size in by_size else None for size in sizes]
        rows.append({"title": item.group.title, "detail": item.group.detail, "cells": cells})
    return {"sizes": [formatting.size(size) for size in sizes], "rows": rows if sizes else []}


def _cell(one: best.Best) -> Json:
    cost = one.winner.cpu_cost
    return {
        "label": one.winner.label,
        "value": formatting.number(one.winner.throughput.median),
        "interval": best.interval(one.winner.throughput),
        "cpu": formatting.number(cost.median) if cost is not None else "",
        "ties": best.ties_words(one),
    }


def _emulated(view: RunView) -> Json:
    sizes: set[int] = set()
    found: dict[tuple[str, str], dict[int, list[TestSummary]]] = {}
    for group in groups.groups(view):
        tests = [test for test in group.of("emulated") if not sweeps.placed(test)]
        for test in tests:
            size = groups.size_bytes(test)
            if size is not None and "throughput" in test.metrics:
                sizes.add(size)
                key = (f"{groups.label(test, tests)}: {group.title}", group.detail)
                found.setdefault(key, {}).setdefault(size, []).append(test)
    shown = _thin(sorted(sizes))
    rows, told = [], []
    for (title, detail), by_size in found.items():
        cells = [_emulated_cell(by_size[s][0]) if s in by_size else None for s in shown]
        rows.append({"title": title, "detail": detail, "cells": cells})
        told += [cell for cell in cells if cell is not None]
    rows.sort(key=lambda row: str(row["title"]))
    nothing = "" if any(cell["value"] for cell in told) else _nothing(len(told))
    return {"sizes": [formatting.size(size) for size in shown], "rows": rows, "nothing": nothing}


def _nothing(points: int) -> str:
    """Returns the reason why there is no table of the emulated devices."""
    return (
        f"{formatting.plural(points, 'point')} omitted: this machine is too slow to emulate "
        "the card in real time (use timing=virtual), or the emulation has no clock (functional)."
    )


def _emulated_cell(test: TestSummary) -> Json:
    estimate = test.bounded("throughput") or test.metrics["throughput"]
    if not groups.timed(test):
        share = formatting.number((test.late_share or 0) * 100)
        late = f"{share} % late: invalid"
        note = "functional: no timing" if test.timing == "functional" else late
        return {"value": "", "interval": "", "note": note}
    return {
        "value": formatting.number(estimate.median),
        "interval": best.interval(estimate),
        "note": "",
    }


def _thin(sizes: Sequence[int]) -> list[int]:
    """At most `SIZES_MAX` of the sizes, evenly chosen, the ends among them."""
    if len(sizes) <= SIZES_MAX:
        return list(sizes)
    last = len(sizes) - 1
    return [sizes[round(index * last / (SIZES_MAX - 1))] for index in range(SIZES_MAX)]


def _study(found: Reproduction, specs: Json) -> Json:
    """A figure of a study with its charts, whose specifications go to `specs`."""
    drawn = []
    for chart in study_charts.charts(found):
        place = f"{chart.id}-{found.figure.id.replace('.', '-')}"
        specs[place] = chart.spec | {"config": vega.CONFIG}
        drawn.append({**vars(chart), "id": place})
    return {**vars(found), "charts": drawn}


def _charts(view: RunView) -> tuple[list[Json], Json, str]:
    """The groups with their charts, the specifications by place, and a note on omitted charts."""
    shown: list[Json] = []
    specs: Json = {}
    left_out = 0
    for group in groups.groups(view):
        drawn = {kind: charts.charts(group, kind) for kind in ("measured", "emulated")}
        if not any(drawn.values()):
            continue
        if len(shown) == GROUPS_MAX:
            left_out += 1
            continue
        shown.append(_group(group, drawn, len(shown), specs))
    count = formatting.plural(left_out, "more operation")
    note = f"{count} without charts: see the table of all tests."
    return shown, specs, note if left_out else ""


def _group(group: Group, drawn: dict[str, list[Chart]], index: int, specs: Json) -> Json:
    panels = []
    for provenance, some in drawn.items():
        entries = []
        for chart in some:
            place = f"chart-{index + 1}-{chart.id.replace('_', '-')}"
            specs[place] = chart.spec | {"config": vega.CONFIG}
            entries.append({**vars(chart), "id": place})
        if entries:
            panels.append({"provenance": provenance, "about": ABOUT[provenance], "charts": entries})
    return {"title": group.title, "detail": group.detail, "panels": panels}


def _sweeps(view: RunView) -> list[Sweep]:
    """At most `GROUPS_MAX`, those with something to show first."""
    found = sweeps.sweeps(view)
    return sorted(found, key=lambda one: bool(one.reason))[:GROUPS_MAX]


def _sweep(sweep: Sweep, index: int, specs: Json) -> Json:
    drawn = []
    for chart in sweep_charts.charts(sweep):
        place = f"sweep-{index + 1}-{chart.id}"
        specs[place] = chart.spec | {"config": vega.CONFIG}
        drawn.append({**vars(chart), "id": place})
    size = f"{formatting.size(sweep.chunk_bytes)} chunks" if sweep.chunk_bytes else ""
    cpu = f"CPU target: {sweep.cpu}" if sweep.cpu else ""
    return {
        "title": sweep.title,
        "label": sweep.label,
        "detail": "; ".join(filter(None, (sweep.detail, size, cpu))),
        "reason": sweep.reason.rstrip("."),
        "provenance": sweep.provenance,
        "about": SWEEP_ABOUT.get(sweep.provenance, ""),
        "stand_in": sweep.is_stand_in,
        "note": sweep.note,
        "missing": sweep.missing,
        "events": sweeps.events(sweep),
        "series": [
            {
                "title": series.title,
                "sentences": sweeps.sentences(series),
                "decision": sweeps.reason(series),
            }
            for series in sweep.series
        ],
        "charts": drawn,
    }
