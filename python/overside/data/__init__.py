"""Data sets: made here from a seed, fetched, sampled from this machine, or the user's own."""

from overside.data.catalog import CORPUS, absent, corpus, names, resolve, table
from overside.data.dataset import DataFile, DataSet

__all__ = ["CORPUS", "DataFile", "DataSet", "absent", "corpus", "names", "resolve", "table"]
