"""What a node remembers and refuses, without any framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.deployment.nodes.driver import RUN, SIZE, Federation, call_of, update_of

from trilemma.deployment.nodes.answering import answer
from trilemma.deployment.nodes.app_answers import Call, Reply, work_of
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.server_rounds import ServerRound
from trilemma.deployment.nodes.stages import Stage
from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import (
    BudgetSpent,
    InvalidInput,
    ProtocolViolation,
    RangeExceeded,
    TooFewClients,
)
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining

NODES = (3, 40, 55)
NOISE = Terms.of("randomization:variance=25.0,clip=1.0", weighting="equal", budget=1.0)
MEASURED = Deployment(LocalTraining(lr=1.0), SIZE, clients=3, cohort=3, threshold=3, rounds=2)
SHARING = Terms.deployed("secret-sharing:max_weight=100", MEASURED)


def configured(folder: Path, **changes: Any) -> dict[int, dict[str, Any]]:
    """A ledger of each node's own."""
    return {
        node: {"trilemma-ledger": str(folder / f"{node}"), "trilemma-data": "ward"} | changes
        for node in NODES
    }


def test_two_runs_and_a_restart_share_one_budget(tmp_path: Path) -> None:
    config = configured(tmp_path)
    Federation(NOISE, config, run=1).round(1)
    assert Ledger(tmp_path / "3").events("ward") == (Event(5.0),)
    second = Federation(NOISE, config, run=2)  # with nothing in any memory
    with pytest.raises(TooFewClients):
        second.round(1)
    assert len(second.refusals) == len(NODES)
    assert second.refusals[0].startswith(
        "BudgetSpent: another round would bring the data to ε = 1.061"
    )
    assert not second.sent
    other = configured(tmp_path, **{"trilemma-data": "another ward"})
    Federation(NOISE, other, run=3).round(1)


def test_the_rounds_of_a_claim_end_over_all_runs(tmp_path: Path) -> None:
    config = configured(tmp_path)
    for run in (1, 2):
        made = Federation(SHARING, config, run=run).round(1)
        expected = torch.stack([update_of(node) for node in NODES]).mean(0)
        torch.testing.assert_close(
            made.released["update"].mean.float(), expected, atol=1e-4, rtol=0
        )
    last = Federation(SHARING, config, run=3)
    with pytest.raises(TooFewClients):
        last.round(1)
    assert "took part in 2 rounds, and the claim is for 2" in last.refusals[0]
    assert not last.sent, "not even keys leave"


def test_a_round_counts_before_its_update_leaves_even_if_it_fails(tmp_path: Path) -> None:
    terms = Terms.of(
        f"{NOISE.protection.describe()}+secret-sharing", weighting="equal", budget=9.0
    )

    def cut(node: int, stage: Stage) -> Stage:  # from the message that asks for the update
        body = stage.blobs["update"]
        return replace(stage, blobs={"update": body[:-1] if b"BOX" in body[:8] else body})

    federation = Federation(terms, configured(tmp_path), on_stage=cut)
    with pytest.raises(TooFewClients):
        federation.round(1)
    (event,) = Ledger(tmp_path / "3").events("ward")
    assert event.rounds == 1


def test_a_sum_with_a_claim_does_not_say_what_lay_beyond_the_range(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That count has no noise of its own; a node says it in its own log."""
    narrow = "randomization:variance=25.0,clip=1.0+secret-sharing:max_weight=100,clip_range=0.1"
    with pytest.raises(RangeExceeded, match=r"coordinates lay beyond clip_range=0\.1"):
        Federation(Terms.of(narrow, weighting="equal"), {node: {} for node in NODES}).round(1)
    claimed = Federation(Terms.of(narrow, weighting="equal", budget=9.0), configured(tmp_path))
    assert claimed.round(1).released["update"].saturated == 0
    assert "beyond clip_range=0.1, and count as its edge" in caplog.text


def test_each_asking_is_counted_before_the_app_runs(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "3")
    federation = Federation(NOISE, configured(tmp_path))
    rounds: list[int] = []

    def call(stage: Stage) -> Call:
        made = call_of(3, stage, NOISE)

        def run() -> Reply:
            rounds.append(sum(event.rounds for event in ledger.events("ward")))
            raise RuntimeError("the app fails")

        return replace(made, run=run)

    spent = ServerRound(NOISE, RUN, "train", 1, NODES, SIZE).message(3)
    assert spent is not None
    (reply,) = answer(federation.node(3), "train", [spent], call)
    assert len(reply.blobs["update"]) == len(federation.answer(40, spent).blobs["update"])
    with pytest.raises(ProtocolViolation, match="is at stage 'done'"):
        answer(federation.node(3), "train", [spent], call)
    assert rounds == [1]


def test_a_message_that_a_node_refuses_costs_nothing(tmp_path: Path) -> None:
    federation = Federation(NOISE, configured(tmp_path))

    def refused(stage: Stage) -> Call:
        raise ProtocolViolation("the model has 7 parameters, the round is for 6.")

    stage = ServerRound(NOISE, RUN, "train", 1, NODES, SIZE).message(3)
    assert stage is not None
    for changed in (stage, replace(stage, terms="none"), replace(stage, run=5)):
        with pytest.raises(ProtocolViolation):
            answer(federation.node(3), "train", [changed], refused)
    assert Ledger(tmp_path / "3").events("ward") == ()


def test_evaluations_and_queries_are_counted_apart(tmp_path: Path) -> None:
    Federation(NOISE, configured(tmp_path)).round(1, "evaluate")
    assert Ledger(tmp_path / "3").events("ward") == ()
    assert Ledger(tmp_path / "3").asked("ward") == {"evaluate": 1}
    named = Terms.of("none", queries=("stats",))
    node = Federation(named, configured(tmp_path)).node(3)
    node.query("stats")
    for other in ("default", "labels"):
        with pytest.raises(ProtocolViolation, match=f"answers no query '{other}'"):
            node.query(other)
    assert Ledger(tmp_path / "3").asked("ward") == {"evaluate": 1, "query": 1}


def test_more_clients_than_the_weights_have_room_for_are_refused_before_they_count(
    tmp_path: Path,
) -> None:
    terms = Terms.of("secret-sharing:max_weight=2", weighting="equal")
    federation = Federation(terms, configured(tmp_path))
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert "3 clients weigh at least one each, and max_weight = 2" in federation.refusals[0]
    assert Ledger(tmp_path / "3").events("ward") == ()


@pytest.mark.parametrize(
    ("reported", "weight"),
    [(5, 5), (7.0, 7), (1000, 100), (None, 5), (0, 5), (2.5, 5), (float("inf"), 5), ("5", 5)],
)
def test_a_count_of_records_that_makes_no_sense_leaves_the_last_one(
    reported: object, weight: int
) -> None:
    terms = Terms.of("secret-sharing:max_weight=100")
    federation = Federation(terms, {node: {} for node in NODES})

    def work(metric: object) -> int:
        stage = ServerRound(terms, RUN, "train", 1, NODES, SIZE).stage
        made = call_of(3, stage, terms)
        made = replace(made, run=lambda: Reply(made.arrays, {"num-examples": metric}))
        return work_of(federation.node(3), stage, made).weight

    assert work(None) == 1
    assert work(5) == 5
    assert work(reported) == weight


def test_a_damaged_ledger_lets_nothing_leave(tmp_path: Path) -> None:
    config = configured(tmp_path)
    for node in NODES:
        (tmp_path / f"{node}").write_text("{")
        (tmp_path / f"{node}").chmod(0o600)
    federation = Federation(NOISE, config)
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert "is damaged, and nothing leaves this node" in federation.refusals[0]
    assert not federation.sent


@pytest.mark.parametrize("missing", ["trilemma-ledger", "trilemma-data"])
def test_limited_terms_need_a_ledger_and_a_name(missing: str, tmp_path: Path) -> None:
    config = configured(tmp_path)
    for value in config.values():
        del value[missing]
    federation = Federation(NOISE, config)
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert (
        "name its file as trilemma-ledger, and the data as trilemma-data"
        in (federation.refusals[0])
    )


def test_terms_without_limits_need_none_but_are_counted_where_there_is_one(tmp_path: Path) -> None:
    free = Terms.of("none", weighting="equal")
    Federation(free, {node: {} for node in NODES}).round(1)
    Federation(free, configured(tmp_path)).round(1)
    assert Ledger(tmp_path / "3").events("ward") == (Event(0.0),)


def test_nodes_that_share_an_environment_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRILEMMA_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.setenv("TRILEMMA_DATA", "digits")
    config = {node: {"partition-id": seat} for seat, node in enumerate(NODES)}
    Federation(NOISE, config).round(1)
    ledger = Ledger(tmp_path / "ledger")
    assert [ledger.events(f"digits {seat}") for seat in range(3)] == [(Event(5.0),)] * 3


def test_another_model_than_the_measured_one_is_refused(tmp_path: Path) -> None:
    federation = Federation(SHARING, configured(tmp_path))
    with pytest.raises(TooFewClients):
        federation.round(1, size=SIZE + 1)
    assert (
        f"the server's model has {SIZE + 1} parameters, but {SIZE} were measured"
        in (federation.refusals[0])
    )


def test_a_node_may_tighten_its_terms_and_not_loosen_a_claim(tmp_path: Path) -> None:
    tighter = Federation(SHARING, configured(tmp_path, **{"trilemma-min-cohort": 4}))
    with pytest.raises(TooFewClients):
        tighter.round(1)
    assert "this node is summed with 4 clients at least" in tighter.refusals[0]
    looser = Federation(SHARING, configured(tmp_path, **{"trilemma-threshold": 2}))
    with pytest.raises(TooFewClients):
        looser.round(1)
    assert "threshold is 2 here" in looser.refusals[0]
    wrong = Federation(SHARING, configured(tmp_path, **{"trilemma-threshold": "two"}))
    with pytest.raises(TooFewClients):
        wrong.round(1)
    assert "trilemma-threshold must be a whole number, got 'two'" in wrong.refusals[0]


@pytest.mark.parametrize("own", [None, 4, 3])
def test_a_deployments_cohort_is_asked_and_a_nodes_own_minimum_is_summed(
    own: int | None, tmp_path: Path
) -> None:
    nodes = (*NODES, 90)
    measured = replace(MEASURED, clients=4, cohort=4)
    config = {
        node: {"trilemma-ledger": str(tmp_path / f"{node}"), "trilemma-data": "ward"}
        | ({} if own is None else {"trilemma-min-cohort": own})
        for node in nodes
    }
    asked: list[int] = []

    def lose(node: int, stage: Any) -> Any:
        asked.append(node)
        return replace(stage, run=0) if node == 90 and asked.count(90) == 3 else stage

    terms = Terms.deployed("secret-sharing:max_weight=100", measured)
    federation = Federation(terms, config, on_stage=lose)
    if own is None:
        assert federation.round(1).survivors == 3, "as its threshold allows"
        return
    with pytest.raises(TooFewClients):
        federation.round(1)
    sentence = "summed with 4 at least" if own == 4 else "leave it as measured, or measure again"
    assert sentence in federation.refusals[-1]


def test_a_round_is_answered_once(tmp_path: Path) -> None:
    federation = Federation(Terms.of("none"), {node: {} for node in NODES})
    federation.round(1)
    with pytest.raises(TooFewClients):
        federation.round(1)
    assert "round 1 was answered (the last was 1); it is replayed" in federation.refusals[0]
    federation.round(2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"run": 5}, "belongs to run 5, and this is run 77"),
        ({"terms": "none"}, "the server asks for [none], but this node is set to"),
        ({"cohort": (40, 55)}, "node 3 takes no part in round 1"),
        ({"blobs": {}}, "carries no message for any lane"),
        ({"blobs": {"update": b"x"}}, "knows nothing of that session of round 1"),
    ],
)
def test_a_forged_stage_is_refused(change: dict[str, Any], sentence: str) -> None:
    terms = Terms.of("secret-sharing:max_weight=100", weighting="equal")
    federation = Federation(
        terms,
        {node: {} for node in NODES},
        on_stage=lambda node, stage: replace(stage, **change) if node == 3 else stage,
    )
    with pytest.raises((TooFewClients, ProtocolViolation)):
        federation.round(1)
    assert any(sentence in refusal for refusal in federation.refusals) or pytest.fail(
        f"{federation.refusals} do not say: {sentence}"
    )


def test_errors_are_named() -> None:
    assert not issubclass(BudgetSpent, InvalidInput), "its sentence may go to the server"
