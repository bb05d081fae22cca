"""Rounds that fail: the last good model stays, the run says so, and the next round goes on."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg
from tests.deployment.flower.harness import (
    MODEL,
    NODES,
    SHARING,
    DirectGrid,
    initial,
    mean_of,
    toy_app,
    train_only,
    with_pins,
)

from trilemma.deployment.flower import ProtectedGrid, Terms
from trilemma.protection.protection import Protection
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing


def failures(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_too_few_survivors_fail_the_round_and_the_next_one_works(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lose(number: int, message: Message) -> Message | None:
        return None if number == 2 and message.metadata.dst_node_id in NODES[:2] else message

    direct = DirectGrid(toy_app(SHARING), on_message=lose)
    with caplog.at_level(logging.INFO):
        result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    assert "TooFewClients: 2 of 4 clients are left" in failures(caplog)
    for node in NODES[:2]:
        assert f"node {node} dropped out: it fell silent" in failures(caplog)
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight"), atol=1e-4
    )
    told = [
        [value[name] for name in ("cohort", "survivors", "refusals")]
        for value in result.train_metrics_clientapp.values()
    ]
    assert told == [[4, 0, 0], [4, 4, 0]], "who is lost does not refuse"
    assert math.isnan(cast(float, result.train_metrics_clientapp[1]["train_loss"]))


@pytest.mark.parametrize("strategy", [FedAvg, FedAdam])
def test_a_run_whose_rounds_all_fail_keeps_its_first_model_and_says_so(
    strategy: type[FedAvg], caplog: pytest.LogCaptureFixture
) -> None:
    narrow = Terms.of(Protection((), SecretSharing(max_weight=100, clip_range=0.001)))
    grid = ProtectedGrid(DirectGrid(toy_app(narrow)), narrow)
    made = strategy(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    result = made.start(grid, initial(), num_rounds=3)
    for name, values in MODEL.items():
        np.testing.assert_array_equal(result.arrays[name].numpy(), values)
    told = result.train_metrics_clientapp
    assert [told[number]["survivors"] for number in (1, 2, 3)] == [0, 0, 0]
    assert failures(caplog).count("% of the coordinates lay beyond clip_range=0.001") == 3
    assert failures(caplog).count("the train round failed, and the model stays as it was") == 3


@pytest.mark.parametrize("strategy", [FedAvg, FedAdam])
def test_a_cohort_that_becomes_too_small_fails_its_round_and_ends_no_run(
    strategy: type[FedAvg], caplog: pytest.LogCaptureFixture
) -> None:
    terms = Terms.of(SHARING, threshold=4)
    direct = DirectGrid(toy_app(terms))
    grid = ProtectedGrid(direct, terms)
    made = strategy(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    good = made.start(grid, initial(), num_rounds=1).arrays
    late = direct.contexts.pop(NODES[0])
    result = made.start(grid, good, num_rounds=1)
    assert "3 clients take part, fewer than the 4" in failures(caplog)
    np.testing.assert_array_equal(result.arrays["bias"].numpy(), good["bias"].numpy())
    assert result.train_metrics_clientapp[1]["survivors"] == 0
    direct.contexts[NODES[0]] = late
    again = made.start(grid, good, num_rounds=1)
    assert again.train_metrics_clientapp[1]["survivors"] == 4


@pytest.mark.parametrize(("least", "survivors"), [(4, 0), (3, 3)])
def test_a_minimum_cohort_counts_those_whose_sum_is_released(
    least: int, survivors: int, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(number: int, message: Message) -> Message | None:
        return None if number == 2 and message.metadata.dst_node_id == NODES[0] else message

    direct = DirectGrid(
        toy_app(SHARING), node_config={"trilemma-min-cohort": least}, on_message=lose
    )
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    assert result.train_metrics_clientapp[1]["survivors"] == survivors
    sentence = "the sum of 3 clients would be released"
    assert (sentence in failures(caplog)) == (survivors == 0)


@pytest.mark.parametrize("what", ["model", "config"])
def test_a_server_that_shows_one_node_something_else_gets_no_sum_from_pinned_nodes(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the others could be made to send zeros, and the sum be one node's update."""

    def lie(number: int, message: Message) -> Message:
        if number == 2 and message.metadata.dst_node_id == NODES[0]:
            other = RecordDict(dict(message.content))
            if what == "model":
                steep = {name: Array(np.asarray(2 * values)) for name, values in MODEL.items()}
                other["arrays"] = ArrayRecord(steep)
            else:
                other["config"] = ConfigRecord({"server-round": 1, "lr": 7.0})
            message.content = other
        return message

    direct = with_pins(DirectGrid(toy_app(SHARING), on_message=lie), tmp_path)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    summed = [value["survivors"] for value in result.train_metrics_clientapp.values()]
    assert summed == [0, 4], "the second round is honest again"
    assert f"node {NODES[0]} refuses: 1 clients signed" in failures(caplog)
    assert "shown others different lists, or another model" in failures(caplog)


@pytest.mark.parametrize("exchange", [0, 2, 3, 4])
def test_pinned_nodes_survive_a_dropout(exchange: int, tmp_path: Path) -> None:
    def lose(number: int, message: Message) -> Message | None:
        return None if number >= exchange and message.metadata.dst_node_id == NODES[1] else message

    direct = with_pins(DirectGrid(toy_app(SHARING), on_message=lose), tmp_path)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=1)
    counted = NODES if exchange > 2 else [node for node in NODES if node != NODES[1]]
    expected = mean_of(counted, "weight")
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


def test_a_pinned_node_that_shares_nothing_fails_its_round_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def lose(number: int, message: Message) -> Message | None:
        return None if number == 1 and message.metadata.dst_node_id == NODES[1] else message

    direct = with_pins(DirectGrid(toy_app(SHARING), on_message=lose), tmp_path)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=2)
    assert "advertised keys and sent no shares" in failures(caplog)
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight"), atol=1e-4
    )
