"""Aggregates under cryptography equal plain ones, and the twin equals the cryptography."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.federation.small import federation

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, TooFewClients
from trilemma.federation.training import train
from trilemma.federation.twins import FixedPointTwin, twin_of
from trilemma.learning import LocalTraining
from trilemma.protections.protection import Protection
from trilemma.protections.protocol import ClientSession, RoundInfo, Transport
from trilemma.protections.transforms.compression import Compression, TopK
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.secret_sharing.transport import SecretSharing

TRANSPORTS: dict[str, Transport] = {
    "paillier": Paillier(bits=256, insecure=True, clip_range=2.0),
    "blind": Paillier(bits=256, insecure=True, mode="blind", clip_range=2.0),
    "sharing": SecretSharing(clip_range=2.0),
    "sharing-64": SecretSharing(clip_range=2.0, precision_bits=24, ring_bits=64),
}
SETTINGS = [
    LocalTraining("fedsgd", lr=0.5, batch=6),
    LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=["fedsgd", "fedavg"])
@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS)
def test_an_aggregate_under_cryptography_is_the_plain_one(
    transport: Transport, setting: LocalTraining
) -> None:
    """A weighted mean of values that err by half a step each errs by half a step at most."""
    scenario = federation(setting)
    rate = setting.lr if setting.algorithm == "fedsgd" else 1.0
    plain = train(scenario, rounds=1, seed=5).weights
    hidden = train(scenario, Protection((), transport), rounds=1, seed=5).weights
    error = (plain - hidden).abs().max().item()
    assert error <= rate * transport.step_size() / 2 + 1e-6
    if transport.step_size() > 1e-5:
        assert error > 0, "a fixed-point grid of this width must show"


@pytest.mark.parametrize("transforms", [(), (Compression(0.6),), (Randomization(1e-2),)])
@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS)
def test_the_twin_computes_the_same_numbers(
    transport: Transport,
    transforms: tuple[Compression | Randomization, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stood_in: list[int] = []
    client = FixedPointTwin.client

    def noted(self: FixedPointTwin, number: int, round: RoundInfo, *more: Any) -> ClientSession:
        stood_in.append(round.number)
        return client(self, number, round, *more)

    monkeypatch.setattr(FixedPointTwin, "client", noted)
    protection = Protection(transforms, transport)
    scenario = federation(SETTINGS[0])
    real = train(scenario, protection, rounds=3, seed=6, clients_per_round=2)
    twin = train(scenario, protection, rounds=3, seed=6, clients_per_round=2, real_rounds=1)
    assert torch.equal(real.weights, twin.weights)
    assert stood_in == [1, 1, 2, 2]


def test_a_plain_transport_needs_no_twin() -> None:
    assert twin_of(Protection((TopK(0.5),))) is None
    whole, quick = (
        train(federation(), Protection((TopK(0.5),)), rounds=2, real_rounds=real)
        for real in (None, 0)
    )
    assert torch.equal(whole.weights, quick.weights)


def test_a_twin_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PrivateKey, "generate", None)
    train(federation(), Protection((), Paillier(clip_range=2.0)), rounds=1, real_rounds=0)


def test_the_twin_refuses_what_its_original_refuses() -> None:
    protection = Protection((), SecretSharing(clip_range=1e-6))
    for real_rounds in (None, 0):
        with pytest.raises(InvalidInput, match="clip_range of 1e-06"):
            train(federation(), protection, rounds=1, real_rounds=real_rounds)
    heavy = Protection((), SecretSharing(max_weight=30, clip_range=2.0))  # 40 records in all
    for real_rounds in (None, 0):
        with pytest.raises(InvalidInput, match="max_weight"):
            train(federation(), heavy, rounds=1, real_rounds=real_rounds)


def test_the_twin_keeps_the_threshold_and_one_shape() -> None:
    twin = twin_of(Protection((), SecretSharing()))
    assert twin is not None
    round = RoundInfo.new(range(3), Seeded(0))
    with pytest.raises(TooFewClients, match="fewer than its threshold of 3"):
        twin.run_round([torch.zeros(2)] * 3, None, round, drops={0: 0}, entropy=Seeded(0))
    server = twin.server(round, 2).session
    replies = {
        client: twin.client(client, round, size).step(b"", torch.zeros(size))
        for client, size in enumerate((2, 2, 3))
    }
    sent = {client: reply for client, reply in replies.items() if isinstance(reply, bytes)}
    with pytest.raises(InvalidInput, match="unlike sizes"):
        server.step(sent)


def test_the_twin_cannot_leave_its_process() -> None:
    twin = twin_of(Protection((), SecretSharing()))
    assert twin is not None
    round = RoundInfo.new(range(3), Seeded(0))
    with pytest.raises(InvalidInput, match="one process"):
        twin.client(0, round, 2).export()
    with pytest.raises(InvalidInput, match="one process"):
        twin.restore(b"", 0, round, 2)
