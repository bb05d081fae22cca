"""Protected rounds through Flower's own strategies and apps, in this process."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Message, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedMedian, Krum, Strategy
from tests.deployment.flower.harness import (
    LOSSES,
    MODEL,
    NODES,
    RECORDS,
    SHARING,
    DirectGrid,
    changed,
    cut,
    fedavg,
    initial,
    mean_of,
    small_paillier,
    toy_app,
    train_only,
    with_ledgers,
    with_pins,
)

from trilemma.crypto.paillier import PrivateKey
from trilemma.deployment.flower import (
    Deployment,
    ProtectedGrid,
    ServerTraining,
    Terms,
    from_verdict,
)
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

TRANSPORTS: dict[str, Transport] = {
    "plain": Plain(),
    "secret-sharing": SecretSharing(max_weight=100),
    "paillier reveal": small_paillier(),
}


@pytest.mark.parametrize("name", TRANSPORTS)
def test_each_aggregation_equals_plain_fedavg(name: str, key: PrivateKey, key_file: Path) -> None:
    plain = fedavg().start(DirectGrid(toy_app(None)), initial(), num_rounds=1)
    terms = Terms(Protection((), TRANSPORTS[name]), metrics=("train_loss",))
    direct = DirectGrid(toy_app(terms), node_config={"trilemma-key": str(key_file)})
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    result = fedavg().start(grid, initial(), num_rounds=1)
    for text in ("weight", "bias"):
        made, expected = result.arrays[text].numpy(), plain.arrays[text].numpy()
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made, expected, atol=3e-5)
        np.testing.assert_allclose(expected, mean_of(NODES, text), atol=1e-6)
    assert result.arrays["batches"].numpy() == MODEL["batches"]
    loss = sum(RECORDS[node] * LOSSES[node] for node in NODES) / sum(RECORDS.values())
    assert result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("carried", ["none", "secret-sharing:clip_range=8.0,max_weight=100"])
def test_a_fedsgd_verdict_protects_the_gradient_that_was_measured(
    carried: str, tmp_path: Path
) -> None:
    variance, lr = 0.04, 0.1
    noise = f"randomization:variance={variance}"
    deployment = Deployment(
        LocalTraining("fedsgd", lr=lr, batch=4),
        *(65, 4, 4, 3),
        weighting="records",
        rounds=1,
        server=ServerTraining(lr),
        total_records=100,
    )
    path = tmp_path / "verdict.json"
    document = {
        "schema_version": 4,
        "protection": noise if carried == "none" else f"{noise}+{carried}",
        "deployment": asdict(deployment),
    }
    path.write_text(json.dumps(document))
    terms = from_verdict(path, deployment)
    direct = with_ledgers(DirectGrid(toy_app(terms)), tmp_path)
    result = train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=2)
    assert list(result.train_metrics_clientapp) == [1], "one round was measured"
    shares = np.array([RECORDS[node] for node in NODES]) / sum(RECORDS.values())
    spread = lr * math.sqrt(variance) * np.linalg.norm(shares)
    off = np.concatenate(
        [
            (result.arrays[text].numpy() - mean_of(NODES, text)).ravel()
            for text in ("weight", "bias")
        ]
    )
    assert 1e-9 < chi2.cdf((off**2).sum() / spread**2, len(off)) < 1 - 1e-9


FALLING = Deployment(
    LocalTraining("fedsgd", lr=0.1, batch=4),
    *(65, 4, 4, 3),
    weighting="records",
    rounds=3,
    server=ServerTraining(0.6, decay=True),
    total_records=100,
)
STEPPED = [0.6, 1.0, 1.2]  # over lr: after steps of 0.6, 0.4 and 0.2


def stepped(rounds: int) -> np.ndarray:
    """The weights after the falling steps, where an app's local step is lr · gradient."""
    return np.asarray(
        MODEL["weight"] + STEPPED[rounds - 1] / 0.1 * (mean_of(NODES, "weight") - MODEL["weight"])
    )


@pytest.mark.parametrize("mode", ["plain", "secret-sharing", "blind"])
def test_the_server_takes_the_steps_that_were_measured(
    mode: str, tmp_path: Path, key: PrivateKey, key_file: Path
) -> None:
    transport = {
        "plain": Protection().transport,
        "secret-sharing": SecretSharing(clip_range=8.0, max_weight=100, ring_bits=64),
        "blind": Paillier(bits=512, mode="blind", clip_range=8.0, max_weight=100, insecure=True),
    }[mode]
    terms = Terms.deployed(Protection((), transport), FALLING)
    seen: list[dict[str, np.ndarray]] = []
    direct = with_ledgers(
        DirectGrid(toy_app(terms, seen), node_config={"trilemma-key": str(key_file)}), tmp_path
    )
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    result = fedavg().start(grid, initial(), num_rounds=3)
    np.testing.assert_allclose(seen[-1]["weight"], stepped(3), atol=2e-2)
    if mode != "blind":
        np.testing.assert_allclose(result.arrays["weight"].numpy(), stepped(3), atol=2e-2)


def test_a_run_that_was_stopped_goes_on_with_the_measured_steps(tmp_path: Path) -> None:
    terms = Terms.deployed("none", FALLING)
    app, checkpoint, arrays = toy_app(terms), tmp_path / "model.npz", initial()
    for rounds in (1, 3):
        direct = with_ledgers(DirectGrid(app), tmp_path)
        grid = ProtectedGrid(direct, terms, checkpoint=checkpoint)
        result = train_only().start(
            grid, grid.resumed(arrays), num_rounds=grid.rounds_left(rounds)
        )
        made = result.arrays["weight"].numpy()
        np.testing.assert_allclose(made, stepped(rounds), atol=1e-4)


@pytest.mark.parametrize("kind", [FedAdam, FedAvgM])
def test_a_strategy_with_a_step_of_its_own_is_refused_where_one_was_measured(
    kind: type[FedAvg], tmp_path: Path
) -> None:
    terms = Terms.deployed("none", FALLING)
    direct = with_ledgers(DirectGrid(toy_app(terms)), tmp_path)
    strategy = kind(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    with pytest.raises(InvalidInput, match=f"{kind.__name__} .* takes a server step of its own"):
        strategy.start(ProtectedGrid(direct, terms), initial(), num_rounds=3)
    assert not direct.sent


def test_two_exchanges_a_round_while_the_cohort_stays() -> None:
    terms = Terms.of(
        Protection((), SecretSharing(max_weight=100)), evaluate_metrics=("eval_mean",)
    )
    direct = DirectGrid(toy_app(terms))
    result = fedavg().start(ProtectedGrid(direct, terms), initial(), num_rounds=3)
    kinds = [batch[0].metadata.message_type for batch in direct.sent]
    assert kinds == ["train"] * 4 + ["evaluate"] * 4 + (["train"] * 2 + ["evaluate"] * 2) * 2
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(NODES, "weight", rounds=3), atol=1e-4
    )
    seen = result.evaluate_metrics_clientapp[3]["eval_mean"]
    assert seen == pytest.approx(float(mean_of(NODES, "weight", rounds=3).mean()), abs=1e-4)


def test_pinned_identities_take_no_exchange_more(tmp_path: Path) -> None:
    direct = with_pins(DirectGrid(toy_app(SHARING)), tmp_path)
    result = train_only().start(ProtectedGrid(direct, SHARING), initial(), num_rounds=3)
    assert [len(batch) for batch in direct.sent] == [4] * (4 + 2 + 2)
    expected = mean_of(NODES, "weight", rounds=3)
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


def test_a_changed_cohort_falls_back_to_four_exchanges() -> None:
    terms = Terms.of(Protection((), SecretSharing(max_weight=100)))
    direct = DirectGrid(toy_app(terms))
    grid = ProtectedGrid(direct, terms)
    strategy = train_only(3)
    strategy.start(grid, initial(), num_rounds=1)
    late = direct.contexts.pop(NODES[0])
    before = len(direct.sent)
    result = strategy.start(grid, initial(), num_rounds=2)
    assert len(direct.sent) - before == 4 + 2
    expected = mean_of(NODES[1:], "weight", rounds=2)
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)
    direct.contexts[NODES[0]] = late
    before = len(direct.sent)
    strategy.start(grid, initial(), num_rounds=1)
    assert len(direct.sent) - before == 4


def test_fedadam_runs_unchanged() -> None:
    def adam() -> FedAdam:
        return FedAdam(min_train_nodes=4, min_available_nodes=4, fraction_evaluate=0.0)

    plain = adam().start(DirectGrid(toy_app(None)), initial(), num_rounds=2)
    terms = Terms.of(Protection((), SecretSharing(max_weight=100)))
    grid = ProtectedGrid(DirectGrid(toy_app(terms)), terms)
    result = adam().start(grid, initial(), num_rounds=2)
    for text in ("weight", "bias"):  # Adam divides by small numbers, which magnifies rounding
        np.testing.assert_allclose(
            result.arrays[text].numpy(), plain.arrays[text].numpy(), atol=2e-3
        )


@pytest.mark.parametrize("strategy", [Krum(), FedMedian()], ids=["Krum", "FedMedian"])
def test_strategies_that_need_single_updates_are_refused_by_name(strategy: Strategy) -> None:
    terms = Terms.of("secret-sharing")
    direct = DirectGrid(toy_app(terms))
    with pytest.raises(InvalidInput, match=f"{type(strategy).__name__} needs single updates"):
        strategy.start(ProtectedGrid(direct, terms), initial(), num_rounds=1)
    assert not direct.sent


def test_noise_and_compression_have_a_figure_and_stop_at_the_budget(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    terms = Terms.of(
        "randomization:variance=1.0,clip=1.0+compression:keep=0.5",
        weighting="equal",
        budget=9.0,
    )
    direct = with_ledgers(DirectGrid(toy_app(terms)), tmp_path)
    result = train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=6)
    metrics = result.train_metrics_clientapp.values()
    spent = [cast(float, record["dp-epsilon"]) for record in metrics]
    assert spent[0] == pytest.approx(4.3771, abs=1e-3)  # the analytic Gaussian at z = 1
    assert spent == sorted(spent)
    assert len(spent) == 3, "the fourth round would exceed the budget"
    assert spent[-1] < 9
    assert "nothing is trained any more: another round would bring the data to" in caplog.text
    first = result.arrays["weight"].numpy()
    assert not np.array_equal(first, MODEL["weight"])


def test_a_second_run_is_told_by_the_nodes_that_the_budget_is_spent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    terms = Terms.of(
        "randomization:variance=1.0,clip=1.0+secret-sharing:max_weight=100,clip_range=16.0",
        weighting="equal",
        budget=3.0,
    )
    for rounds in (1, 0):
        direct = with_ledgers(DirectGrid(toy_app(terms)), tmp_path)
        result = train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=1)
        assert result.train_metrics_clientapp[1]["survivors"] == 4 * rounds
    np.testing.assert_array_equal(result.arrays["weight"].numpy(), MODEL["weight"])
    assert caplog.text.count("dropped out: BudgetSpent: another round would bring the data") == 4
    assert caplog.text.count("refuses: another round would bring the data") == 4
    assert "4 of the nodes say BudgetSpent: another round would bring the data" in caplog.text


def test_a_blind_server_keeps_the_first_model_and_the_clients_learn(
    key: PrivateKey, key_file: Path
) -> None:
    terms = Terms(
        Protection((), small_paillier("blind")),
        evaluate_metrics=("eval_mean",),
    )
    seen: list[dict[str, np.ndarray]] = []
    direct = DirectGrid(toy_app(terms, seen), node_config={"trilemma-key": str(key_file)})
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    result = fedavg().start(grid, initial(), num_rounds=3)
    for name, values in MODEL.items():
        np.testing.assert_array_equal(result.arrays[name].numpy(), values)
    for name in ("weight", "bias"):
        expected = mean_of(NODES, name, rounds=3)
        for model in seen[-4:]:
            np.testing.assert_allclose(model[name], expected, atol=1e-4)
    seen_mean = result.evaluate_metrics_clientapp[3]["eval_mean"]
    assert seen_mean == pytest.approx(float(mean_of(NODES, "weight", rounds=3).mean()), abs=1e-4)


def test_a_node_that_missed_a_blind_round_or_lost_its_state_catches_up(
    key: PrivateKey, key_file: Path
) -> None:
    terms = Terms(Protection((), small_paillier("blind")), threshold=3)
    seen: list[dict[str, np.ndarray]] = []
    direct = DirectGrid(toy_app(terms, seen), node_config={"trilemma-key": str(key_file)})
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    three = train_only(3)
    away = direct.contexts.pop(NODES[0])
    three.start(grid, initial(), num_rounds=2)
    direct.contexts[NODES[0]] = away
    direct.contexts[NODES[1]].state.clear()  # a SuperNode that was restarted
    three.start(grid, initial(), num_rounds=1)  # it refuses, and is sent everything next
    fedavg().start(grid, initial(), num_rounds=1)
    for model in seen[1:]:
        np.testing.assert_allclose(model["weight"], seen[0]["weight"], atol=1e-6)
    assert len(seen) == 4


def test_strategies_that_need_the_mean_are_refused_where_the_server_is_blind(
    key: PrivateKey,
) -> None:
    terms = Terms(Protection((), small_paillier("blind")))
    grid = ProtectedGrid(DirectGrid(toy_app(terms)), terms, public_key=key.public)
    with pytest.raises(InvalidInput, match=r"FedAdam .* hides from the server"):
        FedAdam(min_train_nodes=4, min_available_nodes=4).start(grid, initial(), num_rounds=1)


# Dropouts and bad replies


def failures(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("exchange", [0, 1, 2, 3])
def test_a_client_that_drops_out_at_any_stage_is_survived(exchange: int) -> None:
    terms = Terms.of(SHARING, threshold=3)
    gone = NODES[1]

    def lose(number: int, message: Message) -> Message | None:
        dead = number >= exchange and message.metadata.dst_node_id == gone
        return None if dead else message

    direct = DirectGrid(toy_app(terms), on_message=lose)
    grid = ProtectedGrid(direct, terms)
    result = train_only().start(grid, initial(), num_rounds=1)
    counted = NODES if exchange == 3 else [node for node in NODES if node != gone]
    expected = mean_of(counted, "weight")
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)
    del direct.contexts[gone]  # FedAvg samples those who are left; their keys are made already
    before = len(direct.sent)
    result = train_only(3).start(grid, initial(), num_rounds=1)
    others = [node for node in NODES if node != gone]
    np.testing.assert_allclose(
        result.arrays["weight"].numpy(), mean_of(others, "weight"), atol=1e-4
    )
    assert len(direct.sent) - before == 2


@pytest.mark.parametrize("transport", ["secret-sharing", "paillier", "plain"])
@pytest.mark.parametrize("fault", ["truncated", "replayed", "foreign", "unprotected"])
def test_a_bad_reply_fails_its_round_by_name_and_no_other(
    transport: str,
    fault: str,
    key: PrivateKey,
    key_file: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    carrier = {
        "secret-sharing": SecretSharing(max_weight=100),
        "paillier": small_paillier(),
        "plain": Protection().transport,
    }[transport]
    terms = Terms(Protection((), carrier))
    kept: list[Message] = []
    second_round = {"secret-sharing": 4, "paillier": 2, "plain": 1}[transport]

    def corrupt(exchange: int, reply: Message) -> Message:
        if reply.metadata.src_node_id != NODES[0] or reply.has_error():
            return reply
        kept.append(reply)
        if exchange != second_round:
            return reply
        if fault == "truncated":
            return changed(reply, cut)
        if fault == "replayed":
            return kept[0]
        if fault == "foreign":
            return changed(reply, lambda stage: replace(stage, run=stage.run + 1))
        reply.content = RecordDict({"arrays": initial()})
        return reply

    config = {"trilemma-key": str(key_file)}
    direct = DirectGrid(toy_app(terms), node_config={**config}, on_reply=corrupt)
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    with caplog.at_level(logging.INFO):
        result = train_only().start(grid, initial(), num_rounds=3)
    summed = [value["survivors"] for value in result.train_metrics_clientapp.values()]
    assert summed == [4, 0, 4], "the round in between failed cleanly"
    text = failures(caplog)
    assert any(name in text for name in ("ProtocolViolation:", "InvalidInput:", "ForeignCip"))
    expected = mean_of(NODES, "weight", rounds=2)
    np.testing.assert_allclose(result.arrays["weight"].numpy(), expected, atol=1e-4)


def test_fewer_clients_than_the_threshold_are_refused_in_one_sentence() -> None:
    terms = Terms.of(SHARING, threshold=5)
    direct = DirectGrid(toy_app(terms))
    with pytest.raises(InvalidInput, match="4 clients take part, fewer than the 5"):
        train_only().start(ProtectedGrid(direct, terms), initial(), num_rounds=1)
    halved = Terms.of(SHARING, threshold=2)
    with pytest.raises(InvalidInput, match="threshold must lie above half of the 4 clients"):
        train_only().start(ProtectedGrid(direct, halved), initial(), num_rounds=1)
    assert not direct.sent


def test_a_paillier_server_without_a_public_key_is_refused_at_once() -> None:
    terms = Terms(Protection((), small_paillier()))
    with pytest.raises(InvalidInput, match="needs the clients' public key"):
        ProtectedGrid(DirectGrid(toy_app(terms)), terms)
