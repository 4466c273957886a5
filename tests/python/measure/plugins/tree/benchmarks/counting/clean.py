"""Removes what the others left, but for the notes about calls."""

import pathlib
import shutil

here = pathlib.Path(__file__).parent
(here / "prepared.txt").unlink()
shutil.rmtree(here / ".." / ".." / "output" / "counting")
(here / "cleaned.txt").write_text("yes")
