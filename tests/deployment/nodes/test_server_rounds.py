from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.deployment.nodes.driver import SIZE, Federation, update_of
from tests.deployment.nodes.pins import pin

from trilemma.deployment.nodes.server_rounds import Answers, Deliver, ServerRound, ServerRounds
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput, ProtocolViolation, TooFewClients, TrilemmaError

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


@pytest.mark.parametrize(
    "change",
    [{"run": 5}, {"session": "f" * 32}, {"kind": "evaluate"}, {"number": 2}, {"size": 7}],
)
def test_an_answer_to_another_session_ends_the_round(change: dict[str, object]) -> None:
    terms = Terms.of("none")
    federation = Federation(terms, {node: {} for node in NODES})
    made = ServerRound(terms, federation.run, "train", 1, NODES, SIZE)
    stage = made.message(3)
    assert stage is not None
    reply = replace(federation.answer(3, stage), **change)  # type: ignore[arg-type]
    with pytest.raises(ProtocolViolation, match=f"client 0 answers another {next(iter(change))} "):
        made.receive({3: reply})


def test_too_few_answers_end_the_round() -> None:
    made = ServerRound(SHARING, 1, "train", 1, NODES, SIZE)
    with pytest.raises(TooFewClients):
        made.receive({})


# The rounds of a run


def carried(federation: Federation, lost: tuple[int, ...] = ()) -> Deliver:
    """Nodes that answer at once, but for the lost."""

    def deliver(stages: Mapping[int, list[Stage]], asks: bool) -> dict[int, list[Stage] | str]:
        answers: dict[int, list[Stage] | str] = {}
        for node, stage in stages.items():
            if node not in lost:
                try:
                    answers[node] = federation.answers(node, stage)
                except TrilemmaError as error:
                    answers[node] = str(error)
        return answers

    return deliver


def test_the_next_rounds_keys_ride_on_this_ones_messages(tmp_path: Path) -> None:
    for config, exchanges in (
        ({node: {} for node in NODES}, [4, 2, 2]),
        (pin(tmp_path, NODES), [4, 2, 2]),
    ):
        terms = Terms.of("secret-sharing:max_weight=100", weighting="equal")
        federation, rounds = Federation(terms, config), ServerRounds(terms)
        counts = []
        for _ in range(3):
            deliver, times = carried(federation), [0]

            def counted(
                stages: Mapping[int, list[Stage]],
                asks: bool,
                deliver: Deliver = deliver,
                times: list[int] = times,
            ) -> Answers:
                times[0] += 1
                return deliver(stages, asks)

            made = rounds.play(federation.run, "train", NODES, SIZE, counted)
            assert made.released["update"].clients == (0, 1, 2)
            assert rounds.reply_counts(made, 3) == {"cohort": 3, "survivors": 3, "refusals": 0}
            counts += times
        assert counts == exchanges
        assert rounds.released == 3


def test_a_failed_round_says_why_and_the_next_one_goes_on() -> None:
    federation, rounds = Federation(SHARING, {node: {} for node in NODES}), ServerRounds(SHARING)
    with pytest.raises(TooFewClients) as caught:
        rounds.play(1, "train", NODES, SIZE, carried(federation))  # another run's number
    assert rounds.reply_counts(None, 3) == {"cohort": 3, "survivors": 0, "refusals": 3}
    reason = rounds.failure(caught.value, 3)
    assert "3 of 3 nodes refused, 3 of the nodes say the message belongs to run 1" in reason
    with pytest.raises(TooFewClients):
        rounds.play(federation.run, "train", NODES, SIZE, carried(federation, lost=(3, 40)))
    assert not rounds.refused
    made = rounds.play(federation.run, "train", NODES, SIZE, carried(federation))
    assert (made.survivors, rounds.released) == (3, 1)
    with pytest.raises(InvalidInput, match="1 clients take part, fewer than the 2"):
        rounds.play(federation.run, "train", NODES[:1], SIZE, carried(federation))
