"""Ranges: what lies beyond one is summed as its edge and counted, and no client is left out."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from tests.deployment.flower.harness import NODES, RECORDS, DirectGrid, fedavg, small_paillier

from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.paillier import PrivateKey
from trilemma.deployment.flower import ProtectedGrid, Terms, protect_mod
from trilemma.entropy import System
from trilemma.protection.protection import Protection
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

START = {
    "layer.weight": np.zeros(1500, np.float32),
    "norm.running_mean": np.zeros(3, np.float32),
    "norm.running_var": np.ones(3, np.float32),
}
MOVES = {"layer.weight": 0.5, "norm.running_mean": 22.0, "norm.running_var": -60.0}
SHARE = {node: RECORDS[node] / sum(RECORDS.values()) for node in NODES}


def normed_app(terms: Terms, wild: dict[int, int], seen: list[dict[str, np.ndarray]]) -> ClientApp:
    """Moves each array by its own figure, and on some nodes the first weights by 1,000."""
    app = ClientApp(mods=[protect_mod(terms)])

    def moved(arrays: ArrayRecord, node: int) -> dict[str, Array]:
        made = {name: array.numpy() + MOVES[name] for name, array in arrays.items()}
        made["layer.weight"][: wild.get(node, 0)] += 1000
        return {name: Array(values.astype(np.float32)) for name, values in made.items()}

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = ArrayRecord(moved(message.content.array_records["arrays"], context.node_id))
        metrics = MetricRecord({"num-examples": RECORDS[context.node_id]})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        seen.append({name: array.numpy() for name, array in arrays.items()})
        metrics = MetricRecord({"num-examples": RECORDS[context.node_id]})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def federate(
    transport: Transport, folder: Path, wild: dict[int, int] | None = None
) -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]], list[float]]:
    """The server's model after a round, what the nodes evaluate, and the survivors."""
    key = PrivateKey.generate(System(), bits=512, insecure=True)
    save_private(key, folder / "key")
    terms = Terms.of(Protection((), transport))
    seen: list[dict[str, np.ndarray]] = []
    grid = DirectGrid(normed_app(terms, wild or {}, seen), NODES)
    for context in grid.contexts.values():
        context.node_config = {"trilemma-key": str(folder / "key")}
    start = ArrayRecord({name: Array(values) for name, values in START.items()})
    protected = ProtectedGrid(grid, terms, public_key=key.public)
    result = fedavg().start(protected, start, num_rounds=1)
    told = [float(str(value["survivors"])) for value in result.train_metrics_clientapp.values()]
    return {name: array.numpy() for name, array in result.arrays.items()}, seen, told


@pytest.mark.parametrize(
    "transport", [SecretSharing(clip_range=1.0, max_weight=100), small_paillier()]
)
def test_statistics_of_batches_have_a_range_apart_from_weights(
    transport: Transport, tmp_path: Path
) -> None:
    made, _, _ = federate(transport, tmp_path)
    for name, values in START.items():
        np.testing.assert_allclose(made[name], values + MOVES[name], atol=2e-3)


def test_a_blind_server_leaves_them_to_the_nodes(tmp_path: Path) -> None:
    _, seen, _ = federate(small_paillier("blind"), tmp_path)
    assert len(seen) == len(NODES)
    for name, values in START.items():
        np.testing.assert_allclose(seen[0][name], values + MOVES[name], atol=2e-3)


def test_a_client_beyond_the_range_is_in_the_sum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        sharing = SecretSharing(clip_range=1.0, max_weight=100)
        made, _, survivors = federate(sharing, tmp_path, {NODES[1]: 5})
    assert survivors == [4]
    expected = 0.5 * (1 - SHARE[NODES[1]]) + 1.0 * SHARE[NODES[1]]
    np.testing.assert_allclose(made["layer.weight"][:5], expected, atol=1e-3)
    share = 100 * SHARE[NODES[1]] * 5 / 1506
    assert f"round 1: {share:.2g} % of the update lay beyond the range" in caplog.text


@pytest.mark.parametrize(
    "transport", [SecretSharing(clip_range=1.0, max_weight=100), small_paillier("blind")]
)
def test_too_many_beyond_the_range_fail_the_round_and_the_model_stays(
    transport: Transport, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made, seen, _ = federate(transport, tmp_path, {NODES[1]: 50})
    for name, values in START.items():
        np.testing.assert_array_equal(made[name], values)
        assert all(np.array_equal(item[name], values) for item in seen)
    share = 100 * SHARE[NODES[1]] * 50 / 1506
    assert f"{share:.3g} % of the coordinates lay beyond clip_range=1" in caplog.text
    assert "the model stays as it was" in caplog.text


def test_more_records_than_the_cap_fail_the_round_and_no_client_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    federate(SecretSharing(clip_range=1.0, max_weight=39), tmp_path)
    assert "num-examples = 40 is more than max_weight = 39; raise it" in caplog.text
    assert "or max_weight too low" in caplog.text
    assert "dropped out" not in caplog.text
