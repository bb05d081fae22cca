"""A node's ledger: which rounds each of its data sets took part in, over all runs, in a file.

A round counts when an update is asked for, before the app runs. Evaluations and queries count
apart: under terms with a claim an evaluation releases nothing, and no query is answered.

A ledger that is damaged is refused, since an empty one would forget what was spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import BudgetSpent, InvalidInput
from trilemma.execution.durable_file import KeptFile

__all__ = ["Ledger", "record_event"]

_KIND: Final = "trilemma ledger 1"
_MEND: Final = "put a copy back, or count its data as spent and name others"
_LONGEST_NAME: Final = 200

Refusal = Callable[[Sequence[Event]], str | None]


@dataclass(frozen=True)
class _Page:
    """What one data set took part in, and how often it was asked for something else, by kind."""

    events: tuple[Event, ...] = ()
    asked: Mapping[str, int] = field(default_factory=dict)


_Pages = dict[str, _Page]


@dataclass(frozen=True)
class Ledger:
    """The ledger in a file; a file that is not there yet is an empty one.

    >>> import tempfile
    >>> ledger = Ledger(Path(tempfile.mkdtemp()) / "ledger.json")
    >>> ledger.record("ward 7", Event(1.0, rounds=2))
    >>> ledger.record("ward 7", Event(1.0))
    >>> ledger.events("ward 7")[0].rounds
    3
    """

    path: Path

    def events(self, data: str) -> tuple[Event, ...]:
        """All that the data set of this name took part in, in order."""
        return self._page(data).events

    def asked(self, data: str) -> Mapping[str, int]:
        """How often the data set was asked for something other than an update, by kind."""
        return self._page(data).asked

    def record(self, data: str, event: Event) -> None:
        """Add an event, durable when this returns."""
        self.spend(data, event, lambda _: None)

    def count(self, data: str, kind: str) -> None:
        """Count an asking of another kind, durable when this returns."""
        with self._file.held():
            pages = self._read(data)
            asked = pages[data].asked
            page = replace(pages[data], asked={**asked, kind: asked.get(kind, 0) + 1})
            self._write({**pages, data: page})

    def check(self, data: str, event: Event, refusal: Refusal) -> None:
        """Raise where `refusal` says why, with this event too, the events would be too many."""
        with self._file.held():
            _joined(self._read(data)[data], event, refusal)

    def spend(self, data: str, event: Event, refusal: Refusal) -> None:
        """`check`, then add the event in the same breath."""
        with self._file.held():
            pages = self._read(data)
            self._write({**pages, data: _joined(pages[data], event, refusal)})

    @property
    def _file(self) -> KeptFile:
        return KeptFile(self.path, _KIND, "ledger", _MEND)

    def _page(self, data: str) -> _Page:
        with self._file.held():
            return self._read(data)[data]

    def _read(self, data: str) -> _Pages:
        """All pages; that of this data set is there."""
        _check_name(data)
        pages: _Pages = self._file.read(_pages, {})
        return {data: _Page(), **pages}

    def _write(self, pages: _Pages) -> None:
        self._file.write({name: asdict(page) for name, page in pages.items()})


def record_event(path: Path | str, data: str, event: Event) -> None:
    """Note rounds that a node's ledger could not see, such as a tuning run on its private data."""
    Ledger(Path(path)).record(data, event)


def _joined(page: _Page, event: Event, refusal: Refusal) -> _Page:
    """With one event more; rounds like the last count there, so that the file stays small."""
    events = page.events
    if events and replace(events[-1], rounds=event.rounds) == event:
        event = replace(event, rounds=events[-1].rounds + event.rounds)
        events = events[:-1]
    events = (*events, event)
    if (reason := refusal(events)) is not None:
        raise BudgetSpent(reason)
    return replace(page, events=events)


def _pages(data: Any) -> _Pages:
    return {name: _page(row) for name, row in data.items()}


def _page(row: Any) -> _Page:
    """A page as it is written; one without counts is a list of events."""
    events, asked = (row, {}) if isinstance(row, list) else (row["events"], row["asked"])
    if not all(type(times) is int and times > 0 for times in asked.values()):
        raise ValueError("a count is no whole number")
    return _Page(tuple(Event(**event) for event in events), dict(asked))


def _check_name(data: str) -> None:
    if not data or len(data) > _LONGEST_NAME or not data.isprintable():
        raise InvalidInput(
            f"the name of a node's data must be 1 to {_LONGEST_NAME} printable characters, got "
            f"{data[:_LONGEST_NAME]!r}; set trilemma-data."
        )
