"""Check a box."""

from __future__ import annotations

import argparse
import json

from overside.bench import box
from overside.errors import Exit


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    chosen = box.load(args.box, (), box.machine())
    warnings = [warning.json() for warning in chosen.warnings]
    if args.json:
        print(json.dumps({"valid": True, "path": chosen.path, "warnings": warnings}))
    else:
        for warning in chosen.warnings:
            print(f"warning: {warning}")
        print(f"{chosen.path}: valid")
    return Exit.OK
