"""Leaves a mark in its directory."""

import pathlib

pathlib.Path(__file__).with_name("prepared.txt").write_text("yes")
