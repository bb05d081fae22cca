"""Protected rounds through Flower's own strategies and apps, in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, Krum, Strategy

from tests.federation.flower_harness import (
    LOSSES,
    MODEL,
    NODES,
    RECORDS,
    DirectGrid,
    initial,
    mean_of,
    toy_app,
)
from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.federation.flower import ProtectedGrid, Terms
from trilemma.mechanisms.paillier import Paillier
from trilemma.mechanisms.plain import Plain
from trilemma.mechanisms.protection import Protection
from trilemma.mechanisms.protocol import Transport
from trilemma.mechanisms.secret_sharing.transport import SecretSharing

SMALL = {"bits": 512, "insecure": True, "max_weight": 100}
TRANSPORTS: dict[str, Transport] = {
    "plain": Plain(),
    "secret-sharing": SecretSharing(max_weight=100),
    "paillier reveal": Paillier(**SMALL),  # type: ignore[arg-type]
}


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate(System(), bits=512, insecure=True)


@pytest.fixture
def key_file(key: PrivateKey, tmp_path: Path) -> Path:
    save_private(key, tmp_path / "key")
    return tmp_path / "key"


def fedavg(nodes: int = 4) -> FedAvg:
    return FedAvg(min_train_nodes=nodes, min_evaluate_nodes=nodes, min_available_nodes=nodes)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_each_aggregation_equals_plain_fedavg(name: str, key: PrivateKey, key_file: Path) -> None:
    plain = fedavg().start(DirectGrid(toy_app(None)), initial(), num_rounds=1)
    terms = Terms(Protection((), TRANSPORTS[name]), metrics=("train_loss",))
    direct = DirectGrid(toy_app(terms), node_config={"trilemma-key": str(key_file)})
    grid = ProtectedGrid(direct, terms, public_key=key.public)
    result = fedavg().start(grid, initial(), num_rounds=1)
    for each in ("weight", "bias"):
        made, expected = result.arrays[each].numpy(), plain.arrays[each].numpy()
        assert made.dtype == expected.dtype
        np.testing.assert_allclose(made, expected, atol=3e-5)
        np.testing.assert_allclose(expected, mean_of(NODES, each), atol=1e-6)
    assert result.arrays["batches"].numpy() == MODEL["batches"]
    loss = sum(RECORDS[node] * LOSSES[node] for node in NODES) / sum(RECORDS.values())
    assert result.train_metrics_clientapp[1]["train_loss"] == pytest.approx(loss, abs=1e-6)
