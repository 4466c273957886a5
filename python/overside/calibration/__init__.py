"""Profiles from measurements: what a run's samples say about a device, and the box that asks for
what the model needs."""
