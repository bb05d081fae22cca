"""A Ray cluster of two nodes with one CPU each on this machine, for slow tests and benchmarks.

In a process of its own, so that Ray's threads and handlers end with it: prints the address, kills
the second node when it is told a line, and takes the cluster down when its input ends.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["ENV", "two_nodes"]

ROOT = Path(__file__).parents[3]
ENV = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    "OMP_NUM_THREADS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@contextmanager
def two_nodes() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The cluster's address, and the process to tell."""
    with subprocess.Popen(
        [sys.executable, __file__],
        env=ENV,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            for line in process.stdout:
                if line.startswith("ADDRESS "):
                    yield line.split()[1], process
                    break
            else:
                raise RuntimeError("the cluster did not start")
        finally:
            process.stdin.close()
            process.wait(timeout=60)


def main() -> None:
    node = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    nodes: Any = importlib.import_module("ray.cluster_utils")  # without types
    cluster = nodes.Cluster(initialize_head=True, head_node_args=node)
    second = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    print("ADDRESS", cluster.address, flush=True)
    for _ in sys.stdin:
        cluster.remove_node(second, allow_graceful=False)
        print("KILLED", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
