"""Imported by its full name, as plug-ins of a tree do."""

GREETING = "counted"
