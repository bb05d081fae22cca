from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.federation.nodes.driver import SIZE, Federation, update_of

from trilemma.errors import ProtocolViolation, TooFewClients
from trilemma.federation.nodes.rounds import ServerRound
from trilemma.federation.nodes.stages import Stage
from trilemma.federation.nodes.terms import Terms

NODES = (3, 40, 55)
SHARING = Terms.of("secret-sharing:max_weight=100", weighting="equal", threshold=2)


def test_a_round_ends_with_the_mean_of_those_who_answered() -> None:
    federation = Federation(SHARING, {node: {} for node in NODES})
    asked: list[int] = []

    def lose(node: int, stage: Stage) -> Stage:
        asked.append(node)  # for keys, for shares, then for the update
        return replace(stage, run=0) if node == 55 and asked.count(55) == 3 else stage

    federation.on_stage = lose
    released = federation.round(1).released["update"]
    expected = torch.stack([update_of(node) for node in (3, 40)]).mean(0)
    torch.testing.assert_close(released.mean.float(), expected, atol=1e-4, rtol=0)
    assert released.weight == 2
    assert len(federation.refusals) == 1


def test_keys_and_shares_are_ready_for_just_these_nodes_and_this_model() -> None:
    federation = Federation(SHARING, {node: {} for node in NODES})
    made = ServerRound(SHARING, federation.run, "train", 1, NODES, SIZE)
    for step in range(SHARING.preparations):
        assert not made.is_ready(NODES, SIZE), f"{step} of two exchanges are done"
        replies = {}
        for node in made.nodes:
            stage = made.message(node)
            assert stage is not None
            replies[node] = federation.answer(node, stage)
        made.receive(replies)
    assert made.is_ready(NODES, SIZE)
    assert not made.is_ready(NODES[:2], SIZE)
    assert not made.is_ready(NODES, SIZE + 1)


@pytest.mark.parametrize("change", [{"run": 5}, {"session": "f" * 32}])
def test_an_answer_to_another_session_ends_the_round(change: dict[str, object]) -> None:
    terms = Terms.of("none")
    federation = Federation(terms, {node: {} for node in NODES})
    made = ServerRound(terms, federation.run, "train", 1, NODES, SIZE)
    stage = made.message(3)
    assert stage is not None
    reply = replace(federation.answer(3, stage), **change)  # type: ignore[arg-type]
    with pytest.raises(ProtocolViolation, match="client 0 answers another session or run"):
        made.receive({3: reply})


def test_too_few_answers_end_the_round() -> None:
    made = ServerRound(SHARING, 1, "train", 1, NODES, SIZE)
    with pytest.raises(TooFewClients):
        made.receive({})
