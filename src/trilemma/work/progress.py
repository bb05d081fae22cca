"""Progress on stderr: a live bar on a terminal, a plain line every few seconds on a pipe."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trilemma.errors import printable

if TYPE_CHECKING:
    from trilemma.work.executors import Job

__all__ = ["Progress", "Ticker"]

_INTERVAL_S: Final = 5.0
_SETTING: Final = re.compile(r"=(\d+\.?\d*(?:e[+-]?\d+)?)((?:,[a-z_]+=[^,+ ]+)*)")


class _Line:
    """One line about work under way, shown live on a terminal, every few seconds on a pipe."""

    def __init__(
        self, stream: TextIO | None, clock: Callable[[], float], *, quiet: bool = False
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock, self._quiet = clock, quiet
        self._start = self._printed = clock()
        console = Console(file=self._stream)
        self._live = (
            Live(console=console, transient=True) if console.is_terminal and not quiet else None
        )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def _show(self, line: str, row: Callable[[str], RenderableType], now: float | None) -> None:
        """Show a line; with a time `now`, on a pipe only if the last one is some seconds old."""
        shown = printable(line)
        if self._live:
            self._live.update(row(shown), refresh=now is None)
        elif not self._quiet and (now is None or now - self._printed >= _INTERVAL_S):
            self._printed = self._printed if now is None else now
            print(shown, file=self._stream, flush=True)


class Progress(_Line):
    """How many updates are attacked, how many of them with success, updates/s and time left.

    `count` gives the updates of a payload and how many of them were recovered. `done` are those
    of an earlier, interrupted run, which do not count for the rate.

    >>> import io
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 2.0, 2.0])
    >>> with Progress(
    ...     "attack", lambda payload: (4, 3), total=8, stream=sink, clock=lambda: next(ticks)
    ... ) as progress:
    ...     progress.begun(None)
    ...     progress.finished(None, b"payload")
    >>> print(sink.getvalue(), end="")
    attack: 0 of 8 updates
    attack: 4 of 8 updates, 75.0 % recovered, 2.0 updates/s, 2 s left
    """

    def __init__(
        self,
        what: str,
        count: Callable[[bytes], tuple[int, int]],
        *,
        total: int,
        done: int = 0,
        successes: int = 0,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock, quiet=quiet)
        self._what, self._count = what, count
        self._total = total
        self._done = self._before = done
        self._successes = successes
        self._told = False

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._done > self._before and not self._quiet:
            print(printable(self._line(self._clock())), file=self._stream, flush=True)

    def begun(self, task: Job) -> None:
        """Say at once what is being done."""
        if not self._told:
            self._told = True
            self._show(f"{self._what}: {self._done} of {self._total} updates", self._row, None)

    def finished(self, task: Job, payload: bytes) -> None:
        """Count the updates of one more payload."""
        units, successes = self._count(payload)
        self._done += units
        self._successes += successes
        now = self._clock()
        self._show(self._line(now), self._row, now)

    def _row(self, line: str) -> RenderableType:
        row = Table.grid(padding=1)
        row.add_row(ProgressBar(self._total, self._done, width=30), Text(line))
        return row

    def _line(self, now: float) -> str:
        rate = (self._done - self._before) / max(now - self._start, 1e-9)
        left = (self._total - self._done) / rate if rate else float("inf")
        ending = f", {left:.0f} s left" if self._done < self._total else ""
        share = 100 * self._successes / max(self._done, 1)
        return (
            f"{self._what}: {self._done} of {self._total} updates, {share:.1f} % recovered, "
            f"{rate:.1f} updates/s{ending}"
        )


class Ticker(_Line):
    """What has been done of work whose end is not known: games, seconds, and the last thing done.

    A task that plays games says how many in its `count`; others have none.

    >>> import io
    >>> from types import SimpleNamespace
    >>> task = SimpleNamespace(key=lambda: ("attack on noise", 0), count=16)
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 6.0])
    >>> with Ticker("tune", stream=sink, clock=lambda: next(ticks)) as ticker:
    ...     ticker.begun(task)
    ...     ticker.finished(task, b"")
    >>> print(sink.getvalue(), end="")
    tune: begins with attack on noise
    tune: 16 games played in 6 s; attack on noise
    """

    def __init__(
        self,
        what: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock)
        self._what, self._units, self._told = what, 0, False

    def begun(self, task: Job) -> None:
        """Say at once what is being done."""
        if not self._told:
            self._told = True
            self._show(f"{self._what}: begins with {_in_short(task)}", _one_line, None)

    def finished(self, task: Job, payload: bytes) -> None:
        """Count the games of one more task, and name it."""
        self._units += getattr(task, "count", 0)
        now = self._clock()
        spent = f"{self._units} games played in {now - self._start:.0f} s"
        self._show(f"{self._what}: {spent}; {_in_short(task)}", _one_line, now)


def _in_short(task: Job) -> str:
    """What a task does: numbers to three digits, and of each part of a protection one setting.

    >>> from types import SimpleNamespace
    >>> spec = "dlg on randomization:variance=0.0191552+secret-sharing:clip_range=1.0,bits=8"
    >>> _in_short(SimpleNamespace(key=lambda: (f"{spec} seen by the server, 6 games", 0)))
    'dlg on randomization:variance=0.0192+secret-sharing:clip_range=1 seen by the server, 6 games'
    """
    return _SETTING.sub(lambda found: f"={float(found[1]):.3g}", task.key()[0])


def _one_line(line: str) -> RenderableType:
    return Text(line, overflow="ellipsis", no_wrap=True)
