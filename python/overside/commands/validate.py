"""Check a box."""

from __future__ import annotations

import argparse
import json

from overside.errors import Exit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the verb's arguments."""
    parser.add_argument("box", metavar="BOX", help="a path, or the name of a ready-made box")
    parser.add_argument("--json", action="store_true", help="print JSON to stdout")


def main(args: argparse.Namespace) -> int:
    """Runs the verb."""
    from overside.bench import box  # noqa: PLC0415

    try:
        chosen = box.load(args.box, (), box.machine())
    except box.InvalidBoxError as error:
        if not args.json:
            raise
        print(json.dumps(error.json()))
        return Exit.USAGE
    warnings = [warning.json() for warning in chosen.warnings]
    if args.json:
        print(json.dumps({"valid": True, "path": chosen.path, "warnings": warnings}))
    else:
        for warning in chosen.warnings:
            print(f"warning: {warning}")
        print(f"{chosen.path}: valid")
    return Exit.OK
