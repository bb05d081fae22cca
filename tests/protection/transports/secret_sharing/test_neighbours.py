"""Rounds in graphs: sums, dropouts, restored sessions, what a draw and a message must be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.protection.transports.secret_sharing.lying import true_mean
from tests.protection.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    forced,
    payload,
    play,
)

from trilemma.crypto.neighbourhoods import Neighbourhood
from trilemma.entropy import Seeded, System
from trilemma.errors import ProtocolViolation, TooFewClients
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection
from trilemma.protection.transports.base import Aggregate
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.secret_sharing.neighbours import Circle
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, write_message

GRAPH = forced(draws=8, threshold=4, checks=11)
INFO = a_round(20, 14)
CIRCLE = GRAPH.circle(INFO)
WHO = Identity.pinned(INFO.participants, System())


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("step", range(5))
def test_clients_that_drop_out_are_survived(step: int, pinned: bool) -> None:
    """Four of twenty: whatever eight a client drew, four are left."""
    outcome, sent = play(
        INFO, dict.fromkeys((0, 7, 8, 19), step), who=WHO if pinned else {}, sharing=GRAPH
    )
    if pinned and step == 1:
        assert outcome is None, "whoever advertises must share"
        return
    assert outcome is not None
    left = tuple(set(range(20)) - ({0, 7, 8, 19} if step < 3 else set()))
    assert outcome.clients == left
    np.testing.assert_allclose(outcome.mean, true_mean(left), atol=SHARING.step_size())
    sizes = [len(item) - HEADER_BYTES for item in sent[1]]
    assert sizes[0] == 64 + (96 if pinned else 0), "keys; signature and identity"
    assert sizes[1] <= 8 * 180, "a box for each that it drew"


def test_a_round_ends_where_a_client_has_too_few_holders_left() -> None:
    graph = forced(draws=8, threshold=8, checks=11)
    outcome, _ = play(INFO, {3: 2}, sharing=graph)
    assert outcome is None
    CIRCLE.require_holders(0, (1, 2, 3, 4, 5), {1, 2, 3, 4})
    with pytest.raises(TooFewClients, match="3 of the 5 clients that client 0 drew are left"):
        CIRCLE.require_holders(0, (1, 2, 3, 4, 5), {0, 1, 2, 3, 9})


def test_sessions_in_a_graph_survive_their_process() -> None:
    server = GRAPH.server(INFO)
    states = {c: GRAPH.client(c, INFO, WHO[c], System()).export() for c in INFO.participants}
    inboxes: Any = dict.fromkeys(states, b"")
    for step in range(5):
        replies: dict[int, Any] = {}
        for c in inboxes:
            session = GRAPH.restore(states[c], INFO, WHO[c], System())
            replies[c] = session.step(inboxes[c], payload(c) if step == 2 else None)
            states[c] = session.export()
            held = len(session.promised)
            assert (held > 0) == (step >= 3), "the kind of each share is settled by the list"
        inboxes = server.step(replies)
    assert isinstance(inboxes, Aggregate)
    with pytest.raises(ProtocolViolation, match="another round or protection"):
        SHARING.restore(states[0], INFO, WHO[0], System())


def test_draws_are_others_without_repeats_and_uniform() -> None:
    drawn = Counter[int]()
    for _ in range(500):
        holders = CIRCLE.draw(3, System())
        assert len(set(holders)) == 8
        drawn.update(holders)
    assert set(drawn) == set(INFO.participants) - {3}
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-6
    assert Circle(INFO).draw(3, System()) == INFO.participants, "all pairs"


def test_neighbours_are_those_drawn_and_those_who_drew() -> None:
    holders = {0: (1, 2), 1: (2, 3), 2: (9, 1)}  # 3 and 9 are not there
    assert CIRCLE.neighbours(holders) == {0: {1, 2}, 1: {0, 2}, 2: {0, 1}}


def test_boxes_come_with_a_list_of_all_who_shared() -> None:
    body = CIRCLE.write_boxes((1, 2, 5), {2: b"box"})
    assert CIRCLE.read_boxes(1, memoryview(body)) == ((1, 2, 5), {2: b"box"})
    pairs = Circle(INFO)
    plain = pairs.write_boxes((1, 2, 5), {2: b"box"})
    assert pairs.read_boxes(1, memoryview(plain)) == ((1, 2), {2: b"box"})
    with pytest.raises(ProtocolViolation, match="a share of its own"):
        pairs.read_boxes(2, memoryview(plain))
    for parts in ({}, {0: b""}, {0: b"", 1: b"", 2: b""}):
        with pytest.raises(ProtocolViolation, match="come in the parts 0 and 1"):
            CIRCLE.read_boxes(1, memoryview(pack(parts)))


def test_a_box_of_nobody_is_refused() -> None:
    server = GRAPH.server(INFO)
    clients: dict[int, Any] = {c: GRAPH.client(c, INFO, None, System()) for c in INFO.participants}
    keys: Any = server.step({c: client.step(b"") for c, client in clients.items()})
    boxes: Any = server.step({c: client.step(keys[c]) for c, client in clients.items()})
    sharers, table = CIRCLE.read_boxes(0, memoryview(boxes[0][HEADER_BYTES:]))
    for forged in ({**table, 0: b"own"}, {**table, 77: b"stranger"}):
        body = CIRCLE.write_boxes(sharers, forged)
        session = clients[0 if 0 in forged else 1]
        with pytest.raises(ProtocolViolation, match="shares, and is not listed"):
            session.step(write_message("BOX", session.digest, SERVER, body), payload(0))


def test_clients_of_unlike_graphs_cannot_be_summed() -> None:
    other = forced(draws=8, threshold=5, checks=11)
    adverts: dict[int, Any] = {
        c: (other if c == 4 else GRAPH).client(c, INFO, None, System()).step(b"")
        for c in INFO.participants
    }
    with pytest.raises(ProtocolViolation, match="the settings differ"):
        GRAPH.server(INFO).step(adverts)


def test_large_cohorts_draw_a_graph_by_themselves() -> None:
    protection = parse_protection("secret-sharing:clip_range=1.0,max_weight=200")
    info = RoundInfo.new(range(180), Seeded(0), threshold=165)
    circle = protection.transport.circle(info)  # type: ignore[attr-defined]
    assert isinstance(circle.graph, Neighbourhood)
    assert circle.graph.neighbours <= 90
    updates = torch.rand((180, 20), generator=torch.Generator().manual_seed(1)) * 2 - 1
    result = run_round(protection, updates, None, info, drops={5: 2, 9: 3})
    left = [c for c in range(180) if c != 5]
    torch.testing.assert_close(result.mean, updates[left].mean(0), atol=4e-5, rtol=0)
    pairs = parse_protection("secret-sharing:clip_range=1.0,max_weight=200,corrupt=0.9")
    assert pairs.transport.circle(info).graph is None  # type: ignore[attr-defined]
    assert parse_protection(pairs.describe()) == pairs
