"""Rounds of secure aggregation by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from trilemma.crypto.neighbourhoods import Neighbourhood
from trilemma.entropy import System
from trilemma.errors import TooFewClients
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transports.base import Aggregate, Payload
from trilemma.protection.transports.secret_sharing.aggregation_client import SharingClient
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.neighbours import Circle
from trilemma.protection.transports.wire import SERVER, write_message

SHARING = SecretSharing(clip_range=1.0)


@dataclass(frozen=True, kw_only=True)
class Forced(SecretSharing):
    """Secure aggregation in a graph, however small the cohort."""

    graph: Neighbourhood

    def circle(self, round: RoundInfo) -> Circle:
        return Circle(round, self.graph)


def forced(draws: int, threshold: int, checks: int, missing: int = 0) -> SecretSharing:
    return Forced(graph=Neighbourhood(draws, threshold, checks, missing))


STEPS = ("advertise", "share", "masked", "unmask")


def a_round(clients: int = 5, threshold: int = 3, number: int = 0) -> RoundInfo:
    return RoundInfo("test", number, tuple(range(clients)), threshold, mask_seed=1)


def payload(client: int, size: int = 3) -> Payload:
    rng = np.random.default_rng(client)
    return Payload(rng.uniform(-1, 1, size), weight=client + 1)


def open_clients(
    info: RoundInfo, label: bytes = b"", who: Mapping[int, Identity] = MappingProxyType({})
) -> dict[int, Any]:
    return {c: SHARING.client(c, info, who.get(c), System(), label) for c in info.participants}


def play(
    info: RoundInfo,
    drops: Mapping[int, int],
    size: int = 3,
    who: Mapping[int, Identity] = MappingProxyType({}),
    sharing: SecretSharing = SHARING,
) -> tuple[Aggregate | None, dict[int, list[bytes]]]:
    """One round by hand, with the messages of each client; None if it is refused."""
    clients = {c: sharing.client(c, info, who.get(c), System()) for c in info.participants}
    server = sharing.server(info)
    sent: dict[int, list[Any]] = {c: [] for c in clients}
    inboxes: Mapping[int, bytes] = dict.fromkeys(clients, b"")
    for step in range(5):
        replies: dict[int, Any] = {}
        for client, inbox in inboxes.items():
            if step < drops.get(client, 9):
                replies[client] = clients[client].step(
                    inbox, payload(client, size) if step == 2 else None
                )
                sent[client].append(replies[client])
        try:
            outcome = server.step(replies)
        except TooFewClients:
            return None, sent
        if isinstance(outcome, Aggregate):
            return outcome, sent
        inboxes = outcome
    raise AssertionError("five steps must end a round")


def until(stage: str, info: RoundInfo | None = None) -> tuple[dict[int, Any], Any, Any]:
    """Clients about to do `stage`, the honest server and the inboxes it made."""
    info = info or a_round()
    clients, server = open_clients(info), SHARING.server(info)
    inboxes: Any = dict.fromkeys(clients, b"")
    for step in range(STEPS.index(stage)):
        given = {c: payload(c) if step == 2 else None for c in clients}
        inboxes = server.step({c: clients[c].step(inboxes[c], given[c]) for c in clients})
    return clients, server, inboxes


def survivors(client: SharingClient, listed: list[int]) -> bytes:
    return write_message("SUR", client.digest, SERVER, np.array(listed, "<u8").tobytes())
