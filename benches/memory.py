"""The `memory` task beside sysbench: reads and writes of 8 bytes, each thread in its own block.

    python benches/memory.py [--quick]

The two take turns, forwards and backwards; ratios are medians of ratios within a turn. Rates are
bytes by CPU second, times the threads, so that other programs on the machine count less.

Where both measure the same thing they should agree. They do not where sysbench's loop is the
limit: of small blocks it reads two words a cycle where a processor can read three, and at random it
draws a number for each access, some thirty instructions, so that a processor has fewer accesses
under way at a time than memory would take. (In one C program, 256 MiB, stores at places drawn so
took 11.1 ns each, drawing alone 2.0 ns, and stores at places computed from a counter, as here,
4.9 ns.) Those rows are printed and not judged. Writes of small blocks and the time of a read that
waits for the one before (`chase`) have no counterpart at all.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass

#: Ratios should lie this close to one.
WITHIN = 0.15
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """Test that both programs measure."""

    access: str
    order: str
    size_bytes: int
    threads: int

    @property
    def same(self) -> bool:
        """`True` if memory or a cache limits both."""
        return self.order == "sequential" and self.size_bytes > 1 * MIB

    @property
    def title(self) -> str:
        """In words."""
        return f"{self.order} {self.access}, {self.size_bytes >> 10} KiB, {self.threads} threads"


CASES = [
    *(
        Case("read", "sequential", size, threads)
        for size in (16 << 10, 4 * MIB, 256 * MIB)
        for threads in (1, 2)
    ),
    *(Case("write", "sequential", 256 * MIB, threads) for threads in (1, 2)),
    *(Case(access, "random", 256 * MIB, 1) for access in ("read", "write")),
]


def main() -> int:
    """Prints rates, ratios and whether they are close; 1 if one is not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three turns of half a second")
    args = parser.parse_args()
    if shutil.which("sysbench") is None:
        print("sysbench is not installed (apt-get install sysbench): nothing to compare with")
        return 0
    turns, seconds = (3, 0.5) if args.quick else (7, 1.0)
    apart = 0
    print(f"{'':42} {'overside':>12} {'sysbench':>12}   ratio (least..greatest)")
    for case in CASES:
        ours, theirs = [], []
        for turn in range(turns):
            pair = [(ours, overside), (theirs, sysbench)]
            for rates, measure in pair if turn % 2 == 0 else reversed(pair):
                rates.append(measure(case, seconds))
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        ratio = statistics.median(ratios)
        close = abs(ratio - 1) <= WITHIN
        apart += case.same and not close
        remark = "not the same thing" if not case.same else "" if close else "APART"
        print(
            f"{case.title:42} {statistics.median(ours):7.0f} MB/s {statistics.median(theirs):7.0f} "
            f"MB/s   {ratio:.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
            f"  {remark}"
        )
    print(f"target: within {WITHIN:.0%}: {'met' if not apart else f'MISSED by {apart}'}")
    return 1 if apart else 0


def overside(case: Case, seconds: float) -> float:
    """MB/s of CPU time, measured in a process of its own, as sysbench's are."""
    test = {
        "kind": "memory",
        "pattern": "access",
        "access": case.access,
        "order": case.order,
        "buffer_size": case.size_bytes,
        "threads": case.threads,
        "warmup_s": 0.05,
        "sample_s": seconds,
        "timeout_s": 120,
    }
    code = "import sys; from overside import _core; print(_core.Worker().measure(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(test)],
        capture_output=True,
        text=True,
        check=True,
    )
    sample = json.loads(done.stdout)
    if sample["status"] != "ok":
        raise SystemExit(f"{case.title}: {sample.get('error') or sample.get('reason')}")
    return sample["work"]["bytes"] / 1e6 / sample["cpu"]["host_s"] * case.threads


def sysbench(case: Case, seconds: float) -> float:
    """MB/s of CPU time, without what making the blocks takes: the difference of two runs."""
    count, spent = _sysbench(case, round(seconds) + 2)
    count_before, spent_before = _sysbench(case, 1)
    if count > count_before and spent > spent_before:
        count, spent = count - count_before, spent - spent_before
    # Else a block takes longer than either run, and making it next to nothing of that.
    return count / 1e6 / spent * case.threads


def _sysbench(case: Case, seconds: int) -> tuple[float, float]:
    """Bytes, and CPU seconds. The kernel knows their sum exactly, how they divide into user's and
    its own only by sampling."""
    before = _spent()
    done = subprocess.run(
        [
            *("sysbench", "memory", "--memory-scope=local", "--memory-total-size=1000T"),
            f"--memory-block-size={case.size_bytes}",
            f"--memory-oper={case.access}",
            f"--memory-access-mode={'seq' if case.order == 'sequential' else 'rnd'}",
            f"--threads={case.threads}",
            f"--time={seconds}",
            "run",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    spent = _spent() - before
    found = re.search(r"([0-9.]+) MiB transferred", done.stdout)
    if found is None:
        raise SystemExit(f"sysbench has not told how much it did:\n{done.stdout}")
    return float(found[1]) * MIB, spent


def _spent() -> float:
    """CPU seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
