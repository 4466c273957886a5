"""Lists runs, the newest first."""

from __future__ import annotations

from overside import runs
from overside.commands import Arguments, output, table
from overside.errors import Exit


def main(args: Arguments) -> int:
    """Runs the verb."""
    found = runs.entries(args.out)
    if args.json:
        listed = [
            {
                "name": entry.path.name,
                "path": str(entry.path),
                "box": entry.box,
                "started": entry.started,
                "state": entry.state,
                "counts": dict(entry.counts),
            }
            for entry in found
        ]
        output.document("runs/1", runs=listed)
    elif found:
        rows = [_row(back, entry) for back, entry in enumerate(found[: args.last])]
        print(table.text(["", "run", "box", "started", "state", "tests"], rows))
        if len(found) > args.last:
            print(f"and {len(found) - args.last} older ones; --last {len(found)} shows all")
    else:
        print(f"no runs in {args.out}; make one: overside run quick")
    return Exit.OK


def _row(back: int, entry: runs.Entry) -> list[str]:
    counts = entry.counts
    tests = f"{counts.get('ok', 0)} of {counts.get('tests', 0)} ok" if counts else "-"
    if counts.get("failed"):
        tests += f", {counts['failed']} failed"
    short = f"@{back}" if back else "@"
    when = entry.started[:16].replace("T", " ")
    return [short, entry.path.name, entry.box, when, entry.state, tests]
