"""The server's half: a Grid that turns a batch of messages into a protected round."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from trilemma.errors import BudgetSpent, InvalidInput, ProtocolViolation, TrilemmaError
from trilemma.federation.flower.messages import (
    model_tensors,
    only_arrays,
    read_stages,
    shifted,
    write_stages,
)
from trilemma.federation.nodes.events import Event, epsilon_of
from trilemma.federation.nodes.metrics import decode_metrics
from trilemma.federation.nodes.rounds import ServerRound
from trilemma.federation.nodes.stages import Stage
from trilemma.federation.nodes.terms import Kind, Terms
from trilemma.protections.protection import Protection

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.run import Run

    from trilemma.crypto.paillier import PublicKey

__all__ = ["ProtectedGrid"]

_LOG: Final = logging.getLogger("trilemma.flower")
_FAILED: Final = 2  # Flower's code for what raised
_SHORTEST_WAIT: Final = 0.01
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
_NEED_THE_MEAN: Final = ("FedAvgM", "FedOpt")


class ProtectedGrid(Grid):
    """Wraps a Grid: train and evaluate batches become protocol stages, and one reply comes back.

    The reply holds the weighted mean of the models and one MetricRecord, so that FedAvg, FedAdam
    and whatever else needs no more than a mean run unchanged. A round that fails comes back as an
    error that names why, and the strategy goes on to the next. Use one for a run.

    Under secure aggregation the next round's keys and shares ride on this one's messages: two
    exchanges a round while the cohort stays, four when it changes; one more where identities are
    pinned.
    """

    def __init__(
        self,
        grid: Grid,
        terms: Terms | Protection | str,
        *,
        public_key: PublicKey | None = None,
    ) -> None:
        self._grid, self.terms, self._public = grid, Terms.of(terms), public_key
        transport = self.terms.protection.transport
        if transport.brings == "key" and public_key is None:
            raise InvalidInput(
                f"the server of a run with {transport.name} needs the clients' public key; pass "
                "public_key=load_public(path)."
            )
        self._numbers: dict[Kind, int] = {"train": 0, "evaluate": 0}
        self._following: dict[Kind, ServerRound] = {}
        self._events: list[Event] = []  # the rounds of training so far
        self._counters: dict[str, Array] = {}
        self._sums: list[Stage] = []  # what clients must apply to the first model, if blind
        self._delivered: dict[int, int] = {}
        self._spent: dict[int, str] = {}  # the nodes that left this round for good, and why

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        batch = list(messages)
        kinds = {each.metadata.message_type.partition(".")[0] for each in batch}
        if not kinds & {"train", "evaluate"}:
            return self._grid.send_and_receive(batch, timeout=timeout)
        if len(kinds) > 1 or len({each.metadata.dst_node_id for each in batch}) < len(batch):
            raise InvalidInput(
                "a protected batch holds one kind of message, one for each node; send others "
                "apart."
            )
        self._check_strategy(_calling_strategy())
        kind = cast(Kind, kinds.pop())
        self.terms.require_cohort(len(batch))
        self._spent.clear()
        try:
            return self._round(kind, batch, timeout)
        except TrilemmaError as error:
            reason = f"{type(error).__name__}: {error}"
            if self._spent:
                said = next(iter(self._spent.values()))
                reason += f" {len(self._spent)} of the nodes say {said}"
            _LOG.warning("the %s round failed: %s", kind, reason)
            return [Message(Error(_FAILED, reason), reply_to=batch[0])]

    def _round(self, kind: Kind, batch: list[Message], timeout: float | None) -> list[Message]:
        name, model = self._model(batch[0])
        size = model_tensors(model)[0].size if kind == "train" else 0
        cohort = tuple(sorted(each.metadata.dst_node_id for each in batch))
        event = self.terms.event(len(cohort))
        if kind == "train" and (reason := self.terms.refusal([*self._events, event])):
            _LOG.warning("nothing is trained any more: %s", reason)
            return []
        current = self._following.pop(kind, None)
        if current is None or not current.is_ready(cohort, size):
            current = self._begin(kind, cohort, size)
            for _ in range(self.terms.preparations):
                self._exchange(current, None, batch[0], timeout)
        self._numbers[kind] += 1
        if kind == "train":
            self._events.append(event)
        following = None
        if self.terms.preparations and not (kind == "train" and self._is_last(event)):
            following = self._begin_following(kind, current.nodes, size)
        # FedAvg's messages share one RecordDict, so each gets its own.
        contents = {each.metadata.dst_node_id: {**each.content, name: model} for each in batch}
        following = self._exchange(current, following, batch[0], timeout, contents)
        while current.waiting:
            if following is not None and following.prepared:
                self._following[kind], following = following, None
            following = self._exchange(current, following, batch[0], timeout)
        if following is not None:
            self._following[kind] = following
        if current.encrypted is not None:
            self._sums.append(replace(current.encrypted, version=len(self._sums) + 1))
        return [self._reply(kind, current, batch[0], model)]

    def _is_last(self, event: Event) -> bool:
        """Whether no further round like this one is allowed."""
        return self.terms.refusal([*self._events, event]) is not None

    def _begin(self, kind: Kind, cohort: tuple[int, ...], size: int) -> ServerRound:
        run, number = self._grid.run.run_id, self._numbers[kind] + 1
        return ServerRound(self.terms, run, kind, number, cohort, size, self._public)

    def _begin_following(
        self, kind: Kind, cohort: tuple[int, ...], size: int
    ) -> ServerRound | None:
        try:
            return self._begin(kind, cohort, size)
        except TrilemmaError:  # those who are left are too few for a round of their own
            return None

    def _model(self, message: Message) -> tuple[str, ArrayRecord]:
        """The model of a message; FedAvg makes floats of counters, so these stay as they were."""
        name, record = only_arrays(message.content)
        counters = {key: each for key, each in record.items() if each.numpy().dtype.kind != "f"}
        self._counters |= counters
        return name, ArrayRecord({**record, **self._counters})

    def _exchange(
        self,
        current: ServerRound,
        following: ServerRound | None,
        original: Message,
        timeout: float | None,
        contents: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    ) -> ServerRound | None:
        """One message to each node that is due one, and its answer to both rounds.

        `contents` are the app's own, for the message that asks for updates. Returns the round
        that follows, or None where that one failed: it is started afresh then.
        """
        outgoing = []
        for node in current.nodes:
            stages = [current.message(node)]
            if following is not None and node in following.nodes:
                stages.append(following.message(node))
            if contents:
                stages += self._sums[self._delivered.get(node, 0) :]
            records = write_stages(each for each in stages if each is not None)
            content = RecordDict({**contents.get(node, {}), **records})
            kind, group = original.metadata.message_type, original.metadata.group_id
            outgoing.append(Message(content, node, kind, group_id=group))
        known = len(self._sums)
        answered = self._read(self._deliver(outgoing, timeout))
        if self.terms.blind:
            # Who refused may have lost its model: it gets every sum again.
            self._delivered.update({node: known if node in answered else 0 for node in contents})
        sessions = (current.stage.session, following and following.stage.session)
        for node, stages_of in answered.items():
            if strangers := [each for each in stages_of if each.session not in sessions]:
                raise ProtocolViolation(
                    f"node {node} answers another session than it was asked for, of round "
                    f"{strangers[0].number}; it is replayed or foreign."
                )
        current.receive(_of(current, answered))
        if following is None:
            return None
        try:
            following.receive(_of(following, answered))
        except TrilemmaError as error:
            _LOG.info("the next round starts afresh: %s", error)
            return None
        return following

    def _deliver(self, messages: list[Message], timeout: float | None) -> list[Message]:
        """Flower's `send_and_receive`, which looks for replies each 0.1 s, or 3 s in a deployment.

        A round has several exchanges, some of them short, so this looks again after a tenth of
        the time that it has waited.
        """
        waiting = {each for each in self._grid.push_messages(messages) if each}
        replies: list[Message] = []
        start = time.monotonic()
        while waiting and (timeout is None or time.monotonic() - start < timeout):
            found = list(self._grid.pull_messages(waiting))
            replies += found
            waiting -= {each.metadata.reply_to_message_id for each in found}
            if waiting:
                time.sleep(min(_SHORTEST_WAIT + (time.monotonic() - start) / 10, _LONGEST_WAIT))
        return replies

    def _read(self, replies: Iterable[Message]) -> dict[int, list[Stage]]:
        """The stages that nodes answered; who answers with an error has dropped out."""
        answered = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error():
                _LOG.warning("node %d dropped out: %s", node, reply.error.reason)
                if str(reply.error.reason).startswith(BudgetSpent.__name__):
                    self._spent[node] = str(reply.error.reason)
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
            change = torch.zeros(current.stage.size)
            if (released := current.released.get("update")) is not None:
                change = released.mean * self.terms.learning_rate
                weight = released.weight
            records["arrays"] = shifted(model, change)
            if math.isfinite(spent := epsilon_of(self._events, self.terms.delta)):
                metrics |= {"dp-epsilon": spent, "dp-delta": self.terms.delta}
                metrics["dp-epsilon-round"] = epsilon_of(self._events[-1:], self.terms.delta)
        metrics[self.terms.weighted_by] = weight
        records["metrics"] = MetricRecord(dict(metrics))
        return Message(RecordDict(dict(records)), reply_to=original)

    def _check_strategy(self, strategy: Strategy | None) -> None:
        wrapped = (strategy, getattr(strategy, "strategy", None))  # Flower's DP wraps another
        names = {base.__name__ for each in wrapped for base in type(each).__mro__}
        for name in sorted(names & set(_NEED_SINGLE_UPDATES)):
            raise InvalidInput(
                f"{name} needs single updates, and a protected round gives one mean; use FedAvg, "
                "FedAdam or another strategy that needs no more."
            )
        for name in sorted(names & set(_NEED_THE_MEAN)) if self.terms.blind else ():
            raise InvalidInput(
                f"{type(strategy).__name__} ({name}) works on the mean, which blind Paillier "
                "hides from the server; use FedAvg, or mode=reveal."
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


def _of(round: ServerRound, answered: dict[int, list[Stage]]) -> dict[int, Stage]:
    session = round.stage.session
    return {
        node: stage
        for node, stages in answered.items()
        for stage in stages
        if stage.session == session
    }


def _calling_strategy() -> Strategy | None:
    """The strategy whose `start` called us, which hands over a grid and never its own name."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        if isinstance(found := frame.f_locals.get("self"), Strategy):
            return found
    return None
