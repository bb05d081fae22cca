"""Random compression against scipy's distributions and plain arithmetic."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from tests.protection.transforms.applying import LEAST_P, a_round, apply, some_values

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.compression import (
    Compression,
    LayerCompression,
    bernoulli_positions,
)
from trilemma.protection.transforms.top_k import TopK
from trilemma.updates import Layout


@pytest.mark.parametrize("rate", [1e-4, 0.03, 0.3, 0.5, 0.97])
def test_each_coordinate_is_chosen_with_its_probability(rate: float) -> None:
    """Counts are binomial, and places uniform, for 400 draws of 2,000 coordinates."""
    rng = np.random.default_rng(5)
    size, draws = 2000, 400
    chosen = [bernoulli_positions(size, rate, rng) for _ in range(draws)]
    counts = np.array([len(item) for item in chosen])
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
    for item in chosen:
        assert (np.diff(item) > 0).all()
        assert not item.size or (item[0] >= 0 and item[-1] < size)


def test_gaps_between_chosen_coordinates_are_geometric() -> None:
    places = bernoulli_positions(2_000_000, 0.01, np.random.default_rng(6))
    gaps = np.diff(places)
    edges = np.array([0, 10, 30, 70, 120, 200, 300, np.inf])
    distribution = stats.geom(0.01)
    expected = np.diff([0.0, *distribution.cdf(edges[1:-1]), 1.0]) * gaps.size
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
    transform = LayerCompression(((0.1, 20_000), (1.0, 100), (0.9, 5_000), (1.0, 50)))
    assert transform.describe() == "compression:keep=0.1x20000/1.0x100/0.9x5000/1.0x50"
    made = apply(transform, torch.ones(layout.size))
    assert made.known is not None
    parts = layout.unflatten(made.values)
    kept = layout.unflatten(made.known)
    for name, keep in (("0.weight", 0.1), ("1.weight", 0.9)):
        count = int(kept[name].sum())
        assert stats.binomtest(count, kept[name].numel(), keep).pvalue > LEAST_P
        assert torch.allclose(parts[name][kept[name]], torch.tensor(1 / keep))
    assert kept["0.bias"].all(), "a layer without a rate is sent whole"
    with pytest.raises(InvalidInput, match="describes 25150 coordinates, but the update has 9"):
        apply(transform, torch.ones(9))


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.5, math.nan])
def test_impossible_rates_are_refused(keep: float) -> None:
    for make in (Compression, TopK, lambda k: LayerCompression(((0.5, 3), (k, 3)))):
        with pytest.raises(InvalidInput, match="keep"):
            make(keep)


def test_keep_and_drop_must_agree() -> None:
    assert Compression(0.1).drop == 0.9
    with pytest.raises(InvalidInput, match="do not add up to 1"):
        Compression(0.1, drop=0.5)


@pytest.mark.parametrize("layers", [(), ((0.5, 0),), ((0.5, -2),)])
def test_layers_without_coordinates_are_refused(layers: tuple[tuple[float, int], ...]) -> None:
    with pytest.raises(InvalidInput, match=r"0\.1x3200/1x10"):
        LayerCompression(layers)


@pytest.mark.parametrize("drop", [-5e-324, -1e-17, -0.5, 1.0, 1.5, math.nan, math.inf])
def test_a_drop_is_a_probability(drop: float) -> None:
    with pytest.raises(InvalidInput):
        Compression.dropping(drop)
