"""Plug-ins: programs of other people that a box can name like a built-in task."""
