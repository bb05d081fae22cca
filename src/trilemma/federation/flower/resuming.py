"""What a restarted server goes on with: the model, and what Flower's strategy remembers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy

from trilemma.errors import InvalidInput
from trilemma.federation.nodes.events import Event
from trilemma.federation.nodes.files.checkpoint import (
    Arrays,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)

__all__ = ["Resuming"]

_LOG: Final = logging.getLogger("trilemma.flower")
_ROUND: Final = "server-round"  # what Flower's strategies call it
_LIST: Final = "list "  # a strategy's list of arrays, under the numbers of its places

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]


class Resuming:
    """The rounds of training so far, of this run and those before it, kept in a file if named."""

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        found = None if self.path is None else load_checkpoint(self.path)
        self._found = found
        self.events = () if found is None else found.events
        self.before = 0 if found is None else found.rounds
        self.good = self.asked = self.before
        self._saved = self.before
        self._taken = self._restored = found is None

    @property
    def fresh(self) -> bool:
        """Whether this run has not trained yet."""
        return self.asked == self.before

    def model(self, initial: ArrayRecord) -> ArrayRecord:
        """The model of the checkpoint, if there is one for an app with this model."""
        if self._found is None or self.path is None:
            return initial
        self._taken = True
        self._found.require_like({name: each.numpy() for name, each in initial.items()}, self.path)
        _LOG.info("resuming after round %d of %s", self.before, self.path)
        return ArrayRecord({name: Array(values) for name, values in self._found.model.items()})

    def rounds_left(self, rounds: int) -> int:
        """How many of so many rounds are still to come."""
        if rounds <= self.before:
            raise InvalidInput(
                f"{self.path} has the model after {self.before} rounds, and {rounds} are asked "
                "for; ask for more, or name another checkpoint."
            )
        return rounds - self.before

    def counted(self, content: RecordDict) -> RecordDict:
        """An app's message, with rounds counted from the very first run."""
        if not self.before:
            return content
        records = dict(content)
        for name, record in content.config_records.items():
            number = record.get(_ROUND)
            if isinstance(number, int):
                records[name] = ConfigRecord({**record, _ROUND: number + self.before})
        return RecordDict(records)

    def restore(self, strategy: Strategy | None) -> None:
        """Gives a strategy back what it remembered, and the number of its round, once in a run."""
        if not self._taken:
            raise InvalidInput(
                f"{self.path} has a model of {self.before} rounds, which another would replace; "
                "start with initial_arrays=grid.resumed(...), or name another checkpoint."
            )
        if self._restored or self._found is None or strategy is None:
            return
        self._restored = True
        aggregate, before = strategy.aggregate_train, self.before

        def later(server_round: int, replies: Iterable[Message]) -> Aggregated:
            return aggregate(server_round + before, replies)

        vars(strategy)["aggregate_train"] = later  # FedAdam's step depends on the round
        for name, arrays in self._found.memory.items():
            kept: Any = {key: each.copy() for key, each in arrays.items()}
            if name.startswith(_LIST):
                kept = list(kept.values())
            setattr(strategy, name.removeprefix(_LIST), kept)

    def save(self, model: ArrayRecord, strategy: Strategy | None, events: Sequence[Event]) -> None:
        """Writes down the model after the last good round, and all rounds that were begun."""
        if self.path is None:
            return
        arrays = {name: each.numpy() for name, each in model.items()}
        memory = {} if strategy is None else _memory(strategy)
        save_checkpoint(self.path, Checkpoint(self.good, arrays, tuple(events), memory))
        self._saved = self.good

    @property
    def unsaved(self) -> bool:
        """Whether a good round is not written down yet."""
        return self.path is not None and self._saved < self.good


def _memory(strategy: Strategy) -> Mapping[str, Arrays]:
    """The arrays that a strategy keeps beside the model, such as momentum."""
    found: dict[str, Arrays] = {}
    for name, value in vars(strategy).items():
        several = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(several, list) or not several or name == "current_arrays":
            continue
        if all(isinstance(each, np.ndarray | np.generic) for each in several):
            if isinstance(value, dict):
                found[name] = value
            else:
                found[_LIST + name] = {str(place): each for place, each in enumerate(several)}
    return found
