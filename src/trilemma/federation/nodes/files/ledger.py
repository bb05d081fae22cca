"""A node's ledger: which rounds each of its data sets took part in, over all runs, in a file.

A ledger that is damaged is refused, since an empty one would forget what was spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from trilemma.errors import BudgetSpent, InvalidInput
from trilemma.federation.nodes.events import Event
from trilemma.work.kept import KeptFile

__all__ = ["Ledger", "record_event"]

_KIND: Final = "trilemma ledger 1"
_MEND: Final = "put a copy back, or count its data as spent and name others"
_LONGEST_NAME: Final = 200

Events = dict[str, tuple[Event, ...]]
Refusal = Callable[[Sequence[Event]], str | None]


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
        _check_name(data)
        with self._file.held():
            return self._read().get(data, ())

    def record(self, data: str, event: Event) -> None:
        """Add an event, durable when this returns."""
        self.spend(data, event, lambda _: None)

    def check(self, data: str, event: Event, refusal: Refusal) -> None:
        """Raise where `refusal` says why, with this event too, the events would be too many."""
        _check_name(data)
        with self._file.held():
            _joined(self._read(), data, event, refusal)

    def spend(self, data: str, event: Event, refusal: Refusal) -> None:
        """`check`, then add the event in the same breath."""
        _check_name(data)
        with self._file.held():
            self._write(_joined(self._read(), data, event, refusal))

    @property
    def _file(self) -> KeptFile:
        return KeptFile(self.path, _KIND, "ledger", _MEND)

    def _read(self) -> Events:
        return self._file.read(_events, {})

    def _write(self, events: Events) -> None:
        self._file.write({name: [asdict(each) for each in rows] for name, rows in events.items()})


def record_event(path: Path | str, data: str, event: Event) -> None:
    """Note rounds that a node's ledger could not see, such as a tuning run on its private data."""
    Ledger(Path(path)).record(data, event)


def _joined(known: Events, data: str, event: Event, refusal: Refusal) -> Events:
    """With one event more; rounds like the last count there, so that the file stays small."""
    events = known.get(data, ())
    if events and replace(events[-1], rounds=event.rounds) == event:
        event = replace(event, rounds=events[-1].rounds + event.rounds)
        events = events[:-1]
    events = (*events, event)
    if (reason := refusal(events)) is not None:
        raise BudgetSpent(reason)
    return {**known, data: events}


def _events(data: Any) -> Events:
    return {name: tuple(Event(**each) for each in events) for name, events in data.items()}


def _check_name(data: str) -> None:
    if not data or len(data) > _LONGEST_NAME or not data.isprintable():
        raise InvalidInput(
            f"the name of a node's data must be 1 to {_LONGEST_NAME} printable characters, got "
            f"{data[:_LONGEST_NAME]!r}; set trilemma-data."
        )
