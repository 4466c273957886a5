"""Examples of the verbs in Python: what is typed, and what for. Help and manual pages show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: By verb, `verb action` for those that have verbs of their own.
EXAMPLES: Mapping[str, Sequence[tuple[str, str]]] = {
    "doctor": [
        ("overside doctor", ""),
        ("overside doctor --json", "for programs"),
    ],
    "list": [
        ("overside list boxes", "what can be run by name"),
        ("overside list tasks compress", "its parameters and metrics"),
    ],
    "validate": [
        ("overside validate quick", ""),
        ("overside validate my-box.json", "says how many of its tests can run here"),
    ],
    "plan": [
        ("overside plan quick", "tests and time"),
        ("overside plan quick --filter task=compress", "of one task only"),
    ],
    "run": [
        ("overside run quick", "measure for a minute"),
        ("overside run quick --name before", "call the run `before`"),
        ("overside run hash --set hash.buffer_size=64KiB", "values of your own"),
        ("overside run --resume @", "go on with the newest run"),
        ("overside run quick --json-lines", "for programs, as it happens"),
    ],
    "runs": [
        ("overside runs", ""),
        ("overside runs --last 3", ""),
    ],
    "report": [
        ("overside report", "the page of the newest run"),
        ("overside report @1 --open", "the run before it, in a browser"),
        ("overside report --format md --out -", "for a pull request"),
        ("overside report --format svg", "each chart as a picture"),
    ],
    "advise": [
        ("overside advise", "from the newest run"),
        ("overside advise --card bf2 --explain", "about one card, with reasons"),
        ("overside advise --workload workloads/log-archive.toml --placement-out p.toml", ""),
    ],
    "compare": [
        ("overside compare before after", "two runs by name"),
        ("overside compare @1 --threshold 10%", "the run before the newest with the newest"),
        ("overside compare @1 --format html", "all of it as a page"),
    ],
    "audit": [
        ("overside audit", ""),
        ("overside audit --no-noise", "a second instead of about fifteen"),
    ],
    "facts": [
        ("overside facts deflate bf2", "facts that hold both words"),
        ("overside facts check", "every figure beside the model's prediction"),
    ],
    "clean": [
        ("overside clean", "asks first"),
        ("overside clean --runs --older-than 30 --yes", ""),
    ],
    "data list": [("overside data list", "")],
    "data make": [("overside data make accidents noise", "")],
    "data fetch": [("overside data fetch silesia", "")],
    "data verify": [("overside data verify", "all that are here")],
    "plugin new": [("overside plugin new mine", "a folder that works, to be changed")],
    "plugin check": [("overside plugin check mine", "")],
    "simulate": [
        ("overside simulate --list", "what can be modelled"),
        ("overside simulate dma-primitives", "a preset"),
        ("overside simulate dma --list", "a scenario's keys"),
        ("overside simulate split --set cores=1,2,4 --profile bf2", "a sweep"),
    ],
    "profile list": [("overside profile list", "")],
    "profile show": [("overside profile show bf2", "")],
    "profile diff": [("overside profile diff bf2 bf3", "")],
    "profile check": [("overside profile check my-card.toml", "")],
    "profile from-run": [("overside profile from-run @ --out my-host.toml", "")],
    "profile parameters": [("overside profile parameters", "")],
    "calibrate": [
        ("overside calibrate --quick", "try it: a few seconds"),
        ("overside calibrate --device dpu0/cpu --time 10min --out my-card.toml", ""),
    ],
    "flow serve-table": [
        ("overside flow serve-table ships=ships.parquet", "on this machine only"),
        ("overside flow serve-table ships=ships.parquet --memory 2GiB --timeout 5min", ""),
    ],
    "fleet run": [("overside fleet run quick --label bluefield", "")],
}


def text(verb: str) -> str:
    """The examples of a verb as help shows them; empty if it has none."""
    examples = EXAMPLES.get(verb, ())
    if not examples:
        return ""
    width = max((len(command) for command, why in examples if why), default=0)
    lines = [f"  {command:<{width}}  {why}".rstrip() for command, why in examples]
    return "\n".join(["Examples:", *lines])
