"""Where and when a page was made."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["machine", "stamp"]

_ROOT = Path(__file__).parents[2]


def stamp() -> str:
    """The commit, the day and the versions, joined by commas."""
    shown = subprocess.run(
        ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    commit = shown.stdout.strip() or "unknown"
    versions = f"Python {platform.python_version()}, torch {version('torch')}"
    return f"commit {commit}, {datetime.now(UTC):%Y-%m-%d}, {versions}"


def machine(*packages: str) -> str:
    """The processor, and the versions of those packages that are there."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return ", ".join([f"one core of {model}", *filter(None, map(_installed, packages))])


def _installed(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""
