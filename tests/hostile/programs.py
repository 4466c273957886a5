"""Plug-ins that tests write."""

from __future__ import annotations

import json
from pathlib import Path

#: Work of a well-behaved plug-in.
GOOD = r"""printf '{"metrics": {"rate": 2}}\n'"""


def write(folder: Path, name: str, run: str, describe: str = "", timeout_s: float = 30) -> None:
    """Writes a plug-in that does this when it is run."""
    about = {
        "plugin": "1",
        "name": name,
        "description": f"the plug-in {name}",
        "parameters": {},
        "metrics": {"rate": {"unit": "1/s", "better": "higher"}},
        "timeout_s": timeout_s,
    }
    program = folder / "plugins" / name
    program.parent.mkdir(exist_ok=True)
    describe = describe or f"printf %s '{json.dumps(about)}'"
    program.write_text(f"#!/bin/bash\ncase $1 in\ndescribe) {describe} ;;\nrun) {run}\n ;;\nesac\n")
    program.chmod(0o755)
