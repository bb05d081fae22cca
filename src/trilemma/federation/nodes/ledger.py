"""A node's ledger: which rounds each of its data sets took part in, over all runs, in a file.

The file is written as a whole before anything leaves the node, can be read by its owner alone, and
carries a checksum: a ledger that is damaged is refused, since an empty one would forget what was
spent. Processes that share it take turns.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from trilemma.errors import BudgetSpent, InvalidInput
from trilemma.federation.nodes.events import Event

__all__ = ["Ledger", "record_event"]

_KIND: Final = "trilemma ledger 1"
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
        with self._held():
            return self._read().get(data, ())

    def record(self, data: str, event: Event) -> None:
        """Add an event, durable when this returns."""
        self.spend(data, event, lambda _: None)

    def check(self, data: str, event: Event, refusal: Refusal) -> None:
        """Raise where `refusal` says why, with this event too, the events would be too many."""
        _check_name(data)
        with self._held():
            _joined(self._read(), data, event, refusal)

    def spend(self, data: str, event: Event, refusal: Refusal) -> None:
        """`check`, then add the event in the same breath."""
        _check_name(data)
        with self._held():
            self._write(_joined(self._read(), data, event, refusal))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """One process at a time, by a lock in a file beside it: the ledger itself is replaced."""
        with self._told():
            lock = os.open(self._beside("lock"), os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInput(
                f"the ledger {self.path} cannot be read or written ({error.strerror}); nothing "
                "leaves this node until it can."
            ) from None

    def _read(self) -> Events:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            raise self._damaged() from None
        if os.name == "posix" and self.path.stat().st_mode & 0o077:
            raise InvalidInput(
                f"the ledger {self.path} is open to other users; run chmod 600 on it."
            )
        try:
            document = json.loads(text)
            if document["kind"] != _KIND or document["checksum"] != _checksum(document["data"]):
                raise self._damaged()
            return {
                name: tuple(Event(**each) for each in events)
                for name, events in document["data"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._damaged() from None

    def _damaged(self) -> InvalidInput:
        return InvalidInput(
            f"the ledger {self.path} is damaged, and nothing leaves this node without it; put a "
            "copy back, or count its data as spent and name others."
        )

    def _write(self, events: Events) -> None:
        """The whole file anew, under another name first: it is complete, or as it was."""
        data = {name: [asdict(each) for each in rows] for name, rows in events.items()}
        document = {"kind": _KIND, "data": data, "checksum": _checksum(data)}
        new = self._beside("new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _beside(self, what: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{what}")


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


def _checksum(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _check_name(data: str) -> None:
    if not data or len(data) > _LONGEST_NAME or not data.isprintable():
        raise InvalidInput(
            f"the name of a node's data must be 1 to {_LONGEST_NAME} printable characters, got "
            f"{data[:_LONGEST_NAME]!r}; set trilemma-data."
        )
