"""What runs of Flower in processes of their own need."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trilemma.crypto.keyfiles import save_private, save_public
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

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


@contextmanager
def machine(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with keys, and the environment of a machine that never saw Flower."""
    key = PrivateKey.generate(System(), bits=2048)
    save_private(key, folder / "federation.key")
    save_public(key.public, folder / "federation.pub")
    first = free_ports(2)
    environment = quiet(folder) | {
        "TRILEMMA_KEY": str(folder / "federation.key"),
        "TRILEMMA_LEDGER": str(folder / "ledger"),
        "TRILEMMA_DATA": "digits",
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(first),
        "FLWR_LOCAL_CONTROL_API_PORT": str(first + 1),
    }
    yield folder, environment
    started = subprocess.run(
        ["pgrep", "-f", f"flower-superlink .*--port {first} "], capture_output=True, check=False
    )
    for process in started.stdout.split():
        os.kill(int(process), signal.SIGTERM)


def run(
    app: Path, environment: dict[str, str], settings: dict[str, Any], supernodes: int = 2
) -> str:
    """What `flwr run` says, to its end."""
    config = " ".join(f"{name}={json.dumps(value)}" for name, value in settings.items())
    command = ["flwr", "run", str(app), "--stream", "--run-config", config]
    command += ["--federation-config", f"num-supernodes={supernodes}"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr
