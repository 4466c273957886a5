"""The harness: boxes, plans, runs, statistics."""
