"""The (ε, δ) figures against numerical integration, dp-accounting and riskcal."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy import integrate, stats

from trilemma.errors import InvalidInput
from trilemma.protections.dp import dp_figure, gaussian_delta, gaussian_epsilon
from trilemma.protections.transforms.randomization import Randomization


def hockey_stick(epsilon: float, sigma: float, rate: float = 1.0, *, add: bool = False) -> float:
    """∫ max(p - e^ε q, 0) for p = (1-r)N(0,σ²) + rN(1,σ²) and q = N(0,σ²), or swapped."""

    def integrand(x: float) -> float:
        q = stats.norm.pdf(x, 0, sigma)
        p = (1 - rate) * q + rate * stats.norm.pdf(x, 1, sigma)
        if add:
            p, q = q, p
        return float(max(p - math.exp(epsilon) * q, 0.0))

    points = np.linspace(-12 * sigma, 1 + 12 * sigma, 150)
    return sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in pairwise(points))


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_the_analytic_formula_is_the_integral(mu: float, epsilon: float) -> None:
    assert gaussian_delta(mu, epsilon) == pytest.approx(
        hockey_stick(epsilon, 1 / mu), rel=1e-6, abs=1e-12
    )


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 10.0, 200.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-200])
def test_epsilon_inverts_delta(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)


def test_no_epsilon_is_needed_where_delta_covers_all() -> None:
    assert gaussian_epsilon(0.01, 0.5) == 0.0


@pytest.mark.parametrize("rounds", [1, 10, 150])
def test_rounds_without_sampling_against_dp_accounting(rounds: int) -> None:
    figure = dp_figure(Randomization(9.0, clip=1.5), delta=1e-5, rounds=rounds)
    assert figure.noise_multiplier == pytest.approx(2.0)
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(2.0), rounds)
    numeric = accountant.get_epsilon(1e-5)
    assert figure.epsilon <= numeric * (1 + 1e-9), "dp-accounting rounds up"
    assert figure.epsilon == pytest.approx(numeric, rel=2e-3)
    assert figure.method == "analytic Gaussian"


def test_zero_epsilon_delta_is_riskcals_advantage() -> None:
    from riskcal.analysis import get_advantage_from_gdp

    assert gaussian_delta(0.7, 0.0) == pytest.approx(get_advantage_from_gdp(0.7), abs=1e-6)


def test_tiny_noise_has_a_figure_too() -> None:
    """z = 0.05, where numeric privacy loss distributions did not end."""
    figure = dp_figure(Randomization(0.0025, clip=1.0), delta=1e-5, rounds=100)
    mu = math.sqrt(100) / 0.05
    assert figure.epsilon == pytest.approx(mu**2 / 2 + mu * stats.norm.isf(1e-5), rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "multiplier"),
    [
        ({}, 0.5),
        ({"neighbouring": "replace"}, 0.25),
        ({"release": "sum", "clients": 16}, 2.0),
        ({"release": "sum", "clients": 16, "neighbouring": "replace"}, 1.0),
        ({"release": "local", "clients": 16}, 0.5),
    ],
)
def test_the_noise_multiplier(settings: dict[str, Any], multiplier: float) -> None:
    """z = s/S with S = C or 2C, times √K where only the sum of K is seen."""
    figure = dp_figure(Randomization(1.0, clip=2.0), delta=1e-5, **settings)
    assert figure.noise_multiplier == pytest.approx(multiplier)
    assert figure.epsilon == pytest.approx(gaussian_epsilon(1 / multiplier, 1e-5))


def test_one_sampled_round_is_the_integral() -> None:
    """The larger of both directions of the subsampled Gaussian's hockey-stick divergence."""
    figure = dp_figure(
        Randomization(0.04, clip=1.0), delta=1e-4, release="sum", clients=25, population=250
    )
    assert (figure.noise_multiplier, figure.method) == (1.0, "PLD")
    exact = max(hockey_stick(figure.epsilon, 1.0, 0.1, add=add) for add in (False, True))
    assert exact <= 1e-4 * (1 + 1e-5), "the figure must hold, up to quadrature"
    assert exact == pytest.approx(1e-4, rel=0.02)


def test_sampling_amplifies_a_sum_and_rdp_agrees_from_above() -> None:
    noise = Randomization(0.04, clip=1.0)
    common: dict[str, Any] = {"delta": 1e-5, "rounds": 100, "release": "sum", "clients": 25}
    sampled = dp_figure(noise, population=250, **common)
    unsampled = dp_figure(noise, **common)
    assert sampled.epsilon < 0.3 * unsampled.epsilon
    assert sampled.epsilon_per_round < sampled.epsilon
    event = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.0))
    above = RdpAccountant().compose(event, 100).get_epsilon(1e-5)
    assert 0.8 * above < sampled.epsilon <= above


def test_replacement_with_sampling() -> None:
    common: dict[str, Any] = {
        "delta": 1e-5,
        "rounds": 10,
        "release": "sum",
        "clients": 25,
        "neighbouring": "replace",
    }
    noise = Randomization(1.0, clip=1.0)
    sampled = dp_figure(noise, population=250, **common)
    assert sampled.method == "RDP"
    assert sampled.epsilon < dp_figure(noise, **common).epsilon
    # weak noise: Rényi's figure is worse than no amplification at all, so that one is given
    weak = Randomization(0.001, clip=1.0)
    assert dp_figure(weak, population=250, **common).epsilon <= dp_figure(weak, **common).epsilon


def test_a_server_that_sees_who_takes_part_gains_no_amplification() -> None:
    """Local release: only the number of rounds that a client takes part in counts."""
    noise = Randomization(1.0, clip=1.0)
    figure = dp_figure(noise, delta=1e-5, rounds=1000, clients=10, population=1000)
    most = 0
    while stats.binom.sf(most, 1000, 0.01) > 0.5e-5:  # by counting up
        most += 1
    assert figure.method == "participation bound"
    assert figure.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(most), 0.5e-5))
    assert figure.epsilon_per_round == pytest.approx(gaussian_epsilon(1.0, 1e-5))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"rounds": 0}, "rounds"),
        ({"clients": 5, "population": 4}, "population"),
        ({"release": "both"}, "release"),
        ({"neighbouring": "near"}, "neighbouring"),
    ],
)
def test_impossible_figures_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        dp_figure(Randomization(1.0, clip=1.0), **{"delta": 1e-5, **settings})


def test_noise_without_a_clip_has_no_figure() -> None:
    with pytest.raises(InvalidInput, match="set clip"):
        dp_figure(Randomization(1.0), delta=1e-5)
