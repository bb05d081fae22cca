from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.deployment.nodes.driver import SIZE, Federation, call_of, update_of

from trilemma.deployment.nodes.answering import answer
from trilemma.deployment.nodes.app_answers import Call
from trilemma.deployment.nodes.server_rounds import ServerRound
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import ProtocolViolation, TooFewClients

NODES = (3, 40, 55)
PLAIN = Terms.of("none", weighting="equal")


def first(terms: Terms, number: int = 1) -> Stage:
    """What the server sends to node 3 at the start of a round."""
    stage = ServerRound(terms, 77, "train", number, NODES, SIZE).message(3)
    assert stage is not None
    return stage


def call(stage: Stage) -> Call:
    return call_of(3, stage, PLAIN)


def test_the_app_runs_where_a_stage_asks_for_an_update() -> None:
    federation = Federation(PLAIN, {node: {} for node in NODES})
    (reply,) = answer(federation.node(3), "train", [first(PLAIN)], call)
    assert set(reply.blobs) == {"update"}
    sharing = Terms.of("secret-sharing:max_weight=100", weighting="equal")
    other = Federation(sharing, {node: {} for node in NODES})

    def never(stage: Stage) -> Call:
        raise AssertionError("keys need no training")

    (reply,) = answer(other.node(3), "train", [first(sharing)], never)
    assert reply.blobs["update"]


def test_one_message_asks_for_one_update() -> None:
    federation = Federation(PLAIN, {node: {} for node in NODES})
    stages = [first(PLAIN), first(PLAIN, number=2)]
    assert len(answer(federation.node(3), "train", stages, call)) == 1, "the second is left out"
    memory = federation.stores[3].memory
    assert memory["last train"] == 1


def test_a_stage_that_failed_is_not_answered_again() -> None:
    sharing = Terms.of("secret-sharing:max_weight=100", weighting="equal")
    federation = Federation(sharing, {node: {} for node in NODES})
    kept: dict[int, Stage] = {}

    def keep(node: int, stage: Stage) -> Stage:
        kept[node] = stage
        if not stage.blobs["update"]:
            return stage
        return replace(stage, blobs={"update": stage.blobs["update"][:-1]})

    federation.on_stage = keep
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert "cut short" in federation.refusals[0]
    with pytest.raises(ProtocolViolation):
        federation.answer(3, kept[3])


@pytest.mark.parametrize("place", [0, 1])
def test_a_stage_of_one_kind_in_a_message_of_another_is_refused(place: int) -> None:
    federation = Federation(PLAIN, {node: {} for node in NODES})
    stages = [first(PLAIN), first(PLAIN, number=2)]
    stages[place] = replace(stages[place], kind="evaluate")
    with pytest.raises(ProtocolViolation, match="a message to train holds a stage to evaluate"):
        answer(federation.node(3), "train", stages, call)
    forged = replace(first(PLAIN), kind="evaluate", version=1)
    with pytest.raises(ProtocolViolation, match="a message to evaluate holds a stage to evaluate"):
        answer(federation.node(3), "evaluate", [forged], call)
    assert not federation.stores[3].memory, "nothing was begun"


def test_a_message_that_asks_for_nothing_is_refused() -> None:
    federation = Federation(PLAIN, {node: {} for node in NODES})
    with pytest.raises(ProtocolViolation, match="holds 0 sums and asks for nothing"):
        answer(federation.node(3), "train", [], call)


def test_a_sum_is_applied_in_its_order_only() -> None:
    blind = Terms.of("paillier:mode=blind,bits=2048")
    federation = Federation(blind, {node: {} for node in NODES})
    late = replace(first(PLAIN), terms="", version=2, blobs={"update": b""})
    with pytest.raises(ProtocolViolation, match="holds version 0 of the model and cannot apply"):
        answer(federation.node(3), "train", [late], call)


def test_the_weight_of_a_reply_is_its_own() -> None:
    federation = Federation(PLAIN, {node: {} for node in NODES})
    released = federation.round(1).released["update"]
    assert released.weight == len(NODES)
    expected = torch.stack([update_of(node) for node in NODES]).mean(0)
    torch.testing.assert_close(released.mean.float(), expected)
