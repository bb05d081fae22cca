"""The server's half of one round: its sessions, what they wait for, what they gave."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trilemma.errors import ProtocolViolation
from trilemma.federation.nodes.stages import Stage
from trilemma.federation.nodes.terms import Kind, Terms
from trilemma.protections.sessions import ProtectedServer
from trilemma.protections.transcripts import Released

__all__ = ["ServerRound"]


class ServerRound:
    """Steps the server's session of each lane; a node that does not answer has dropped out.

    `waiting` holds each unfinished lane's next message by seat, `released` what finished lanes
    gave, `encrypted` the sum that the server cannot read.
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
        self.terms, self.steps = terms, 0
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
        if (reply.run, reply.session) != (self.stage.run, self.stage.session):
            raise ProtocolViolation(
                f"client {seat} answers another session or run than round {self.stage.number} "
                "asked for; it is replayed or foreign."
            )
