"""Questions that are asked on the terminal."""

from __future__ import annotations

import sys


def confirmed(question: str) -> bool:
    """Asks on the terminal; no is the default, and the answer where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
