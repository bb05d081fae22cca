"""What a node with pinned identities must not forget over a restart; no seed and no key.

Of each run and kind of round: the session it began last, the round it answered last, and of which
peer it promised which kind of share there. It is written before the reply leaves, once for all
that a message asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trilemma.deployment.nodes.stages import Stage
from trilemma.errors import ProtocolViolation
from trilemma.execution.durable_file import KeptFile

__all__ = ["RoundRecord"]

_KIND: Final = "trilemma rounds 1"
_MEND: Final = "delete it between two runs, and never during one"


@dataclass(frozen=True)
class _Entry:
    begun: str = ""
    answered: int = 0
    session: str = ""
    shares: dict[str, dict[str, str]] = field(default_factory=dict)  # lane: peer: kind


_Note = tuple[str, Callable[[_Entry], _Entry]]  # of which run and kind, what changes


@dataclass(frozen=True)
class RoundRecord:
    """The round record in a file; one that is not there yet is empty.

    What is noted counts at once, and reaches the disk by `write`, which must be before the reply.
    """

    path: Path
    _notes: list[_Note] = field(default_factory=list, repr=False)

    def begin(self, stage: Stage) -> None:
        """Note a session at its first reply; one that was begun or answered is refused."""

        def begun(entry: _Entry) -> _Entry:
            self._require_later(stage, entry)
            if entry.begun == stage.session:
                raise ProtocolViolation(
                    f"this node was restarted in round {stage.number}, whose session it had "
                    "begun; it sits the round out."
                )
            return replace(entry, begun=stage.session)

        self._note(stage, begun)

    def answer(self, stage: Stage) -> None:
        """Note a round that is answered by an update; none is answered twice."""

        def answered(entry: _Entry) -> _Entry:
            self._require_later(stage, entry)
            return replace(entry, answered=stage.number, session=stage.session, shares={})

        self._note(stage, answered)

    def promise(self, stage: Stage, shares: Mapping[str, Mapping[int, str]]) -> None:
        """Note the kind of share of each peer, by lane, that is promised; never another."""
        promised_now = {
            lane: {str(peer): kind for peer, kind in kinds.items()}
            for lane, kinds in shares.items()
        }

        def promised(entry: _Entry) -> _Entry:
            if entry.session != stage.session or any(
                entry.shares.get(lane, kinds) != kinds for lane, kinds in promised_now.items()
            ):
                raise ProtocolViolation(
                    f"this node has promised other shares of round {stage.number} than it is "
                    "asked for now, or answered another session; it reveals one kind for a peer."
                )
            return replace(entry, shares=entry.shares | promised_now)

        self._note(stage, promised)

    def write(self) -> None:
        """All that was noted, durable when this returns."""
        if not self._notes:
            return
        with self._file.held():
            old: dict[str, _Entry] = self._file.read(_entries, {})
            if (new := _noted(old, self._notes)) != old:
                self._file.add({name: asdict(value) for name, value in new.items()})
        self._notes.clear()

    def _require_later(self, stage: Stage, entry: _Entry) -> None:
        if stage.number <= entry.answered:
            raise ProtocolViolation(
                f"round {stage.number} was answered (the last was {entry.answered}), if before a "
                "restart; it is replayed, and this node sits it out."
            )

    def _note(self, stage: Stage, change: Callable[[_Entry], _Entry]) -> None:
        note = (f"{stage.run} {stage.kind}", change)
        with self._file.held():
            _noted(self._file.read(_entries, {}), [*self._notes, note])
        self._notes.append(note)

    @property
    def _file(self) -> KeptFile:
        return KeptFile(self.path, _KIND, "round record", _MEND)


def _noted(entries: dict[str, _Entry], notes: Iterable[_Note]) -> dict[str, _Entry]:
    made = dict(entries)
    for key, change in notes:
        made[key] = change(made.get(key, _Entry()))
    return made


def _entries(data: Any) -> dict[str, _Entry]:
    return {name: _Entry(**fields) for name, fields in data.items()}
