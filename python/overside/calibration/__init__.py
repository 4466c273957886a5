"""Profiles from measurements: a device's parameters from a run's samples, and the box that measures
the samples."""
