"""What runs of Flower in processes of their own need."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def quiet(home: Path) -> dict[str, str]:
    """The environment of a Flower that stays on this machine, with our code in its path."""
    path = [str(ROOT / "src"), str(ROOT / "examples/flower-digits"), str(ROOT)]
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(path),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_HOME": str(home / "flwr"),
        "OMP_NUM_THREADS": "1",
        "RAY_ADDRESS": "local",  # not the cluster of another test that runs just now
    }


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listens on."""
    for first in range(21000 + os.getpid() % 20000, 60000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def read(path: Path) -> str:
    return path.read_text(errors="replace")[-4000:] if path.exists() else ""
