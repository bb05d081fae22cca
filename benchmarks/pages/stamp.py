"""Where and when a page was made."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

__all__ = ["stamp"]

_ROOT = Path(__file__).parents[2]


def stamp() -> str:
    """The commit, the day and the versions, joined by commas."""
    shown = subprocess.run(
        ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    commit = shown.stdout.strip() or "unknown"
    versions = f"Python {platform.python_version()}, torch {version('torch')}"
    return f"commit {commit}, {datetime.now(UTC):%Y-%m-%d}, {versions}"
