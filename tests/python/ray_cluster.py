"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'overside[fleet]'",
)


@contextmanager
def ray_cluster(*resources: Mapping[str, float]) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster with a head and a node with each of these resources; the nodes."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        yield cluster, [cluster.add_node(num_cpus=1, resources=dict(one)) for one in resources]
    finally:
        cluster.shutdown()
