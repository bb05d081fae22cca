"""The server's half: a Grid that turns a batch of messages into a protected round."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from trilemma.deployment.flower.messages import (
    content_digest,
    counts,
    float_tensors,
    model_tensors,
    only_arrays,
    read_stages,
    replaced,
    shifted,
    write_stages,
)
from trilemma.deployment.flower.resuming import Resuming
from trilemma.deployment.nodes.metrics import decode_metrics
from trilemma.deployment.nodes.round_events import epsilon_of
from trilemma.deployment.nodes.served_model import ServedModel
from trilemma.deployment.nodes.server_rounds import Answers, ServerRound, ServerRounds
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.errors import (
    BudgetSpent,
    InvalidInput,
    NotConfigured,
    ProtocolViolation,
    TrilemmaError,
)
from trilemma.protection.protection import Protection

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.run import Run

    from trilemma.crypto.paillier import PublicKey
    from trilemma.learning.losses import Loss
    from trilemma.records.records import Dataset, Records

__all__ = ["ProtectedGrid"]

_LOG: Final = logging.getLogger("trilemma.flower")
_FAILED: Final = 2  # Flower's code for what raised
_SHORTEST_WAIT: Final = 0.002
_LONGEST_WAIT: Final = 3.0
_NEED_SINGLE_UPDATES: Final = (
    "Bulyan",
    "DifferentialPrivacyClientSideAdaptiveClipping",
    "DifferentialPrivacyServerSideAdaptiveClipping",
    "DifferentialPrivacyServerSideFixedClipping",
    "FedMedian",
    "FedTrimmedAvg",
    "FedXgbBagging",
    "FedXgbCyclic",
    "Krum",
    "MultiKrum",
    "QFedAvg",
)
_STEP_BY_THEMSELVES: Final = ("FedAvgM", "FedOpt")


class ProtectedGrid(Grid):
    """Wraps a Grid: train and evaluate batches become protocol stages, and one reply comes back.

    The reply holds the weighted mean of the models and one MetricRecord, so that FedAvg, FedAdam
    and whatever else needs no more than a mean run unchanged. A round that fails leaves a strategy
    its model as it was (a loop that is none gets an error that names why, once a round succeeded),
    and the next goes on; one in which every node lacks a setting of its own (a key, a ledger) ends
    the run. Use one grid for a run.

    Where the terms' deployment says how the server trains, the reply is the model after that
    step, so that FedAvg trains as was measured; a strategy with a step of its own is refused. A
    server that starts or steps by public records is given them, as in tuning, with the `model` and
    its `loss`.

    Secure aggregation takes two exchanges a round while the cohort stays, four when it changes;
    one more where identities are pinned and a node is lost before its update comes, or in a graph.

    With `checkpoint`, a file, a run that was stopped goes on from its last good round: start the
    strategy with `resumed(initial_arrays)` and `rounds_left(num_rounds)`.
    """

    def __init__(
        self,
        grid: Grid,
        terms: Terms | Protection | str,
        *,
        public_key: PublicKey | None = None,
        checkpoint: Path | str | None = None,
        model: torch.nn.Module | None = None,
        loss: Loss | None = None,
        public: Dataset | Records | None = None,
    ) -> None:
        self._grid, self.terms, self._public = grid, Terms.of(terms), public_key
        transport = self.terms.protection.transport
        if transport.brings == "key" and public_key is None:
            raise InvalidInput(
                f"the server of a run with {transport.name} needs the clients' public key; pass "
                "public_key=load_public(path)."
            )
        if checkpoint is not None and self.terms.blind:
            raise InvalidInput(
                f"a server that cannot read its model has none to keep in {checkpoint}; leave the "
                "checkpoint out, and save the model on a node."
            )
        deployment = self.terms.deployment
        self._served = None
        if deployment is not None and deployment.server is not None and not self.terms.blind:
            self._served = ServedModel(deployment, model, loss, public)
        self._state = Resuming(checkpoint)
        self._started = bool(self._state.events)
        if self._served is not None:
            kept = self._state.beside
            self._served.memory = {name: torch.from_numpy(value) for name, value in kept.items()}
        self._rounds = ServerRounds(self.terms, public_key, self._state.events)
        self._rounds.released = self._state.before
        self._state.events = self._rounds.events
        self._counters: dict[str, Array] = {}

    def resumed(self, initial_arrays: ArrayRecord) -> ArrayRecord:
        """The model of the checkpoint, or this one where there is none yet."""
        return self._state.model(initial_arrays)

    def rounds_left(self, num_rounds: int) -> int:
        """How many of so many rounds are still to come."""
        return self._state.rounds_left(num_rounds)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        batch = list(messages)
        kinds = {item.metadata.message_type.partition(".")[0] for item in batch}
        if not kinds & {"train", "evaluate"}:
            return self._grid.send_and_receive(batch, timeout=timeout)
        if len(kinds) > 1 or len({item.metadata.dst_node_id for item in batch}) < len(batch):
            raise InvalidInput(
                "a protected batch holds one kind of message, one for each node; send others "
                "apart."
            )
        self._check_strategy(strategy := _calling_strategy())
        self._state.watch(strategy)
        if self._state.fresh:
            self.terms.require_cohort(len(batch))  # nothing is learnt that an end would lose
        name, model = self._model(batch[0])
        return self._round(
            cast(Kind, kinds.pop()), batch, name, model, timeout, watched=strategy is not None
        )

    def _round(
        self,
        kind: Kind,
        batch: list[Message],
        name: str,
        model: ArrayRecord,
        timeout: float | None,
        *,
        watched: bool,
    ) -> list[Message]:
        if kind == "train" and (reason := self._rounds.spent(len(batch))):
            return self._over(reason, batch, model)
        if kind == "train":
            model = self._started_from(model)
        elif self._state.unsaved:
            self._state.keep(model)
        # FedAvg's messages share one RecordDict, so each gets its own.
        contents = {
            item.metadata.dst_node_id: {**self._state.counted(item.content), name: model}
            for item in batch
        }

        def deliver(stages: Mapping[int, list[Stage]], asks: bool) -> Answers:
            if asks and kind == "train":  # it counts before anything is asked for
                self._state.save(model)
            outgoing = {
                node: RecordDict({**(contents[node] if asks else {}), **write_stages(due)})
                for node, due in stages.items()
            }
            return self._read(self._deliver(outgoing, batch[0], timeout))

        cohort = tuple(sorted(contents))
        size = model_tensors(model)[0].size if kind == "train" else 0
        try:
            shown = content_digest(RecordDict(contents[cohort[0]]))
            done = self._rounds.play(self._grid.run.run_id, kind, cohort, size, deliver, shown)
        except TrilemmaError as error:
            reason = self._failure(kind, error, len(cohort))
            if kind == "train" and (watched or not self._rounds.released):
                return [self._unchanged(batch, model)]
            return [Message(Error(_FAILED, reason), reply_to=batch[0])]
        return [self._reply(kind, done, batch[0], model)]

    def _over(self, reason: str, batch: list[Message], model: ArrayRecord) -> list[Message]:
        """What a strategy gets where nothing may be trained any more."""
        if self._state.fresh and self._state.before:
            raise BudgetSpent(f"{self._state.path} has no rounds left: {reason}")
        _LOG.warning("nothing is trained any more: %s", reason)
        return [] if self._rounds.released else [self._unchanged(batch, model)]

    def _started_from(self, model: ArrayRecord) -> ArrayRecord:
        """The model of a round of training, which is counted as asked for: at first a warm one."""
        if self._served is not None and not self._started:
            model = replaced(model, self._served.start(float_tensors(model)))
        self._started = True
        self._state.asked += 1
        return model

    def _failure(self, kind: Kind, error: TrilemmaError, cohort: int) -> str:
        """Why a round failed; raises where every node lacks a setting of its own."""
        refusals = list(self._rounds.refused.values())
        if len(refusals) == cohort and all(map(_not_configured, refusals)):
            raise NotConfigured(f"no node can take part: {refusals[0]}") from error
        reason = self._rounds.failure(error, cohort)
        _LOG.error("the %s round failed, and the model stays as it was: %s", kind, reason)
        return reason

    def _unchanged(self, batch: list[Message], model: ArrayRecord) -> Message:
        """The model as it came; metrics that an app may look for are there, and are no numbers."""
        lost = dict.fromkeys(self.terms.metrics, math.nan)
        numbers = self._rounds.reply_counts(None, len(batch))
        metrics = MetricRecord({self.terms.weighted_by: 1, **lost, **numbers})
        content = RecordDict({"arrays": model, "metrics": metrics})
        self._state.failed = Message(content, reply_to=batch[0])
        return self._state.failed

    def _model(self, message: Message) -> tuple[str, ArrayRecord]:
        """The model of a message; FedAvg makes floats of counters, so these stay as they were."""
        name, record = only_arrays(message.content)
        for key, value in record.items():
            if counts(key, value.numpy().dtype.kind == "f"):
                self._counters.setdefault(key, value)
        return name, ArrayRecord({**record, **self._counters})

    def _deliver(
        self, contents: Mapping[int, RecordDict], like: Message, timeout: float | None
    ) -> list[Message]:
        """Flower's `send_and_receive`, which looks for replies each 0.1 s, or 3 s in a deployment.

        A round has several exchanges, some of them short, so this looks again after a part of
        the time that it has waited.
        """
        kind, group = like.metadata.message_type, like.metadata.group_id
        messages = [Message(own, node, kind, group_id=group) for node, own in contents.items()]
        waiting = {message for message in self._grid.push_messages(messages) if message}
        replies: list[Message] = []
        start = time.monotonic()
        while waiting and (timeout is None or time.monotonic() - start < timeout):
            found = list(self._grid.pull_messages(waiting))
            replies += found
            waiting -= {item.metadata.reply_to_message_id for item in found}
            if waiting:
                time.sleep(min(_SHORTEST_WAIT + (time.monotonic() - start) / 25, _LONGEST_WAIT))
        return replies

    def _read(self, replies: Iterable[Message]) -> dict[int, list[Stage] | str]:
        """The stages that nodes answered, or why they did not."""
        answered: dict[int, list[Stage] | str] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                answered[node] = str(reply.error.reason)
                continue
            if not (stages := read_stages(reply.content)):
                raise ProtocolViolation(
                    f"node {node} answers without protection; add protect_mod to its ClientApp."
                )
            answered[node] = stages
        return answered

    def _reply(
        self, kind: Kind, current: ServerRound, original: Message, model: ArrayRecord
    ) -> Message:
        metrics: dict[str, int | float] = {}
        weight = 1  # of a sum that nobody here can read
        if (means := current.released.get("metrics")) is not None:
            transport, reach = self.terms.protection.transport, self.terms.metric_range
            metrics |= decode_metrics(means.mean, self.terms.names(kind), reach, transport)
            weight = means.weight
        records: dict[str, ArrayRecord | MetricRecord] = {}
        if kind == "train":
            records["arrays"] = model
            if (released := current.released.get("update")) is not None:
                records["arrays"], weight = self._moved(model, released.mean), released.weight
            if math.isfinite(spent := epsilon_of(self._rounds.events, self.terms.delta)):
                metrics |= {"dp-epsilon": spent, "dp-delta": self.terms.delta}
                metrics["dp-epsilon-round"] = epsilon_of(
                    self._rounds.events[-1:], self.terms.delta
                )
            self._state.good = self._state.asked
        metrics |= {self.terms.weighted_by: weight}
        metrics |= self._rounds.reply_counts(current, len(current.stage.cohort))
        records["metrics"] = MetricRecord(dict(metrics))
        return Message(RecordDict(dict(records)), reply_to=original)

    def _moved(self, model: ArrayRecord, mean: torch.Tensor) -> ArrayRecord:
        """The model after a round, by the mean [m] of its updates."""
        layout = model_tensors(model)[0]
        if self._served is None:
            return shifted(model, mean * self.terms.learning_rate * self.terms.units(layout))
        number = len(self._rounds.events) - 1
        after = self._served.step(float_tensors(model), layout.unflatten(mean), number)
        memory = self._served.memory.items()
        self._state.beside = {name: item.numpy() for name, item in memory}
        return replaced(model, after)

    def _check_strategy(self, strategy: Strategy | None) -> None:
        wrapped = (strategy, getattr(strategy, "strategy", None))  # Flower's DP wraps another
        names = {base.__name__ for item in wrapped for base in type(item).__mro__}
        for name in sorted(names & set(_NEED_SINGLE_UPDATES)):
            raise InvalidInput(
                f"{name} needs single updates, and a protected round gives one mean; use FedAvg, "
                "FedAdam or another strategy that needs no more."
            )
        deployment = self.terms.deployment
        measured = deployment is not None and deployment.server is not None
        for name in sorted(names & set(_STEP_BY_THEMSELVES)):
            if self.terms.blind:
                raise InvalidInput(
                    f"{type(strategy).__name__} ({name}) works on the mean, which blind Paillier "
                    "hides from the server; use FedAvg, or mode=open."
                )
            if measured:
                raise InvalidInput(
                    f"{type(strategy).__name__} ({name}) takes a server step of its own, and "
                    "these terms hold the one that was measured, which this grid takes; use "
                    "FedAvg."
                )

    # As the wrapped grid

    def set_run(self, run: Run) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[NodeInfo]:
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)


def _not_configured(refusal: str) -> bool:
    """Whether a node refuses for want of a setting of its own, which no later round brings."""
    return refusal.startswith(f"{NotConfigured.__name__}: ")


def _calling_strategy() -> Strategy | None:
    """The strategy whose `start` called us, which hands over a grid and never its own name."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if isinstance(found := frame.f_locals.get("self"), Strategy):
            return found
    return None
