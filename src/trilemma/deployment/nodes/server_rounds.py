"""The server's half: one round, its sessions and what they gave, and the rounds of a run."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Kind, Terms
from trilemma.errors import ProtocolViolation, TrilemmaError
from trilemma.protection.sessions import ProtectedServer
from trilemma.protection.transcripts import Released

__all__ = ["Answers", "Deliver", "ServerRound", "ServerRounds"]

_LOG: Final = logging.getLogger("trilemma.nodes")
Answers = Mapping[int, list[Stage] | str]
"""The stages that each node answered, or why it refused; who is not there fell silent."""
Deliver = Callable[[Mapping[int, list[Stage]], bool], Answers]
"""Takes stages to nodes, with the app's own message where an update is asked for."""


class ServerRound:
    """Steps the server's session of each lane; a node that does not answer has dropped out.

    `waiting` holds each unfinished lane's next message by seat, `released` what finished lanes
    gave, `encrypted` the sum that the server cannot read, `survivors` how many are in the sum.
    """

    def __init__(
        self,
        terms: Terms,
        run: int,
        kind: Kind,
        number: int,
        cohort: tuple[int, ...],
        size: int,
        public: Any = None,
    ) -> None:
        self.terms, self.steps, self.survivors = terms, 0, 0
        session = secrets.token_hex(16)
        self.stage = Stage(run, kind, session, number, cohort, size, terms.describe())
        threshold = terms.threshold_of(len(cohort))
        lanes = terms.lanes(kind, size)
        self.servers = {
            lane: ProtectedServer.start(
                protection, self.stage.round(lane, threshold), length, public=public
            )
            for lane, (protection, length) in lanes.items()
        }
        start = dict.fromkeys(range(len(cohort)), b"")
        self.waiting: dict[str, Mapping[int, bytes]] = dict.fromkeys(lanes, start)
        self.released: dict[str, Released] = {}
        self.encrypted: Stage | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that the next messages are for."""
        seats = {seat for inboxes in self.waiting.values() for seat in inboxes}
        return tuple(self.stage.cohort[seat] for seat in sorted(seats))

    @property
    def prepared(self) -> bool:
        """Whether keys and shares are made, so that updates come next."""
        return self.steps >= self.terms.preparations

    def is_ready(self, cohort: tuple[int, ...], size: int) -> bool:
        """Whether exactly these nodes have made keys and shares for a model of this size."""
        return self.prepared and self.stage.size == size and self.nodes == cohort

    def message(self, node: int) -> Stage | None:
        """What the node gets next, if anything."""
        seat = self.stage.seat(node)
        blobs = {lane: inboxes[seat] for lane, inboxes in self.waiting.items() if seat in inboxes}
        if not blobs:
            return None
        return replace(self.stage, blobs=blobs)

    def receive(self, replies: Mapping[int, Stage]) -> None:
        """Steps each lane with what its nodes answered."""
        seats = {self.stage.seat(node): reply for node, reply in replies.items()}
        for lane in tuple(self.waiting):
            bodies = {}
            for seat, reply in seats.items():
                self._check(seat, reply)
                if lane in reply.blobs:
                    bodies[seat] = reply.blobs[lane]
            self._step(lane, bodies)
        if self.steps == self.terms.preparations:
            self.survivors = len(replies)
        self.steps += 1

    def _step(self, lane: str, bodies: Mapping[int, bytes]) -> None:
        outcome = self.servers[lane].step(bodies)
        if isinstance(outcome, Released):
            self.released[lane] = outcome
            del self.waiting[lane]
        elif lane == "update" and self.terms.blind:
            summed = next(iter(outcome.values()))
            self.encrypted = replace(self.stage, blobs={"update": summed})
            del self.waiting[lane]
        else:
            self.waiting[lane] = outcome

    def _check(self, seat: int, reply: Stage) -> None:
        for name in ("run", "session", "kind", "number", "cohort", "size"):
            if getattr(reply, name) != getattr(self.stage, name):
                raise ProtocolViolation(
                    f"client {seat} answers another {name} than round {self.stage.number} asked "
                    "for; it is replayed or foreign."
                )


class ServerRounds:
    """The rounds of a run, one after the other, whatever carries their messages.

    Under secure aggregation the next round's keys and shares ride on this one's messages.
    """

    def __init__(self, terms: Terms, public: Any = None, events: Sequence[Event] = ()) -> None:
        self.terms, self._public = terms, public
        self.events = list(events)  # the rounds of training so far, of runs before this one too
        self.refused: dict[int, str] = {}  # the nodes that left the last round, and why
        self.released = 0  # rounds of training that gave a sum
        self._numbers: dict[Kind, int] = {"train": 0, "evaluate": 0}
        self._following: dict[Kind, ServerRound] = {}
        self._sums: list[Stage] = []  # what clients must apply to the first model, if blind
        self._delivered: dict[int, int] = {}

    def spent(self, clients: int) -> str | None:
        """Why nothing may be trained any more, if so."""
        return self.terms.refusal([*self.events, self.terms.event(clients)])

    def play(
        self,
        run: int,
        kind: Kind,
        cohort: tuple[int, ...],
        size: int,
        deliver: Deliver,
        shown: bytes = b"",
    ) -> ServerRound:
        """One round to its end; what raises here fails that round, and the next may go on.

        `shown` is the digest of the app's own message, the same for all.
        """
        self.refused.clear()
        self.terms.require_cohort(len(cohort))
        current = self._following.pop(kind, None)
        if current is None or not current.is_ready(cohort, size):
            current = self._begin(run, kind, cohort, size)
            while not current.prepared:
                self._exchange(current, None, deliver, asks=False)
        for server in current.servers.values():
            server.session.shown = shown
        self._numbers[kind] += 1
        following = None
        if kind == "train":
            self.events.append(self.terms.event(len(cohort)))
        if self.terms.preparations and not (kind == "train" and self.spent(len(cohort))):
            following = self._begin_following(run, kind, current.nodes, size)
        asks = True
        while current.waiting:
            following = self._exchange(current, following, deliver, asks=asks)
            asks = False
            if following is not None and following.prepared:
                self._following[kind], following = following, None
        if current.encrypted is not None:
            self._sums.append(replace(current.encrypted, version=len(self._sums) + 1))
        self.released += kind == "train"
        _log_released(current)
        return current

    def reply_counts(self, round: ServerRound | None, cohort: int) -> dict[str, int]:
        """How many were asked, are in the sum (none where the round failed) and refused."""
        summed = 0 if round is None else round.survivors
        return {"cohort": cohort, "survivors": summed, "refusals": len(self.refused)}

    def failure(self, error: TrilemmaError, cohort: int) -> str:
        """Why a round failed, with what most of the nodes that refused say."""
        reason = f"{type(error).__name__}: {error}"
        if self.refused:
            ((said, times),) = Counter(self.refused.values()).most_common(1)
            refused = f"{len(self.refused)} of {cohort} nodes refused"
            reason += f" {refused}, {times} of the nodes say {said}"
        return reason

    def _begin(self, run: int, kind: Kind, cohort: tuple[int, ...], size: int) -> ServerRound:
        number = self._numbers[kind] + 1
        return ServerRound(self.terms, run, kind, number, cohort, size, self._public)

    def _begin_following(
        self, run: int, kind: Kind, cohort: tuple[int, ...], size: int
    ) -> ServerRound | None:
        try:
            return self._begin(run, kind, cohort, size)
        except TrilemmaError:  # those who are left are too few for a round of their own
            return None

    def _exchange(
        self, current: ServerRound, following: ServerRound | None, deliver: Deliver, *, asks: bool
    ) -> ServerRound | None:
        """One message to each node that is due one, and its answer to both rounds.

        Returns the round that follows, or None where that one failed: it is started afresh then.
        """
        outgoing = {node: self._due(node, current, following, asks) for node in current.nodes}
        known, answers = len(self._sums), deliver(outgoing, asks)
        self._note_lost(outgoing, answers)
        answered = {
            node: answer for node, answer in answers.items() if not isinstance(answer, str)
        }
        if self.terms.blind and asks:
            # Who refused may have lost its model: it gets every sum again.
            self._delivered.update({node: known if node in answered else 0 for node in outgoing})
        _require_sessions((current, following), answered)
        current.receive(_of(current, answered))
        if following is None:
            return None
        try:
            following.receive(_of(following, answered))
        except TrilemmaError as error:
            _LOG.info("the next round starts afresh: %s", error)
            return None
        return following

    def _due(
        self, node: int, current: ServerRound, following: ServerRound | None, asks: bool
    ) -> list[Stage]:
        """What a node gets: its stage of both rounds, and the sums that it has not applied."""
        stages = [current.message(node)]
        if following is not None and node in following.nodes:
            stages.append(following.message(node))
        if asks:
            stages += self._sums[self._delivered.get(node, 0) :]
        return [stage for stage in stages if stage is not None]

    def _note_lost(self, asked: Iterable[int], answers: Answers) -> None:
        """Keeps why nodes refused; a framework may tell of a lost node by another's number."""
        for node in asked:
            answer = answers.get(node, "it fell silent")
            if isinstance(answer, str):
                _LOG.warning("node %d dropped out: %s", node, answer)
                if node in answers:
                    self.refused[node] = answer


def _require_sessions(
    rounds: Iterable[ServerRound | None], answered: Mapping[int, list[Stage]]
) -> None:
    """Raises where a node answers a session of neither round."""
    sessions = {round.stage.session for round in rounds if round is not None}
    for node, stages in answered.items():
        if foreign := [stage for stage in stages if stage.session not in sessions]:
            raise ProtocolViolation(
                f"node {node} answers another session than it was asked for, of round "
                f"{foreign[0].number}; it is replayed or foreign."
            )


def _log_released(current: ServerRound) -> None:
    """Says on the server what is odd about a round's sums."""
    number = current.stage.number
    for lane, value in current.released.items():
        if lane == "update" and not value.mean.any():
            _LOG.warning(
                "round %d: the sum of all updates is zero; the nodes' logs say what their apps "
                "did not make",
                number,
            )
        if value.saturated:
            _LOG.warning(
                "round %d: %.2g %% of the %s lay beyond the range, and count as its edge",
                number,
                100 * value.saturated,
                lane,
            )


def _of(round: ServerRound, answered: Mapping[int, list[Stage]]) -> dict[int, Stage]:
    session = round.stage.session
    return {
        node: stage
        for node, stages in answered.items()
        for stage in stages
        if stage.session == session
    }
