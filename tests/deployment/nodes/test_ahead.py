"""Lies about keys and shares that nodes made a round ahead, and nodes that have lost theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.deployment.nodes.driver import SIZE, DictStore, Federation
from tests.deployment.nodes.pins import pin

from trilemma.deployment.nodes.server_rounds import ServerRound, ServerRounds
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import ProtocolViolation, TrilemmaError
from trilemma.protection.transports.secret_sharing.identity import SIGNATURE_BYTES
from trilemma.protection.transports.wire import HEADER_BYTES, SERVER, pack, unpack, write_message

NODES = (3, 40, 55, 77)
EMPTY = {"update": b""}
SHARING = Terms.of("secret-sharing:max_weight=100", weighting="equal")


class Ahead:
    """Pinned nodes and their server, which has played one round and prepared the next.

    `few` are the nodes that are shown no keys of node 77 when they prepare.
    """

    def __init__(self, folder: Path) -> None:
        self.federation = Federation(SHARING, pin(folder, NODES))
        self.rounds, self.exchanges = ServerRounds(SHARING), 0
        self.few: tuple[int, ...] = ()
        self.stages: dict[int, Stage] = {}  # the last of each round
        self.heard: dict[tuple[str, int], list[bytes]] = {}  # of a session and node, in order
        self.play()

    def play(self) -> ServerRound:
        """One round of the server; `exchanges` says how many it took."""
        self.exchanges = 0
        return self.rounds.play(self.federation.run, "train", NODES, SIZE, self._deliver)

    def _deliver(
        self, stages: Mapping[int, list[Stage]], asks: bool
    ) -> dict[int, list[Stage] | str]:
        self.exchanges += 1
        return {node: self.ask(node, *stage) for node, stage in stages.items()}

    def ask(self, node: int, *stages: Stage) -> list[Stage] | str:
        """A node's answers, or why it refuses."""
        shown = [self._hidden(stage) if node in self.few else stage for stage in stages]
        try:
            replies = self.federation.answers(node, shown)
        except TrilemmaError as error:
            return str(error)
        for reply in replies:
            self.stages[reply.number] = reply
            self.heard.setdefault((reply.session, node), []).append(reply.blobs["update"])
        return replies

    def _hidden(self, stage: Stage) -> Stage:
        message = stage.blobs["update"]
        if message[4:7] != b"KEY":
            return stage
        table = unpack(message[HEADER_BYTES:])
        table.pop(3)
        return replace(stage, blobs={"update": message[:HEADER_BYTES] + pack(table)})

    def tell(self, round: int, kind: str, bodies: Mapping[int, bytes]) -> dict[int, str]:
        """A message of the server's own making by seat; who refuses, and why."""
        stage, refused = self.stages[round], {}
        digest = stage.blobs["update"][8:24]
        for seat, body in bodies.items():
            message = write_message(kind, digest, SERVER, body)
            asked = replace(stage, terms=SHARING.describe(), blobs={"update": message})
            if isinstance(answer := self.ask(NODES[seat], asked), str):
                refused[seat] = answer
        return refused

    def last(self, round: int) -> dict[int, bytes]:
        """What each node answered last in a round, by seat."""
        session = self.stages[round].session
        return {s: self.heard[session, node][-1][HEADER_BYTES:] for s, node in enumerate(NODES)}


@pytest.fixture
def ahead(tmp_path: Path) -> Ahead:
    return Ahead(tmp_path)


def test_a_stale_advertisement_is_taken_in_no_other_session(ahead: Ahead) -> None:
    """The server gives up what was prepared, and shows one node's keys of that time."""
    old = ahead.heard[ahead.stages[2].session, 77][0]
    anew = ServerRound(SHARING, ahead.federation.run, "train", 2, NODES, SIZE)
    for node in NODES:
        stage = anew.message(node)
        assert stage is not None
        assert not isinstance(ahead.ask(node, stage), str)
    table = pack(ahead.last(2) | {3: old[HEADER_BYTES:]})
    refused = ahead.tell(2, "KEY", dict.fromkeys((0, 1, 2), table))
    assert set(refused) == {0, 1, 2}
    assert all("client 3 are not signed by a pinned peer" in value for value in refused.values())
    session = anew.stage.session
    replies = {seat: ahead.heard[session, node][0] for seat, node in enumerate(NODES)}
    with pytest.raises(ProtocolViolation, match="client 3 belongs to another round"):
        anew.servers["update"].step(replies | {3: old})


def test_an_advertisement_that_half_of_the_nodes_see_opens_nothing(ahead: Ahead) -> None:
    ahead.few = NODES[:2]
    assert ahead.play().survivors == 4
    boxes = {seat: unpack(body) for seat, body in ahead.last(3).items()}
    assert {seat: set(box) for seat, box in boxes.items()} == {
        0: {1, 2},
        1: {0, 2},
        2: {0, 1, 3},
        3: {0, 1, 2},
    }
    told = {
        seat: pack({peer: box[seat] for peer, box in boxes.items() if seat in box})
        for seat in range(4)
    }
    told |= {seat: pack({p: boxes[p][seat] for p in (0, 1, 2) if p != seat}) for seat in (0, 1)}
    refused = ahead.tell(3, "BOX", told)
    assert set(refused) == {3}
    assert "2 of 4 clients are left in round 3" in refused[3]
    signatures = pack({s: body[:SIGNATURE_BYTES] for s, body in ahead.last(3).items() if s < 3})
    refused = ahead.tell(3, "ALL", dict.fromkeys(range(3), signatures))
    assert set(refused) == {0, 1, 2}
    assert all("clients signed the lists that client" in value for value in refused.values())


def test_keys_that_were_made_for_a_round_serve_no_other(ahead: Ahead) -> None:
    prepared = ahead.rounds._following["train"].message(3)
    assert prepared is not None
    assert ahead.play().survivors == 4
    again = ahead.ask(3, prepared)
    assert isinstance(again, str)
    assert "client 0 has answered round 2 and answers no more" in again
    for number in (3, 4):
        other = ahead.ask(3, replace(prepared, number=number))
        assert isinstance(other, str)
        assert "knows nothing of that session" in other
    # The same session, asked for again in a later round: other keys, to which no old ones fit.
    keys = {seat: ahead.heard[prepared.session, node][0] for seat, node in enumerate(NODES)}
    for node in NODES:
        assert not isinstance(ahead.ask(node, replace(prepared, number=4, blobs=EMPTY)), str)
    assert not set(keys.values()) & set(ahead.last(4).values())
    own = ahead.last(4)[0]
    stale = {seat: key[HEADER_BYTES:] for seat, key in keys.items()} | {0: own}
    (refusal,) = ahead.tell(4, "KEY", {0: pack(stale)}).values()
    assert "not signed by a pinned peer" in refusal


def test_a_node_that_lost_its_keys_says_so_and_sits_the_round_out(ahead: Ahead) -> None:
    begun = ahead.stages[2]
    ahead.federation.stores[3] = DictStore()
    afresh = ahead.ask(3, replace(begun, terms=SHARING.describe(), blobs=EMPTY))
    assert isinstance(afresh, str)
    assert "was restarted in round 2, whose session it had begun" in afresh
    made = ahead.play()
    assert (made.survivors, ahead.exchanges) == (3, 3), "who is left sign who is lost"
    assert "the node was restarted" in ahead.rounds.refused[3]
    told = []
    for _ in range(2):
        made = ahead.play()
        told.append((made.survivors, ahead.exchanges))
    assert told == [(4, 4), (4, 2)], "it is asked for keys again, and then ahead"
