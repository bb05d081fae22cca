"""Progress on stderr: a live bar on a terminal, a plain line every few seconds on a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

__all__ = ["Progress", "Ticker"]

_INTERVAL_S: Final = 5.0


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def _show(self, now: float, line: str, live: RenderableType) -> None:
        if self._live:
            self._live.update(live)
        elif now - self._printed >= _INTERVAL_S and not self._quiet:
            self._printed = now
            print(line, file=self._stream, flush=True)


class Progress(_Line):
    """How many units are done, how many of them succeeded, units/s and time left.

    `done` units of an earlier, interrupted run count as done, but not for the rate.

    >>> import io
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 2.0, 2.0])
    >>> with Progress("attack", total=8, stream=sink, clock=lambda: next(ticks)) as progress:
    ...     progress.advance(4, successes=3)
    >>> print(sink.getvalue(), end="")
    attack: 4 of 8 units, 75.0 % recovered, 2.0 units/s, 2 s left
    """

    def __init__(
        self,
        what: str,
        *,
        total: int,
        done: int = 0,
        successes: int = 0,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock, quiet=quiet)
        self._what = what
        self._total = total
        self._done = self._before = done
        self._successes = successes

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._done > self._before and not self._quiet:
            print(self._line(self._clock()), file=self._stream, flush=True)

    def advance(self, units: int, *, successes: int) -> None:
        """Count `units` more, of which `successes` were recovered."""
        self._done += units
        self._successes += successes
        now = self._clock()
        row = Table.grid(padding=1)
        row.add_row(ProgressBar(self._total, self._done, width=30), self._line(now))
        self._show(now, self._line(now), row)

    def _line(self, now: float) -> str:
        rate = (self._done - self._before) / max(now - self._start, 1e-9)
        left = (self._total - self._done) / rate if rate else float("inf")
        ending = f", {left:.0f} s left" if self._done < self._total else ""
        share = 100 * self._successes / max(self._done, 1)
        return (
            f"{self._what}: {self._done} of {self._total} units, {share:.1f} % recovered, "
            f"{rate:.1f} units/s{ending}"
        )


class Ticker(_Line):
    """What has been done of work whose end is not known: units, seconds, and the last thing done.

    >>> import io
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 6.0])
    >>> with Ticker("tune", stream=sink, clock=lambda: next(ticks)) as ticker:
    ...     ticker.tick("attack on noise", units=16)
    >>> print(sink.getvalue(), end="")
    tune: 16 units attacked in 6 s; attack on noise
    """

    def __init__(
        self,
        what: str,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock)
        self._what, self._units = what, 0

    def tick(self, last: str, *, units: int) -> None:
        """Count `units` more; `last` says what was done."""
        self._units += units
        now = self._clock()
        line = f"{self._what}: {self._units} units attacked in {now - self._start:.0f} s; {last}"
        self._show(now, line, Text(line, overflow="ellipsis", no_wrap=True))
