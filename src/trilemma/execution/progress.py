"""Progress on stderr: live on a terminal or in a notebook, a plain line now and then on a pipe."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trilemma.errors import printable
from trilemma.execution.work_seconds import spoken

if TYPE_CHECKING:
    from trilemma.execution.pool import Job, Spent

__all__ = ["Outlook", "Progress", "Ticker", "notebook_cell"]

_INTERVAL_S: Final = 5.0
_LIVE_S: Final = 1.0
_PAUSES: Final = ((1800.0, 60.0), (120.0, 15.0), (-math.inf, _INTERVAL_S))  # (after, pause)


class _Line:
    """One line about work under way: live on a terminal and in a notebook, now and then on a pipe.

    A thread of its own shows it while a long task runs, so that nothing is ever silent.
    """

    def __init__(
        self, stream: TextIO | None, clock: Callable[[], float], *, quiet: bool = False
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._clock, self._quiet = clock, quiet
        self._start = self._printed = clock()
        self._ended, self._lock = threading.Event(), threading.RLock()
        self._cell = None if quiet or stream is not None else notebook_cell()
        console = Console(file=self._stream)
        live = console.is_terminal and not quiet and self._cell is None
        self._live = Live(console=console, transient=True) if live else None
        self._heart = threading.Thread(target=self._beating, daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        if not self._quiet:
            self._heart.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._heart.is_alive():
            self._heart.join()
        if self._live:
            self._live.stop()

    def _beating(self) -> None:
        while not self._ended.wait(_LIVE_S if self._live or self._cell else _INTERVAL_S):
            with self._lock:
                self.beat()

    def beat(self) -> None:
        """Show what is under way."""

    def _show(self, line: str, row: Callable[[str], RenderableType], now: float | None) -> None:
        """Show a line; with a time `now`, on a pipe only if the last one is some seconds old."""
        shown = printable(line)
        with self._lock:
            if self._live:
                self._live.update(row(shown), refresh=now is None)
            elif self._cell is not None:
                self._cell(shown)
            elif not self._quiet and (now is None or now - self._printed >= self.pause(now)):
                self._printed = self._printed if now is None else now
                print(shown, file=self._stream, flush=True)

    def pause(self, now: float) -> float:
        """Seconds between lines on a pipe: ever longer, for work of minutes and hours."""
        spent = now - self._start
        return next(pause for after, pause in _PAUSES if spent >= after)


class Progress(_Line):
    """How many updates are attacked, how many of them with success, updates/s and time left.

    `count` gives the updates of a result and how many of them were recovered. `done` are those
    of an earlier, interrupted run, which do not count for the rate.

    >>> import io
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 2.0, 2.0])
    >>> with Progress(
    ...     "attack", lambda result: (4, 3), total=8, stream=sink, clock=lambda: next(ticks)
    ... ) as progress:
    ...     progress.begun("", None)
    ...     progress.finished(None, b"payload", (2.0, 2.0))
    >>> print(sink.getvalue(), end="")
    attack: 0 of 8 updates
    attack: 4 of 8 updates, 75.0 % recovered, 2.0 updates/s, 2 s left
    """

    def __init__(
        self,
        what: str,
        count: Callable[[Any], tuple[int, int]],
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

    def begun(self, procedure: str, job: Job) -> None:
        """Say at once what is being done."""
        if not self._told:
            self._told = True
            self._show(f"{self._what}: {self._done} of {self._total} updates", self._row, None)

    def kept(self, procedure: str, job: Job) -> None:
        """Updates of an earlier run: `done` has counted them."""

    def ended(self, procedure: str) -> None:
        """All updates are there."""

    def beat(self) -> None:
        now = self._clock()
        if self._told:
            self._show(f"{self._line(now)}; {spoken(now - self._start)} so far", self._row, now)

    def finished(self, job: Job, result: Any, spent: Spent) -> None:
        """Count the updates of one more result."""
        units, successes = self._count(result)
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
        if not self._done:
            return f"{self._what}: 0 of {self._total} updates"
        share = 100 * self._successes / self._done
        line = f"{self._what}: {self._done} of {self._total} updates, {share:.1f} % recovered"
        if self._done == self._before:
            return line
        ending = f", {spoken(left)} left" if self._done < self._total else ""
        return f"{line}, {rate:.1f} updates/s{ending}"


class Outlook(Protocol):
    """What is known of work whose end is open: what of it is done, and how much is left."""

    def kept(self, procedure: str, job: Any) -> None: ...

    def begun(self, procedure: str, job: Any) -> None: ...

    def finished(self, job: Any, spent: Spent) -> None: ...

    def ended(self, procedure: str) -> None: ...

    def said(self) -> str: ...


class Ticker(_Line):
    """What has been done of work whose end is not known: games, seconds, and the last thing done.

    A job that plays games says how many in its `count`; others have none. An `outlook` adds what
    is left.

    >>> import io
    >>> from types import SimpleNamespace
    >>> job = SimpleNamespace(key="1f", label="attack on noise", count=16)
    >>> sink = io.StringIO()
    >>> ticks = iter([0.0, 6.0, 6.0])
    >>> with Ticker("tune", stream=sink, clock=lambda: next(ticks)) as ticker:
    ...     ticker.begun("noise", job)
    ...     ticker.finished(job, None, (6.0, 6.0))
    >>> print(sink.getvalue(), end="")
    tune: begins with attack on noise
    tune: 16 games played in 6 s; attack on noise
    tune: done: 16 games in 6 s
    """

    def __init__(
        self,
        what: str,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, clock, quiet=quiet)
        self._what, self._units, self._told = what, 0, False
        self._outlook: Outlook | None = None
        self._waiting: dict[str, Job] = {}
        self._before = 0
        self._saying = ""

    def __exit__(self, kind: object = None, *_: object) -> None:
        super().__exit__()
        if kind is None and self._units:
            self.say(f"done: {self._units} games in {spoken(self._clock() - self._start)}")

    def expect(self, outlook: Outlook) -> None:
        """From now on say how much is left."""
        with self._lock:
            self._outlook = outlook

    def say(self, line: str) -> None:
        """Show a line at once; it stays until there is a job to speak of."""
        self._saying = line
        self._show(f"{self._what}: {line}", _one_line, None)

    def tell(self, line: str) -> None:
        """Leave a line above what is shown."""
        shown = printable(f"{self._what}: {line}")
        with self._lock:
            if self._live:
                self._live.console.print(Text(shown))
            elif self._cell is not None:
                self._cell(shown)
            elif not self._quiet:
                print(shown, file=self._stream, flush=True)

    def kept(self, procedure: str, job: Job) -> None:
        """Count a job that an earlier process has done."""
        with self._lock:
            self._before += getattr(job, "count", 0)
            if self._outlook is not None:
                self._outlook.kept(procedure, job)

    def begun(self, procedure: str, job: Job) -> None:
        """Say at once what is being done."""
        with self._lock:
            self._waiting[job.key] = job
            if self._outlook is not None:
                self._outlook.begun(procedure, job)
        if not self._told:
            self._told = True
            start = f"goes on after {self._before} games" if self._before else "begins"
            self.say(f"{start} with {job.label}")
            self._saying = "putting together what was found"

    def finished(self, job: Job, result: Any, spent: Spent) -> None:
        """Count the games of one more job, and name it."""
        with self._lock:
            self._units += getattr(job, "count", 0)
            self._waiting.pop(job.key, None)
            if self._outlook is not None:
                self._outlook.finished(job, spent)
            now = self._clock()
            self._show(self._line(job, now), _one_line, now)

    def ended(self, procedure: str) -> None:
        """What a procedure might have asked for does not come any more."""
        with self._lock:
            if self._outlook is not None:
                self._outlook.ended(procedure)

    def beat(self) -> None:
        now = self._clock()
        if self._waiting:
            self._show(self._line(next(iter(self._waiting.values())), now), _one_line, now)
        elif self._saying:
            line = f"{self._what}: {self._saying}, {spoken(now - self._start)} so far"
            self._show(line, _one_line, now)

    def _line(self, job: Job, now: float) -> str:
        spent = f"{self._units} games played in {spoken(now - self._start)}"
        left = "" if self._outlook is None else self._outlook.said()
        return f"{self._what}: {', '.join(filter(None, (spent, left)))}; {job.label}"


def _one_line(line: str) -> RenderableType:
    return Text(line, overflow="ellipsis", no_wrap=True)


def notebook_cell() -> Callable[[str], None] | None:
    """What shows a line in the cell that runs, in place of the last; None outside of notebooks."""
    shell: Any = sys.modules.get("IPython")  # a notebook's kernel has imported it
    if shell is None or not hasattr(shell.get_ipython(), "kernel"):
        return None
    handle: list[Any] = []

    def show(line: str) -> None:
        content = {"text/plain": line}
        if handle:
            handle[0].update(content, raw=True)
        else:
            handle.append(shell.display.display(content, raw=True, display_id=True))

    return show
