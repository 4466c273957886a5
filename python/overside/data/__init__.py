"""Data sets: made here from a seed, fetched, sampled from this machine, or the user's own."""

from overside.data.catalog import absent, names, resolve, table
from overside.data.dataset import DataFile, DataSet

__all__ = ["DataFile", "DataSet", "absent", "names", "resolve", "table"]
