"""Report causes of noise on this machine, and what is missing, with fixes."""

from __future__ import annotations

from pathlib import Path

from overside import screen
from overside.bench import box, diagnostics, environment, modes
from overside.commands import Arguments, output
from overside.report import formatting

_MARKS = {"ok": "ok", "note": "note", "noise": "NOISE", "lack": "MISSING"}


def main(args: Arguments) -> int:
    """Runs the verb. Nothing is changed; the exit code is 0 whatever is found."""
    machine, load = environment.capture(), environment.load()
    found = [
        *diagnostics.of_environment(machine, load),
        *diagnostics.of_equipment(box.machine()),
        *modes.of_modes(),
        *diagnostics.of_disk(Path("results")),
    ]
    if args.json:
        findings = [finding.json() for finding in found]
        output.document("doctor/1", findings=findings, environment=machine | {"load": load})
        return 0
    cpu = machine["cpu"]
    processors = formatting.plural(len(cpu["usable"] or ()), "processor")
    print(screen.wrapped(f"{cpu['model']}, {processors}, {machine['kernel']['release']}"))
    for level in ("lack", "noise", "note", "ok"):
        for finding in found:
            if finding.level == level:
                print(screen.wrapped(f"{_MARKS[level]:<7} {finding.message}", " " * 8))
                if finding.remedy:
                    # A command stays whole, so that it can be copied; what it is for may wrap.
                    command, _, about = finding.remedy.partition("   # ")
                    print(f"          {command}")
                    if about:
                        print(screen.wrapped(f"          # {about}", " " * 12))
    return 0
