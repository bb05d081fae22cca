from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
import torch
from tests.federation.small import cohorts_of, costs_of, federation

from trilemma.crypto.packing import Packing
from trilemma.errors import InvalidInput
from trilemma.federation import round, round_timing
from trilemma.federation.round_timing import RoundCosts, Spent
from trilemma.federation.training import start_weights
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

FEDSGD = LocalTraining("fedsgd", lr=0.5, batch=6)
SIZE = 5 * 4 + 4 + 4 * 3 + 3
HEADER = 32 + 25


def test_bits_are_those_of_the_messages() -> None:
    thinned = costs_of(federation(FEDSGD), Protection((Compression(0.5),)), rounds=3)
    plain = thinned.unprotected
    assert plain.bits_up == plain.bits_down == 8 * (HEADER + 4 * SIZE)
    for item in thinned.within:
        kept = [(bits / 8 - HEADER) / 4 for bits in (item.bits_up, item.bits_down)]
        assert 0 < kept[0] < kept[1] <= SIZE, "each client draws places of its own"
    summed = Protection((Compression(0.5),), SecretSharing(clip_range=4.0))
    aligned = costs_of(federation(FEDSGD), summed, rounds=1).protected
    whole = costs_of(federation(FEDSGD), Protection((), SecretSharing()), rounds=1).protected
    assert plain.bits_up < aligned.bits_up < whole.bits_up


def test_signed_keys_and_lists_count_where_the_threshold_allows_pins() -> None:
    clients, sharing = len(federation(FEDSGD).records), Protection((), SecretSharing())
    pinned, without = (
        costs_of(federation(FEDSGD), sharing, rounds=1, threshold=t).protected
        for t in (clients, 2 * clients // 3)
    )
    assert pinned.bits_up - without.bits_up == 8 * (64 + 64)
    table = clients * (16 + 64 - 8)  # of signatures, in the place of a list
    assert pinned.bits_down - without.bits_down == 8 * (clients * 64 + table)


@pytest.mark.parametrize(
    "transport",
    [SecretSharing(clip_range=2.0), Paillier(bits=256, insecure=True, clip_range=2.0)],
    ids=["sharing", "paillier"],
)
def test_cryptography_costs_bits_and_seconds(transport: Any) -> None:
    costs = costs_of(federation(FEDSGD), Protection((), transport), rounds=3)
    assert len(costs.without) == len(costs.within) == 3
    assert costs.protected.bits > costs.unprotected.bits
    assert costs.protected.client_seconds > costs.unprotected.client_seconds > 0
    assert costs.protected.train == costs.unprotected.train > 0
    assert costs.unprotected.finish == 0.0 < costs.protected.finish


def test_no_protection_is_its_own_baseline() -> None:
    costs = costs_of(federation(FEDSGD), Protection(), rounds=2)
    assert costs.within == costs.without


def test_a_noisy_round_sends_what_a_plain_one_does() -> None:
    costs = costs_of(federation(FEDSGD), Protection((Randomization(1e-3),)), rounds=2)
    assert costs.protected.bits == costs.unprotected.bits


class Clock:
    """A second each time it is read, and what else was going on."""

    def __init__(self) -> None:
        self.ticks = count()

    def __call__(self, device: torch.device) -> float:
        return float(next(self.ticks))


def test_rounds_alternate_after_one_that_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    run = getattr(round, "run_round")  # noqa: B009 (it is imported there, not made)

    def noted(protection: Protection, *more: Any, **settings: Any) -> Any:
        order.append(protection.describe())
        return run(protection, *more, **settings)

    monkeypatch.setattr(round, "run_round", noted)
    monkeypatch.setattr(round_timing, "work_seconds", Clock())
    costs = costs_of(federation(FEDSGD), Protection((Compression(0.5),)), rounds=4)
    assert len(costs.within) == 4
    assert len(order) == 10
    pairs = [tuple(order[i : i + 2]) for i in range(0, 10, 2)]
    assert all(set(pair) == {"none", "compression:keep=0.5"} for pair in pairs)
    assert len(set(pairs)) == 2, "neither is always the second"
    assert costs.unprotected.train == pytest.approx(1 / 3), "a second of three clients"


def test_of_a_long_update_a_part_is_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: dict[str, set[int]] = {"plain": set(), "paillier": set()}
    run = getattr(round, "run_round")  # noqa: B009

    def noted(protection: Protection, updates: Any, *more: Any, **settings: Any) -> Any:
        lengths[protection.transport.name].update(update.numel() for update in updates)
        return run(protection, updates, *more, **settings)

    monkeypatch.setattr(round, "run_round", noted)
    sealed = Protection((), Paillier(bits=256, insecure=True, clip_range=2.0))
    whole = costs_of(federation(FEDSGD), sealed, rounds=1).protected
    monkeypatch.setattr(Paillier, "alike", SIZE // 3)
    part = costs_of(federation(FEDSGD), sealed, rounds=1).protected
    assert lengths == {"plain": {SIZE}, "paillier": {SIZE, SIZE // 3}}
    assert part.bits_up > 2 * whole.bits_up / 3, "told of all coordinates"
    assert Spent(2, 4, 1, 6, 8, 10).scaled(1.5) == Spent(3, 6, 1, 9, 12, 15)


def test_a_thinned_update_is_timed_as_a_whole() -> None:
    """Of a part of it hardly a ciphertext might be left, which would stand for hundreds."""
    sealed = Paillier(bits=256, insecure=True, clip_range=2.0)
    thinned = Protection((Compression(0.1),), sealed)
    assert thinned.timed_on(10**5) == 10**5
    assert Protection((Randomization(0.1),), sealed).timed_on(10**5) == sealed.alike < 10**3
    assert Protection().timed_on(10**5) == 10**5


@pytest.mark.parametrize("bits", [3072, 4096, 8192, 15360])
@pytest.mark.parametrize("precision", [8, 16])
def test_a_part_is_of_whole_ciphertexts(bits: int, precision: int) -> None:
    transport = Paillier(bits=bits, precision_bits=precision)
    packing = Packing(transport.fixed, bits - 1)
    scaled = 24 * 10**5 / transport.alike
    assert packing.words(transport.alike) == 24
    assert scaled == pytest.approx(packing.words(10**5), rel=0.02)


@pytest.mark.parametrize(
    "setting",
    [
        LocalTraining("fedavg", lr=0.3, steps=4, batch=3, records=8),
        LocalTraining(batch=6, record_clip=0.5, sampling="poisson"),
    ],
)
def test_a_client_by_itself_computes_what_it_computes_beside_others(
    setting: LocalTraining,
) -> None:
    scenario = federation(setting)
    cohorts, sending = cohorts_of(scenario, 3, seed=2)
    (weights,) = start_weights(scenario, None)
    for client, update in enumerate(sending.updates(weights, *cohorts.rows(5, (0, 1, 2)))):
        alone = sending.alone(weights, *cohorts.rows(5, (client,)))
        assert torch.allclose(alone, update, atol=1e-6)


def test_parts_add_up_and_survive_json() -> None:
    one, other = Spent(10.0, 20.0, 1.0, 2.0, 4.0, 8.0), Spent(30.0, 20.0, 3.0, 2.0, 4.0, 0.0)
    assert (one.bits, one.client_seconds, one.server_seconds, one.seconds) == (30, 11, 4, 15)
    assert one.duration(10.0) == 18
    costs = RoundCosts((one, other), (other, other))
    assert costs.unprotected == Spent(20.0, 20.0, 2.0, 2.0, 4.0, 4.0)
    assert RoundCosts.from_json(json.loads(json.dumps(costs.as_json()))) == costs


def test_bad_input_is_one_sentence() -> None:
    with pytest.raises(InvalidInput, match="rounds must be at least 1, got 0"):
        costs_of(federation(FEDSGD), Protection(), rounds=0)
    with pytest.raises(InvalidInput, match="in pairs, got 0 without and 0 with"):
        RoundCosts((), ())
    with pytest.raises(InvalidInput, match="unweighted sum only"):
        costs_of(federation(FEDSGD), Protection((BoundedMask(1.0),)), rounds=1)
    masked = Protection((BoundedMask(1.0),))
    assert costs_of(federation(FEDSGD), masked, rounds=1, equal_weights=True).protected.bits > 0
