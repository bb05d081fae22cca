"""What a server must not lose: the last good model, and what Flower's strategy remembers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, Strategy

from trilemma.deployment.nodes.checkpoint import (
    Arrays,
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import InvalidInput

__all__ = ["Resuming"]

_LOG: Final = logging.getLogger("trilemma.flower")
_ROUND: Final = "server-round"  # what Flower's strategies call it
_UNWATCHED: Final = "unwatched"
_BESIDE: Final = "measured server"
_LIST: Final = "list "  # a strategy's list of arrays, under the numbers of its places

Aggregated = tuple[ArrayRecord | None, MetricRecord | None]


class Resuming:
    """The rounds of training so far, of this run and those before it, kept in a file if named.

    `events` are all rounds that were begun; `failed` is the reply to the last round that gave no
    sum, which holds the model as it was. `beside` is what the server's side remembers that was
    measured, such as momentum.
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        found = None if self.path is None else load_checkpoint(self.path)
        self._found = found
        self.events: Sequence[Event] = () if found is None else found.events
        self.failed: Message | None = None
        self.beside: Arrays = {} if found is None else found.memory.get(_BESIDE, {})
        self._strategy: Strategy | None = None
        self.before = 0 if found is None else found.rounds
        self.good = self.asked = self.before
        self._saved = self.before
        self._taken = found is None

    @property
    def fresh(self) -> bool:
        """Whether this run has not trained yet."""
        return self.asked == self.before

    def model(self, initial: ArrayRecord) -> ArrayRecord:
        """The model of the checkpoint, if there is one for an app with this model."""
        if self._found is None or self.path is None:
            return initial
        self._taken = True
        own = {name: array.numpy() for name, array in initial.items()}
        self._found.require_like(own, self.path)
        _LOG.info("resuming after round %d of %s", self.before, self.path)
        model = {}
        for name, value in self._found.model.items():  # FedAvg made floats of counters
            counter = own[name].dtype.kind != "f"
            model[name] = Array(value.astype(own[name].dtype) if counter else value)
        return ArrayRecord(model)

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

    def watch(self, strategy: Strategy | None) -> None:
        """Gives a strategy back what it remembered, once, and sees what it makes of each round.

        One with momentum would move on where a round failed; it is not asked then. What it makes
        of a good round is written down.
        """
        if not self._taken:
            raise InvalidInput(
                f"{self.path} has a model of {self.before} rounds, which another would replace; "
                "start with initial_arrays=grid.resumed(...), or name another checkpoint."
            )
        if strategy is None or strategy is self._strategy:
            return
        first, self._strategy = self._strategy is None, strategy
        found, before = strategy.aggregate_train, self.before
        aggregate = getattr(found, _UNWATCHED, found)  # another grid may have watched it

        def watched(server_round: int, replies: Iterable[Message]) -> Aggregated:
            given = list(replies)
            if any(item is self.failed for item in given):
                return _unmoved(strategy, server_round, given)
            made = aggregate(server_round + before, given)  # FedAdam's step depends on the round
            if made[0] is not None:
                self.keep(made[0])
            return made

        vars(watched)[_UNWATCHED] = aggregate
        vars(strategy)["aggregate_train"] = watched
        for name, arrays in self._found.memory.items() if first and self._found else ():
            if name == _BESIDE:
                continue
            kept: Any = {key: array.copy() for key, array in arrays.items()}
            if name.startswith(_LIST):
                kept = list(kept.values())
            setattr(strategy, name.removeprefix(_LIST), kept)

    def save(self, model: ArrayRecord) -> None:
        """Writes down the model after the last good round, and all rounds that were begun."""
        if self.path is None:
            return
        arrays = {name: value.numpy() for name, value in model.items()}
        memory = {} if self._strategy is None else dict(_memory(self._strategy))
        if self.beside:
            memory[_BESIDE] = self.beside
        save_checkpoint(self.path, Checkpoint(self.good, arrays, tuple(self.events), memory))
        self._saved = self.good

    def keep(self, model: ArrayRecord) -> None:
        """The same for a good round, which is good whether it could be written or not."""
        try:
            self.save(model)
        except InvalidInput as error:
            _LOG.error("%s", error)

    @property
    def unsaved(self) -> bool:
        """Whether a good round is not written down yet."""
        return self.path is not None and self._saved < self.good


def _unmoved(strategy: Strategy, server_round: int, replies: list[Message]) -> Aggregated:
    """What FedAvg makes of one reply: its model, and its metrics as the app wants them."""
    inner = getattr(strategy, "strategy", strategy)  # Flower's DP wraps another
    if isinstance(inner, FedAvg):
        return FedAvg.aggregate_train(inner, server_round, replies)
    content = replies[0].content
    return content.array_records["arrays"], content.metric_records["metrics"]


def _memory(strategy: Strategy) -> Mapping[str, Arrays]:
    """The arrays that a strategy keeps beside the model, such as momentum."""
    found: dict[str, Arrays] = {}
    for name, value in vars(strategy).items():
        several = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(several, list) or not several or name == "current_arrays":
            continue
        if all(isinstance(item, np.ndarray | np.generic) for item in several):
            if isinstance(value, dict):
                found[name] = value
            else:
                found[_LIST + name] = {str(place): item for place, item in enumerate(several)}
    return found
