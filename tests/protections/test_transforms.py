"""Noise, compression and bounded masks against scipy's distributions and plain arithmetic."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protections.protocol import Masked, RoundInfo, Transform
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import (
    Compression,
    TopK,
    bernoulli_positions,
    decode_positions,
    encode_positions,
)
from trilemma.protections.transforms.randomization import Randomization, system_normals
from trilemma.updates import Layout

LEAST_P = 1e-5  # fixed seeds, or a false alarm in 100,000 runs


def a_round(seed: int = 1, clients: int = 3) -> RoundInfo:
    return RoundInfo("test", 0, tuple(range(clients)), 1, mask_seed=seed)


def apply(
    transform: Transform,
    values: torch.Tensor,
    client: int = 0,
    info: RoundInfo | None = None,
    entropy: Seeded | System | None = None,
) -> Masked:
    return transform.apply(
        Masked(values), client=client, round=info or a_round(), entropy=entropy or Seeded(7)
    )


def some_values(size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# Randomization


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("entropy", [Seeded(3), System()], ids=["seeded", "system"])
def test_the_noise_is_normal(dtype: torch.dtype, entropy: Seeded | System) -> None:
    values = some_values(20_000, dtype=dtype)
    kept = values.clone()
    noisy = apply(Randomization(0.04), values, entropy=entropy).values
    assert noisy.dtype == dtype
    assert torch.equal(values, kept), "the update itself must not change"
    noise = (noisy - values).double().numpy()
    assert stats.kstest(noise, "norm", (0, 0.2)).pvalue > LEAST_P
    assert abs(stats.pearsonr(noise, values.double().numpy()).statistic) < 0.04


def test_seeded_noise_repeats_and_differs_by_client() -> None:
    values = some_values(100)
    transform = Randomization(1.0)
    first = apply(transform, values).values
    assert torch.equal(first, apply(transform, values).values)
    assert not torch.equal(first, apply(transform, values, client=1).values)
    assert not torch.equal(first, apply(transform, values, entropy=Seeded(8)).values)


def test_system_noise_never_repeats() -> None:
    values, transform = some_values(100), Randomization(1.0)
    first, second = (apply(transform, values, entropy=System()).values for _ in range(2))
    assert not (first == second).any()


def test_system_normals_reach_far_into_both_tails() -> None:
    draws = system_normals(400_000)
    edges = np.array([-np.inf, -3.5, -2.5, -1, 0, 1, 2.5, 3.5, np.inf])
    expected = np.diff(stats.norm.cdf(edges)) * draws.size
    counts = [((draws > low) & (draws <= high)).sum() for low, high in pairwise(edges)]
    assert stats.chisquare(counts, expected).pvalue > LEAST_P
    assert stats.kstest(draws[:50_000], "norm").pvalue > LEAST_P


def test_system_noise_lies_on_a_grid_and_leaks_no_low_bits() -> None:
    """Whatever the update, results are whole multiples of one power of two."""
    transform = Randomization(0.09)
    grid = 2.0 ** (math.floor(math.log2(0.3)) - 24)
    for scale in (0.0, 1e-12, 1.0, 1e3):
        noisy = apply(transform, scale * some_values(1000), entropy=System()).values.numpy()
        assert (np.mod(noisy / grid, 1) == 0).all()


def test_clipping_bounds_the_whole_update_and_keeps_its_direction() -> None:
    values = some_values(1000)
    tiny = Randomization(1e-20, clip=2.0)
    for entropy in (Seeded(1), System()):
        clipped = apply(tiny, values, entropy=entropy).values
        assert float(clipped.norm()) == pytest.approx(2.0, rel=1e-6)
        assert torch.nn.functional.cosine_similarity(clipped, values, dim=0) > 1 - 1e-9
        short = apply(tiny, values * 1e-3, entropy=entropy).values
        assert torch.allclose(short, values * 1e-3, atol=1e-8)


@pytest.mark.parametrize("size", [1, 4095, 4096, 50_001])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_norm_holds_for_any_length_and_magnitude(size: int, scale: float) -> None:
    """Against numpy in double precision; squares of 1e30 overflow in 32 bits."""
    values = some_values(size, dtype=torch.float32) * scale
    clip = 0.5 * scale
    clipped = apply(Randomization(1e-6 * clip**2 / size, clip), values).values.double().numpy()
    exact = np.linalg.norm(values.double().numpy())
    assert np.linalg.norm(clipped) == pytest.approx(min(clip, exact), rel=2e-3)


def test_noise_for_a_sum_survives_dropouts_and_colluders() -> None:
    """At least t clients add noise; take out any c of them and s² is left."""
    for threshold, colluders in ((7, 1), (7, 3), (2, 1), (5, 0)):
        each = Randomization.for_sum(0.5, threshold=threshold, colluders=colluders)
        assert each.variance * (threshold - colluders) == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match="someone honest"):
        Randomization.for_sum(0.5, threshold=3, colluders=3)


@pytest.mark.parametrize("variance", [0.0, -1.0, math.nan, math.inf])
def test_impossible_noise_is_refused(variance: float) -> None:
    with pytest.raises(InvalidInput, match="variance"):
        Randomization(variance)
    with pytest.raises(InvalidInput, match="clip"):
        Randomization(1.0, clip=variance)


# Compression


@pytest.mark.parametrize("rate", [1e-4, 0.03, 0.3, 0.5, 0.97])
def test_each_coordinate_is_chosen_with_its_probability(rate: float) -> None:
    """Counts are binomial, and places uniform, for 400 draws of 2,000 coordinates."""
    rng = np.random.default_rng(5)
    size, draws = 2000, 400
    chosen = [bernoulli_positions(size, rate, rng) for _ in range(draws)]
    counts = np.array([len(each) for each in chosen])
    total = int(counts.sum())
    assert stats.binomtest(total, size * draws, rate).pvalue > LEAST_P
    if rate * size > 5:
        expected = size * rate * (1 - rate)
        ratio = counts.var(ddof=1) / expected * (draws - 1)
        assert LEAST_P < stats.chi2.cdf(ratio, draws - 1) < 1 - LEAST_P
    places = np.concatenate(chosen)
    bins = np.bincount(places // 100, minlength=20)
    if rate < 0.9 and total > 500:
        assert stats.chisquare(bins).pvalue > LEAST_P
    for each in chosen:
        assert (np.diff(each) > 0).all()
        assert not each.size or (each[0] >= 0 and each[-1] < size)


def test_gaps_between_chosen_coordinates_are_geometric() -> None:
    places = bernoulli_positions(2_000_000, 0.01, np.random.default_rng(6))
    gaps = np.diff(places)
    edges = np.array([0, 10, 30, 70, 120, 200, 300, np.inf])
    law = stats.geom(0.01)
    expected = np.diff([0.0, *law.cdf(edges[1:-1]), 1.0]) * gaps.size
    counts = np.histogram(gaps, bins=edges + 0.5)[0]
    assert stats.chisquare(counts, expected).pvalue > LEAST_P


@pytest.mark.parametrize("drop", [6.93e-10, 3e-9, 1e-17])
def test_a_billion_coordinates_cost_what_is_dropped(drop: float) -> None:
    """The number dropped is Poisson to all intents; 1e-17 is below the rounding of 1 - ρ."""
    rng = np.random.default_rng(7)
    counts = [len(bernoulli_positions(10**9, drop, rng)) for _ in range(300)]
    mean = 1e9 * drop
    assert abs(sum(counts) - 300 * mean) < 5 * math.sqrt(300 * mean) + 1
    assert Compression.dropping(drop).drop == drop


def test_certain_and_impossible_rates() -> None:
    rng = np.random.default_rng(8)
    assert bernoulli_positions(10, 0.0, rng).size == 0
    assert bernoulli_positions(10, 1.0, rng).tolist() == list(range(10))
    assert apply(Compression(1.0), some_values(50)).known.all()  # type: ignore[union-attr]


def test_places_follow_the_mask_seed_and_are_independent_between_seeds() -> None:
    """Two clients, or two rounds, both send a coordinate with probability ρ², not ρ."""
    values, transform, keep = some_values(20_000), Compression(0.3), 0.3
    infos = [a_round(), a_round().of_client(0), a_round().of_client(2), a_round(seed=2)]
    masks = []
    for info in infos:
        first = apply(transform, values, info=info).known
        other = apply(transform, -values, client=2, info=info).known
        assert first is not None
        assert other is not None
        assert torch.equal(first, other)
        masks.append(first)
    for one, two in combinations(masks, 2):
        both = int((one & two).sum())
        assert stats.binomtest(both, 20_000, keep**2).pvalue > LEAST_P


@pytest.mark.parametrize("keep", [0.2, 0.8])
def test_unbiased_compression_is_right_on_average(keep: float) -> None:
    values = some_values(50)
    rounds = 4000
    total = torch.zeros(50)
    for seed in range(rounds):
        total = total + apply(Compression(keep), values, info=a_round(seed)).values
    error = (total / rounds - values).abs() / values.abs()
    assert error.max() < 5 * math.sqrt((1 - keep) / keep / rounds)


def test_plain_compression_sends_values_as_they_are() -> None:
    values = some_values(500)
    made = apply(Compression(0.4, unbiased=False), values)
    assert made.known is not None
    assert torch.equal(made.values, torch.where(made.known, values, 0.0))
    scaled = apply(Compression(0.4), values)
    assert torch.allclose(scaled.values * 0.4, made.values)


def test_each_layer_keeps_its_own_share() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(200, 100), torch.nn.Linear(100, 50))
    layout = Layout.of(model)
    transform = Compression.per_layer({"0.weight": 0.1, "1.weight": 0.9}, layout)
    made = apply(transform, torch.ones(layout.size))
    assert made.known is not None
    parts = layout.unflatten(made.values)
    kept = layout.unflatten(made.known)
    for name, keep in (("0.weight", 0.1), ("1.weight", 0.9)):
        count = int(kept[name].sum())
        assert stats.binomtest(count, kept[name].numel(), keep).pvalue > LEAST_P
        assert torch.allclose(parts[name][kept[name]], torch.tensor(1 / keep))
    assert kept["0.bias"].all(), "a layer without a rate is sent whole"
    with pytest.raises(InvalidInput, match="no tensor 'nope'"):
        Compression.per_layer({"nope": 0.1}, layout)
    with pytest.raises(InvalidInput, match="describes 25150 coordinates, but the update has 9"):
        apply(transform, torch.ones(9))


def test_each_coordinate_may_have_its_own_rate() -> None:
    rates = np.repeat([0.1, 0.5, 1.0], 5000)
    made = apply(Compression(rates), torch.ones(15_000, dtype=torch.float64))
    assert made.known is not None
    for part, keep in zip(made.known.view(3, 5000), (0.1, 0.5, 1.0), strict=True):
        assert stats.binomtest(int(part.sum()), 5000, keep).pvalue > LEAST_P
    sent = torch.tensor(1 / rates)[made.known]
    assert torch.allclose(made.values[made.known], sent)


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.5, math.nan])
def test_impossible_rates_are_refused(keep: float) -> None:
    for make in (Compression, TopK, lambda k: Compression([0.5, k])):
        with pytest.raises(InvalidInput, match="keep"):
            make(keep)
    with pytest.raises(InvalidInput, match="vector"):
        Compression([[0.5]])


def test_top_k_takes_the_largest() -> None:
    values = some_values(1000)
    made = apply(TopK(0.05), values)
    assert made.known is not None
    largest = set(np.argsort(-np.abs(values.numpy()))[:50].tolist())
    assert set(made.known.nonzero().squeeze(1).tolist()) == largest
    assert torch.equal(made.values[made.known], values[made.known])


@pytest.mark.parametrize("rate", [0.0, 0.0005, 0.01, 0.2, 0.9, 1.0])
def test_places_come_back_and_take_the_fewest_bytes(rate: float) -> None:
    rng = np.random.default_rng(9)
    for size in (1, 7, 8, 1000, 70_001):
        places = np.flatnonzero(rng.random(size) < rate)
        code = encode_positions(places, size)
        assert decode_positions(code, size).tolist() == places.tolist()
        bitmap = 1 + -(-size // 8)
        assert len(code) <= min(bitmap, 1 + 4 * len(places))


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff", b"\x01\x00", b"\x04\xff\xff", b"\x04\x00\x80", b"\x09\x00"]
)
def test_places_outside_the_update_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="altered"):
        decode_positions(data, 10)


@pytest.mark.parametrize(
    "transform", [Randomization(0.04, clip=3.0), Compression(0.5), TopK(0.2), BoundedMask(0.5)]
)
def test_half_precision_takes_the_general_path(transform: Transform) -> None:
    """The one that updates on an accelerator take; the same draws, rounded."""
    values = some_values(500, dtype=torch.float32).half()
    half, single = apply(transform, values), apply(transform, values.float())
    assert half.values.dtype == torch.float16
    torch.testing.assert_close(half.values.float(), single.values, atol=5e-3, rtol=5e-3)
    if half.known is not None:
        assert single.known is not None
        assert torch.equal(half.known, single.known)


# Bounded masks


@pytest.mark.parametrize("clients", [2, 3, 4, 7])
def test_bounded_masks_are_uniform_and_cancel(clients: int) -> None:
    info = a_round(clients=clients)
    zero = torch.zeros(20_000, dtype=torch.float64)
    masks = torch.stack(
        [apply(BoundedMask(0.5), zero, client=k, info=info).values for k in range(clients)]
    )
    assert masks.sum(dim=0).abs().max() < 1e-14
    for mask in masks:
        assert stats.kstest(mask.numpy(), "uniform", (-0.5, 1.0)).pvalue > LEAST_P
    if clients > 3:  # no smaller group is known to cancel
        for pair in (masks[:2], masks[1:3]):
            assert (pair.sum(dim=0).abs() < 1e-12).double().mean() < 0.5


def test_bounded_masks_exclude_wrong_candidates_as_their_label_says() -> None:
    """Measured: a candidate at distance d survives with probability Π(1 - |dᵢ|/2r)."""
    rng = np.random.default_rng(10)
    size, bound = 400, 1.0
    truth = torch.from_numpy(rng.uniform(-0.01, 0.01, size))
    wrong = torch.from_numpy(rng.uniform(-0.01, 0.01, size))
    distance = (wrong - truth).abs()
    predicted = float(torch.prod(1 - distance / (2 * bound)))
    survived = 0
    for seed in range(600):
        seen = apply(BoundedMask(bound), truth, info=a_round(clients=1), entropy=Seeded(seed))
        survived += bool(((seen.values - wrong).abs() <= bound).all())
    assert 0.1 < predicted < 0.5, "100 times the update's width, and still excluded mostly"
    assert stats.binomtest(survived, 600, predicted).pvalue > LEAST_P


def test_bounded_masks_are_for_measurement_only() -> None:
    with pytest.raises(InvalidInput, match="SecretSharing transport"):
        apply(BoundedMask(1.0), some_values(3), entropy=System())
    with pytest.raises(InvalidInput, match="bound"):
        BoundedMask(0.0)


# Rounds


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": ""}, "run"),
        ({"number": -1}, "number"),
        ({"participants": ()}, "participants"),
        ({"participants": (1, 1)}, "distinct"),
        ({"participants": (2, 1)}, "rising"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": 4}, "threshold"),
        ({"mask_seed": -1}, "mask_seed"),
    ],
)
def test_impossible_rounds_are_refused(change: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {
        "run": "r",
        "number": 0,
        "participants": (0, 1, 5),
        "threshold": 2,
        "mask_seed": 3,
    }
    RoundInfo(**good)
    with pytest.raises(InvalidInput, match=why):
        RoundInfo(**{**good, **change})


def test_a_new_round_has_a_new_mask_seed() -> None:
    seeds = {RoundInfo.new(range(3), Seeded(1), number=n).mask_seed for n in range(50)}
    assert len(seeds) == 50
    assert RoundInfo.new(range(3), System()) != RoundInfo.new(range(3), System())
