"""run.log in a run folder: what was started, finished or went wrong, and when.

Plain text, one line an event, UTC time first. Lines are only ever added, each by one write of its
own, so that kill -9 loses none. It holds counts and names, never a record, and never a secret.
"""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import trilemma
from trilemma.errors import printable

__all__ = ["LOG", "RunLog", "versions"]

LOG: Final = "run.log"


class RunLog:
    """The log of one run folder.

    >>> import tempfile
    >>> log = RunLog(Path(tempfile.mkdtemp()))
    >>> log.write("control finished on 6 chunks")
    >>> log.lines()[0].partition("Z ")[2]
    'control finished on 6 chunks'
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG

    def write(self, event: str) -> None:
        """Add an event; line breaks in it become spaces."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{now} {printable(' '.join(event.split()))}\n")

    def opened(self, command: str, chunks: int, *, fresh: bool) -> None:
        """The first line of every process that works in the folder."""
        how = f"resumed with {chunks} chunks" if chunks else "started"
        self.write(f"{versions()}: {command} {'started over' if fresh else how}")

    def lines(self) -> list[str]:
        """All that was written, the oldest first."""
        if not self._path.exists():
            return []
        return self._path.read_text(encoding="utf-8", errors="replace").splitlines()


def versions() -> str:
    """What made the numbers of a run."""
    return f"trilemma {trilemma.__version__} with torch {_version('torch')}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
