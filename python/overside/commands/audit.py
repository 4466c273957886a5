"""Plant mistakes in the harness and see that it catches them; measure this machine's noise."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from overside.bench import audit, noise
from overside.bench.audit import outcome
from overside.bench.noise import Noise
from overside.commands import Arguments, output, table
from overside.errors import Exit, as_user_error
from overside.tasks.common import Json


def main(args: Arguments) -> int:
    """Runs the verb."""
    remedy = "make room, or set TMPDIR"
    with as_user_error("no scratch file can be written", OSError, remedy=remedy):
        found = audit.plant_mistakes()
    trusted = audit.trusted(found)
    apart = None
    if not args.no_noise:
        if not args.json:
            print("running a few tests twice ...", file=sys.stderr)
        apart = noise.measure()
    if args.json:
        known = apart.json() if apart else None
        output.document("audit/1", trusted=trusted, mistakes=found, noise=known)
    else:
        _print(found, apart)
    return Exit.OK if trusted else Exit.VERIFICATION_FAILED


def _print(found: Sequence[Json], apart: Noise | None) -> None:
    rows = [[one["mistake"], one["about"], one["test"], outcome(one), one["said"]] for one in found]
    print(table.text(["mistake", "what it does", "planted in", "", "what was said"], rows))
    if apart is None:
        return
    print("\nTwo runs of the same thing, one after the other:")
    rows = [
        [
            one.test,
            f"{one.ratio.value:.3f}",
            f"{one.ratio.low:.3f} to {one.ratio.high:.3f}",
            f"{100 * one.noise:.1f} %",
            one.verdict,
        ]
        for one in apart.tests
    ]
    print(table.text(["test", "ratio", "interval", "noise", "verdict"], rows))
    print(f"A difference of less than {100 * apart.floor:.1f} % says nothing on this machine now.")
