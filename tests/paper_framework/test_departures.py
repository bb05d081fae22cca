"""The paper against brute force: what holds, what does not, and by how much.

One block for each departure E1 … E21 of docs/paper-map.md, then the paper's theorem on the
meta-algorithm, the inequality that replaces its theorem on leakage, and the certificate. The
oracles (mpmath, quadrature, sampling, counting) are written here and share no code with the
package. Figures that need an attack (E7 in part, E14 in part, E16, E17) are measured elsewhere.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats
from scipy.special import rel_entr

from trilemma.accounting.noise_calibration import (
    leakage_supremum,
    noise_multiplier_for,
    success_bound,
)
from trilemma.accounting.sampled_training import Training
from trilemma.beliefs.belief import bernoulli_leakage, leakage
from trilemma.beliefs.gaussians import isotropic_tv
from trilemma.errors import InvalidInput
from trilemma.paper_framework import surrogate_bounds
from trilemma.paper_framework.mechanisms import MECHANISMS, mechanism
from trilemma.paper_framework.mechanisms.base import Form, Strength
from trilemma.paper_framework.mechanisms.compression_model import rescaled_distortion
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.solving import Solution, solve
from trilemma.paper_framework.surrogate_bounds import Constants
from trilemma.tuning.problem import Problem

Floats = NDArray[np.float64]

SQRT_LN2 = math.sqrt(math.log(2))
BOXES = ("paillier", "secret-sharing", "compression")


def js_nats(p: Floats, q: Floats) -> Floats:
    """JS by its definition, over the last axis; needs no probability vectors."""
    middle = (p + q) / 2
    total: Floats = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / 2
    return np.maximum(total, 0.0)


def root_js(p: Floats, q: Floats) -> Floats:
    """√(JS / ln 2), the normalised leakage."""
    distance: Floats = np.sqrt(js_nats(p, q)) / SQRT_LN2
    return distance


def exact_js(p: tuple[mpmath.mpf, ...], q: tuple[mpmath.mpf, ...]) -> mpmath.mpf:
    """JS in nats with 40 digits."""
    with mpmath.workdps(40):
        return mpmath.fsum(
            (a * mpmath.log(2 * a / (a + b)) + b * mpmath.log(2 * b / (a + b))) / 2
            for a, b in zip(p, q, strict=True)
        )


def solution(name: str, c1: float, c2: float, budget: float, form: Form = "corrected") -> Solution:
    profile = Profile(2410, delta=0.5, sigma=1.0)
    return solve(mechanism(name), Constants(c1, c2), Problem(budget), [profile], form=form)


# --- E1, E2: the theorem on leakage -----------------------------------------------------------


@dataclass(frozen=True)
class TwoPoint:
    """A federation with two possible parameters and two possible data, prior (1/2, 1/2).

    f(.|w1) = (1/2 + a, 1/2 - a) is what the unprotected update gives away; with probability tau
    the protection replaces w1 by w2, f(.|w2) = (1/2 + b, 1/2 - b). TV(P^O, P^S) = tau.
    """

    a: str
    b: str
    tau: str

    def figures(self) -> tuple[float, float, float]:
        """C1 in nats, then x = C2·TV and the true leakage, both in units of C1."""
        with mpmath.workdps(40):
            half = mpmath.mpf(1) / 2
            a, b, tau = (mpmath.mpf(v) for v in (self.a, self.b, self.tau))
            prior = (half, half)
            c1 = mpmath.sqrt(exact_js((half + a, half - a), prior))
            mean = (1 - tau) * a + tau * b
            leaked = mpmath.sqrt(exact_js((half + mean, half - mean), prior))
            xi = max(abs(mpmath.log(2 * (half + s * v))) for v in (a, b) for s in (1, -1))
            x = (mpmath.exp(2 * xi) - 1) / 2 * tau
            return float(c1), float(x / c1), float(leaked / c1)


def test_e01_the_first_case_needs_x_below_half_of_c1() -> None:
    # The last step of the proof's case 1 is C1 + x <= 2*C1 - x; that is x <= C1/2, not x <= C1.
    for x, follows in ((0.5, True), (0.500001, False), (0.75, False), (1.0, False)):
        assert (1 + x <= 2 - x) is follows
    # Case 2 needs C1 + x <= 3x - C1, which is x >= C1 as printed.
    assert 1 + 1.0 <= 3 * 1.0 - 1
    assert not 1 + 0.999999 <= 3 * 0.999999 - 1


def test_e01_random_systems_break_the_theorem_between_half_c1_and_c1_only() -> None:
    rng = np.random.default_rng(1)
    count = 50_000
    a = 10 ** rng.uniform(-5, -1, count)
    b = np.minimum(a * 10 ** rng.uniform(0, 2.5, count), 0.45) * rng.choice([-1, 1], count)
    prior = np.full((count, 2), 0.5)
    c1 = root_js(np.stack([0.5 + a, 0.5 - a], axis=-1), prior)
    c2 = ((1 - 2 * np.maximum(a, np.abs(b))) ** -2 - 1) / 2 / SQRT_LN2
    tau = np.minimum(1.0, rng.uniform(0, 1.5, count) * c1 / c2)
    mean = (1 - tau) * a + tau * b
    leaked = root_js(np.stack([0.5 + mean, 0.5 - mean], axis=-1), prior)
    x = c2 * tau
    by_cases = np.where(x <= c1, 2 * c1 - x, 3 * x - c1)
    largest = np.array(
        [
            Constants(float(k), float(v)).printed_bound(float(t))
            for k, v, t in zip(c1, c2, tau, strict=True)
        ]
    )
    np.testing.assert_allclose(largest, np.maximum(2 * c1 - x, 3 * x - c1), rtol=1e-9)
    between = (x > c1 / 2) & (x <= c1)
    for printed in (by_cases, largest):
        broken = leaked > printed * (1 + 1e-5)
        assert broken.sum() >= 5
        assert not (broken & ~between).any()
    assert (leaked <= (c1 + x) * (1 + 1e-5)).all()


def test_e02_first_counterexample() -> None:
    c1, x, leaked = TwoPoint("1e-3", "0.02", "0.0166242").figures()
    assert c1 == pytest.approx(7.0711e-4, rel=1e-4)  # nats
    assert x == pytest.approx(1.0, abs=5e-6)
    assert x < 1  # so the printed case 1 applies
    assert 2 - x == pytest.approx(1.0, abs=5e-6)  # what case 1 allows, in units of C1
    assert leaked == pytest.approx(1.3159, abs=5e-5)


def test_e02_second_counterexample_breaks_the_max_form_too() -> None:
    c1, x, leaked = TwoPoint("1e-4", "0.01", "0.0025724").figures()
    assert x == pytest.approx(0.75, abs=2e-5)
    assert leaked == pytest.approx(1.25467, abs=5e-6)
    max_form = max(2 - x, 3 * x - 1)
    assert max_form == pytest.approx(1.25, abs=5e-5)
    assert leaked > max_form + 0.004
    # The package agrees, in its own units.
    constants = Constants(c1 / SQRT_LN2, x * c1 / SQRT_LN2)
    true_leakage = leakage([0.5 + 1.2546676e-4, 0.5 - 1.2546676e-4], [0.5, 0.5])
    assert true_leakage > constants.printed_bound(1.0)
    assert constants.leakage_range(1.0).low <= true_leakage <= constants.leakage_range(1.0).high


# --- E3: what the optimum certifies -----------------------------------------------------------


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize(("c1", "c2"), [(0.5, 3.0), (0.9, 100.0)])
def test_e03_what_the_optimum_certifies(name: str, c1: float, c2: float) -> None:
    for share in (0.1, 0.5, 0.9, 0.999, 1.0, 1.2, 1.49, 1.501, 1.7, 1.99):
        budget = share * c1
        if budget >= 1:
            continue
        found = solution(name, c1, c2, budget)
        assert found.distortion is not None
        x = c2 * found.distortion
        assert x == pytest.approx(2 * c1 - budget, rel=1e-9)
        # All that is known of the leakage at the optimum is C1 - x <= leakage <= C1 + x.
        assert found.proved_in_the_model is (share >= 1.5)
        if share < 1:  # outside the metric's own case: its other regime allows
            allowed = 3 * x - c1
            assert allowed == pytest.approx(5 * c1 - 3 * budget, rel=1e-9)
            assert allowed > 2 * c1
            assert f"{min(1.0, 5 * c1 - 3 * budget):.4g}" in found.guarantee
            assert found.guarantee.startswith("No guarantee")
        else:  # and here no protection at all would do
            assert c1 <= budget


# --- E4: from clients to the system -----------------------------------------------------------


def test_e04_the_system_bound_does_not_follow_from_the_client_bounds() -> None:
    # Clients with C1 = .2, x = .5 and C1 = .6, x = .1: the client bounds are 3*.5-.2 = 1.3 and
    # 2*.6-.1 = 1.1, mean 1.2; the means are C1 = .4, x = .3, for which the max is .5.
    printed, implied = surrogate_bounds.system_bounds([0.2, 0.6], 1.0, [0.5, 0.1])
    assert [printed, implied] == pytest.approx([0.5, 1.2])
    rng = np.random.default_rng(4)
    for _ in range(500):
        clients = int(rng.integers(1, 6))
        c1, tv = rng.uniform(0.01, 1, clients), rng.uniform(0, 1, clients)
        c2 = float(rng.uniform(0.1, 5))
        printed, implied = surrogate_bounds.system_bounds(c1.tolist(), c2, tv.tolist())
        x = c2 * tv
        assert implied == pytest.approx(np.maximum(2 * c1 - x, 3 * x - c1).mean())
        assert implied >= printed - 1e-12
        # The mean of C1 + x does bound the system, and needs no client bound: so the printed
        # form holds for the system outside (C1/2, C1), as it does for one client.
        if not c1.mean() / 2 < x.mean() < c1.mean():
            assert printed >= c1.mean() + x.mean() - 1e-12


# --- E5, E6: the assumption, and xi -----------------------------------------------------------


def test_e05_the_assumption_forces_one_belief_for_all_parameters() -> None:
    rng = np.random.default_rng(5)
    beliefs = rng.dirichlet(np.ones(5), size=(10_000, 4))  # [system, w, d]
    # best[s, w]: f(d|w) >= f(d|w') for every w' and d, up to rounding
    best = (beliefs[:, :, None, :] >= beliefs[:, None, :, :] - 1e-12).all(axis=(2, 3))
    assert not best.any()
    # Forced to comply, every other belief loses mass, unless it is the same.
    forced = np.minimum(beliefs, beliefs[:, :1, :])
    assert (forced[:, 1:].sum(axis=-1) < 1 - 1e-6).all()
    same = np.repeat(beliefs[:, :1, :], 4, axis=1)
    assert (same[:, :, None, :] >= same[:, None, :, :] - 1e-12).all()
    # A belief that does not depend on w leaks nothing about what w was made of.
    prior = same.mean(axis=1)
    assert js_nats(same[:, 0], prior).max() < 1e-15


def test_e06_xi_is_infinite_without_smoothing_and_measures_the_smoothing_with_it() -> None:
    prior = np.full(5, 0.2)  # four data and "nothing recovered"
    always = np.array([0.25, 0.25, 0.25, 0.25, 0.0])  # an attack that always succeeds
    never = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    with np.errstate(divide="ignore"):
        for belief in (always, never):
            xi = float(np.abs(np.log(belief / prior)).max())
            assert xi == math.inf
            with pytest.raises(InvalidInput, match="xi"):
                surrogate_bounds.log_c2(xi)
    # Add-one smoothing: the same attack, but C2 grows as the square of the number of trials.
    c2 = []
    for trials in (100, 1_000, 10_000):
        smoothed = (always * 4 * trials + 1) / (4 * trials + 5)
        c2.append(math.exp(surrogate_bounds.log_c2(float(np.abs(np.log(smoothed / prior)).max()))))
    assert c2[1] / c2[0] == pytest.approx(100, rel=0.05)
    assert c2[2] / c2[1] == pytest.approx(100, rel=0.05)


def test_e06_xi_of_the_unprotected_parameter_alone_bounds_nothing() -> None:
    # f(.|w1) is close to the prior, f(.|w2) is not; only w1 occurs without protection.
    a, b, tau = 0.001, 0.2, 0.5
    prior = np.array([0.5, 0.5])
    original, other = (np.array([0.5 + v, 0.5 - v]) for v in (a, b))
    shift = abs(
        float(root_js((1 - tau) * original + tau * other, prior)) - float(root_js(original, prior))
    )
    estimated = Constants.from_xi(0.5, -math.log(1 - 2 * a))
    true = Constants.from_xi(0.5, -math.log(1 - 2 * b))
    assert shift > 50 * estimated.c2 * tau
    assert shift <= true.c2 * tau


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_e06_the_larger_c2_the_weaker_the_protection(name: str) -> None:
    distortions = []
    for c2 in (200.0, 400.0, 2_000.0):
        found = solution(name, 0.9, c2, 0.3)
        assert found.distortion is not None
        distortions.append(found.distortion)
    # q = 1.5/C2: ten times the constant, a tenth of the distortion
    assert distortions == pytest.approx([0.0075, 0.00375, 0.00075], rel=1e-9)


# --- E7: the closed-form part -----------------------------------------------------------------


@pytest.mark.parametrize("q", [0.001, 0.1, 0.5, 0.99])
def test_e07_the_optimum_drops_a_fixed_number_of_coordinates(q: float) -> None:
    for m in (10, 2_410, 10**6, 10**9):
        profile = Profile(m, delta=0.5)
        found = mechanism("compression").value(mechanism("compression").inverse(q, profile))
        dropped = -math.expm1(found.log_value)  # 1 - ρ*
        with mpmath.workdps(40):
            oracle = float(m * (1 - (1 - mpmath.mpf(q)) ** (mpmath.mpf(1) / m)))
        assert m * dropped == pytest.approx(oracle, rel=1e-12)
        assert m * dropped <= -math.log1p(-q)
        if m >= 2_410:
            assert m * dropped == pytest.approx(-math.log1p(-q), rel=2e-3)


def test_e07_mask_and_modulus_go_to_their_neutral_values() -> None:
    for delta, q in itertools.product((0.01, 0.5, 3.0), (0.001, 0.5, 0.999)):
        for m in (2_410, 10**6, 10**9):
            profile = Profile(m, delta=delta)
            mask = (
                mechanism("secret-sharing")
                .value(mechanism("secret-sharing").inverse(q, profile))
                .value
            )
            modulus = mechanism("paillier").value(mechanism("paillier").inverse(q, profile)).value
            assert 0 <= mask / delta - 1 < 7.0 / m
            assert 0 <= modulus / math.sqrt(2 * delta) - 1 < 3.5 / m


# --- E8: the printed optima -------------------------------------------------------------------


@pytest.mark.parametrize("name", BOXES)
@pytest.mark.parametrize(("c1", "c2", "budget"), [(0.9, 100.0, 0.3), (0.5, 2.0, 0.7)])
def test_e08_residual_of_the_optima(name: str, c1: float, c2: float, budget: float) -> None:
    lacks_one_minus = name != "compression"
    q = (2 * c1 - budget) / c2
    for form in ("printed", "corrected"):
        found = solution(name, c1, c2, budget, "printed" if form == "printed" else "corrected")
        assert found.value is not None
        # The paper's metric at that γ, from its text.
        with mpmath.workdps(60):
            m, delta = 2410, mpmath.mpf("0.5")
            base = (1 - mpmath.mpf(q)) if form == "corrected" or name == "compression" else q
            if name == "paillier":
                gamma = mpmath.sqrt(2 * delta) / mpmath.mpf(base) ** (mpmath.mpf(1) / (2 * m))
                tv = 1 - (2 * delta / gamma**2) ** m
            elif name == "secret-sharing":
                gamma = delta / mpmath.mpf(base) ** (mpmath.mpf(1) / m)
                tv = 1 - (2 * delta / (2 * gamma)) ** m
            else:
                gamma = mpmath.mpf(base) ** (mpmath.mpf(1) / m)
                tv = 1 - gamma**m
            metric = float(2 * c1 - c2 * tv)
        assert found.value.value == pytest.approx(float(gamma), rel=1e-12)
        assert found.surrogate_leakage == pytest.approx(metric, abs=1e-9)
        expected = 2 * (2 * c1 - budget) - c2 if form == "printed" and lacks_one_minus else 0.0
        assert metric - budget == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["paillier", "secret-sharing"])
def test_e08_unlike_clients_share_the_residual(name: str) -> None:
    # q = .3: as printed the mean distortion is 1 - q, by the text's formula at the γ found.
    profiles = [Profile(50, delta=d) for d in (0.4, 0.5)]
    for form, expected in (("printed", 0.7), ("corrected", 0.3)):
        asked: Form = "printed" if form == "printed" else "corrected"
        found = solve(mechanism(name), Constants(0.5, 2.0), Problem(0.4), profiles, form=asked)
        assert found.value is not None
        gamma = np.array([found.value.value])
        tv = [float(metric_tv(name, gamma, d, 1.0)[0]) for d in (0.4, 0.5)]
        assert sum(tv) / 2 == pytest.approx(expected, rel=1e-9)


# --- E9: the error theorems -------------------------------------------------------------------


def test_e09_printed_and_corrected_error_of_c1() -> None:
    e = 0.1
    printed = math.sqrt(
        (1 + e) * math.log((1 + e) / (1 - e)) / 2
        + (e + max(math.log(1 + e), math.log(1 / (1 - e)))) / 2
    )
    corrected = e * math.sqrt(math.log(2) / (2 * (2 - e)))
    assert printed == pytest.approx(0.4616, abs=5e-5)  # nats
    assert corrected == pytest.approx(0.0427, abs=5e-5)  # nats
    assert surrogate_bounds.c1_error_bound(e, "printed") * SQRT_LN2 == pytest.approx(printed)
    assert surrogate_bounds.c1_error_bound(e) * SQRT_LN2 == pytest.approx(corrected)
    for error in np.linspace(0.001, 0.999, 50):
        assert surrogate_bounds.c1_error_bound(error) < surrogate_bounds.c1_error_bound(
            error, "printed"
        )


def test_e09_the_proof_step_for_negative_logarithms_fails() -> None:
    e, k1, k2 = 0.1, 0.01, 0.9
    estimate = (1 - e) * k1
    left = estimate * math.log(2 * estimate / (estimate + k2))
    right = (1 + e) * k1 * math.log(2 * (1 + e) * k1 / ((1 - e) * k1 + k2))
    assert left > right  # the proof claims left <= right


@pytest.mark.parametrize("e", [0.01, 0.1, 0.5, 0.9])
def test_e09_the_triangle_bound_holds(e: float) -> None:
    rng = np.random.default_rng(9)
    count = 10_000
    sizes = 10 ** rng.uniform(-1.5, 0.5, (2, count, 1))
    gammas = rng.gamma(np.broadcast_to(sizes, (2, count, 6))) + 1e-300
    belief, prior = gammas / gammas.sum(axis=-1, keepdims=True)
    # Half the priors are close to the belief: there, C1 is most sensitive.
    prior[::2] = belief[::2]
    signs = rng.choice([-1.0, 1.0], (count, 6)) * np.where(
        rng.random((count, 1)) < 0.5, 1, rng.random((count, 6))
    )
    estimate = belief * (1 + e * signs)
    gap = np.abs(root_js(estimate, prior) - root_js(belief, prior))
    assert gap.max() <= surrogate_bounds.c1_error_bound(e) + 1e-7
    assert gap.max() > 0.3 * surrogate_bounds.c1_error_bound(e)


def test_e09_the_metric_doubles_the_error_of_c1() -> None:
    # ε̃ = 2 C1 - C2 TV; the paper's proof writes 3/2 C1.
    for shift in (-0.04, 0.03):
        moved = Constants(0.6 + shift, 2.0).surrogate_leakage(0.2)
        assert abs(moved - Constants(0.6, 2.0).surrogate_leakage(0.2)) == pytest.approx(
            2 * abs(shift)
        )
    assert surrogate_bounds.leakage_error_bound(0.1) == pytest.approx(
        2 * surrogate_bounds.c1_error_bound(0.1)
    )
    assert surrogate_bounds.leakage_error_bound(0.1, "printed") == pytest.approx(
        1.5 * 0.46157 / SQRT_LN2, 1e-4
    )


# --- E10: the noise ---------------------------------------------------------------------------


def gaussian_tv(m: int, ratio: float) -> float:
    """TV of N(0, I) and N(0, (1 + ratio) I) in m dimensions, by quadrature over the radius."""
    edge = math.sqrt(m * math.log1p(ratio) * (1 + ratio) / ratio)  # the densities cross here
    radius = stats.chi(m)
    inner, _ = integrate.quad(radius.pdf, edge / math.sqrt(1 + ratio), edge, epsabs=1e-13)
    return float(inner)


@pytest.mark.parametrize("m", [1, 2, 10, 500])
def test_e10_the_lower_bound_is_17_to_100_times_too_small(m: int) -> None:
    found = []
    for scaled in (0.001, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 1_000.0):  # s²A
        ratio = scaled / math.sqrt(m)  # A = √m / σ²
        exact = gaussian_tv(m, ratio)
        assert isotropic_tv(m, math.log(ratio)) == pytest.approx(exact, rel=1e-8)
        log_dose = math.log(ratio)
        lower = mechanism("randomization").distortion(log_dose, Profile(m, sigma=1.0))
        assert lower == pytest.approx(0.01 * min(1.0, scaled))
        assert (
            mechanism("randomization").utility_bound(
                Strength(log_dose), Profile(m, sigma=1.0), 1.0, "corrected", 1
            )
            >= exact - 1e-12
        )
        found.append(exact / lower)
    assert min(found) == pytest.approx({1: 16.606, 2: 19.443, 10: 23.733, 500: 27.0}[m], rel=2e-3)
    assert found[3] == min(found)  # at s²A = 1
    assert 92 < max(found) < 100 + 1e-9


def test_e10_sigma_is_a_standard_deviation() -> None:
    # Were it a variance v, the bound would be false: m = 1, v = .01, s² = 1e-4.
    variance, noise = 0.01, 1e-4
    exact = gaussian_tv(1, noise / variance)
    assert 0.01 * min(1.0, noise / variance**2) > 4 * exact
    profile = Profile(1, sigma=math.sqrt(variance))
    assert mechanism("randomization").distortion(math.log(noise), profile) <= exact


def test_e10_one_constant_coordinate_makes_the_optimum_vanish() -> None:
    q = 0.005
    optima = []
    for smallest in (1.0, 1e-3, 1e-6):
        sigma = np.ones(2410)
        sigma[7] = smallest
        found = mechanism("randomization").inverse(q, Profile.from_sigmas(sigma)).dose
        assert found == pytest.approx(100 * q / math.sqrt((sigma**-4).sum()), rel=1e-12)
        optima.append(found)
    assert optima[2] == pytest.approx(100 * q * 1e-12, rel=1e-6)  # goes to 0 with σ²
    sigma[7] = 0.0
    floored = Profile.from_sigmas(sigma)
    assert floored.floored == 1
    assert mechanism("randomization").inverse(q, floored).dose == pytest.approx(optima[0])
    with pytest.raises(InvalidInput, match="zeros"):
        Profile(2410, sigma=sigma)


# --- E11, E12, E13, E14: compression, secret sharing, utility ---------------------------------


@pytest.mark.parametrize(("rho", "m"), [(0.9, 1), (0.9, 5), (0.98, 20)])
def test_e11_rescaling_changes_the_distortion_of_compression(rho: float, m: int) -> None:
    # The best event to tell P^O from P^S: every coordinate is in the box and not zero. P^O gives
    # it 1; on it the density of P^S is the smaller one, so TV = 1 - P^S(event).
    rng = np.random.default_rng(11)
    count = 200_000
    log_dose = math.log(-math.log(rho))
    for centre, rescale in ((0.0, True), (0.0, False), (3.0, False)):
        update = centre + rng.uniform(-1, 1, (count, m))
        kept = rng.random((count, m)) < rho
        sent = np.where(kept, update / rho if rescale else update, 0.0)
        event = (kept & (np.abs(sent - centre) <= 1)).all(axis=1)
        measured = 1 - event.mean()
        exact = 1 - rho ** (2 * m if rescale else m)
        assert measured == pytest.approx(exact, abs=5 * 0.5 / math.sqrt(count))
        ours = (
            rescaled_distortion(log_dose, m)
            if rescale
            else mechanism("compression").distortion(log_dose, Profile(m))
        )
        assert ours == pytest.approx(exact, rel=1e-12)


def test_e12_rho_runs_the_other_way_and_compression_saves_bits() -> None:
    compression = mechanism("compression")
    assert compression.parameter.stronger == "smaller"
    assert all(
        mechanism(name).parameter.stronger == "larger"
        for name in MECHANISMS
        if name != "compression"
    )
    m, previous = 1_000, (0.0, 1.0 + 1e-12)
    rng = np.random.default_rng(12)
    for log_dose in (-9.0, -7.0, -5.0, -2.0):
        strength = Strength(log_dose)
        current = compression.distortion(log_dose, Profile(m)), compression.value(strength).value
        assert current[0] > previous[0]
        assert current[1] < previous[1]  # more dose, less ρ
        previous = current
        # Cost in sent coordinates, protected less unprotected: a gain, where the lemma's bound
        # only says that it is at most C5·TV > 0.
        sent = rng.binomial(m, current[1], 2_000).mean()
        assert (
            sent - m
            < 0
            < compression.efficiency_bound(strength, Profile(m), float(m), "corrected", 1)
        )


def test_e13_printed_cost_of_secret_sharing() -> None:
    sharing, m = mechanism("secret-sharing"), 100
    small = sharing.inverse(0.5, Profile(m, delta=0.25))
    r = 0.25 * 2 ** (1 / m)
    assert sharing.efficiency_bound(small, Profile(m, delta=0.25), 1.0, "printed", 1) == (
        pytest.approx(m * math.log(r))
    )
    assert m * math.log(r) < 0  # a cost bound below zero
    large = sharing.inverse(0.5, Profile(m, delta=250.0))  # the same update in other units
    assert sharing.efficiency_bound(large, Profile(m, delta=250.0), 1.0, "printed", 1) > 0
    # A sum over clients, where the efficiency reduction is a mean.
    one, ten = (
        sharing.efficiency_bound(large, Profile(m, delta=250.0), 1.0, "printed", clients)
        for clients in (1, 10)
    )
    assert ten == pytest.approx(10 * one)
    # The general lemma applies as it does to the others: C5·TV, whatever the units.
    for strength, delta in ((small, 0.25), (large, 250.0)):
        assert sharing.efficiency_bound(
            strength, Profile(m, delta=delta), 3.0, "corrected", 1
        ) == (pytest.approx(1.5))


def test_e14_the_utility_bound_is_vacuous_for_real_models() -> None:
    bound = mechanism("compression").utility_bound(
        Strength(math.log(-math.log(0.999))), Profile(2410), 1.0, "printed", 1
    )
    assert bound == pytest.approx(1 - 0.999**2410, rel=1e-12)
    assert bound == pytest.approx(0.91, abs=5e-4)


# --- E15, E18: counting -----------------------------------------------------------------------


def test_e15_loops_from_zero_do_one_round_too_many() -> None:
    trials, batch = 10, 4
    counts = dict.fromkeys([*range(batch), "d0"], 0)
    for _ in range(trials + 1):  # "for t = 0, 1, ..., T", every attack a success
        for datum in range(batch):
            counts[datum] += 1
    assert sum(counts.values()) / (batch * trials) == pytest.approx(1.1)  # no probability
    steps = [r + 1 for r in range(trials + 1)]  # "for r = 0, ..., R" ends at w^{R+1}
    assert steps[-1] == trials + 1  # but w^R is returned
    # Classes: four records of one class, all recovered in T rounds.
    recovered, classes = batch * trials, 1
    assert recovered / (classes * trials) == 4.0  # as printed
    assert recovered / (batch * trials) == 1.0  # divided by |S_k|·T


@pytest.mark.parametrize(
    ("rates", "fewest", "vacuous_below"),
    [
        ([0.25] * 4, 6_091, 2_496),  # the lemma's sum over D_k, S = 4, an attack that succeeds
        ([0.2] * 5, 7_948, 3_454),  # four data and "nothing recovered", equally likely
        ([0.25] * 5, 6_358, 2_764),  # five terms of 1/4: no distribution
    ],
)
def test_e18_trials_that_the_chernoff_lemma_asks_for(
    rates: list[float], fewest: int, vacuous_below: int
) -> None:
    def failure(trials: int) -> float:
        return sum(2 * math.exp(-(0.1**2) * trials * rate / 3) for rate in rates)

    assert failure(fewest) <= 0.05 < failure(fewest - 1)
    assert failure(vacuous_below) < 1 <= failure(vacuous_below - 1)
    assert surrogate_bounds.chernoff_sample_size(0.1, 0.05, rates) == fewest
    assert surrogate_bounds.chernoff_failure(0.1, vacuous_below - 1, rates) == 1.0
    assert surrogate_bounds.chernoff_failure(0.1, fewest, rates) == pytest.approx(failure(fewest))


def test_e18_the_lemma_itself_holds() -> None:
    # It is only wasteful: the exact failure rate at the promised T, by the binomial law.
    trials, rate, e = 6_091, 0.25, 0.1
    distribution_of_counts = stats.binom(trials, rate)
    mean = trials * rate
    exact = distribution_of_counts.cdf(math.ceil((1 - e) * mean) - 1) + distribution_of_counts.sf(
        math.floor((1 + e) * mean)
    )
    assert exact < 1e-4 < surrogate_bounds.chernoff_failure(e, trials, [rate])


# --- E19: Paillier keys -----------------------------------------------------------------------


def paillier_decrypts(p: int, q: int) -> bool:
    """Whether some g in Z*_{n²} gives keys that decrypt every message of the textbook scheme."""
    n = p * q
    square, exponent = n * n, math.lcm(p - 1, q - 1)
    for g in range(1, square):
        if math.gcd(g, n) != 1:
            continue
        value = (pow(g, exponent, square) - 1) // n
        if math.gcd(value, n) != 1:
            continue  # μ does not exist
        mu = pow(value, -1, n)
        r = next(r for r in range(2, n) if math.gcd(r, n) == 1)
        return all(
            (pow(pow(g, m, square) * pow(r, n, square) % square, exponent, square) - 1)
            // n
            * mu
            % n
            == m
            for m in range(n)
        )
    return False


def test_e19_the_printed_condition_on_primes_lets_useless_keys_pass() -> None:
    def printed(p: int, q: int) -> bool:
        return math.gcd(p * q, (p - q) * (q - 1)) == 1

    def right(p: int, q: int) -> bool:
        return math.gcd(p * q, (p - 1) * (q - 1)) == 1

    assert printed(7, 3)
    assert not right(7, 3)  # 3 divides 7 - 1
    assert not paillier_decrypts(7, 3)
    assert not printed(3, 7)  # the same key, the primes exchanged
    primes = (2, 3, 5, 7, 11, 13)
    for p, q in itertools.permutations(primes, 2):
        assert paillier_decrypts(p, q) is right(p, q)
        assert printed(p, q) or not right(p, q)  # printed asks for less, never for more


def test_e19_not_every_g_will_do() -> None:
    # "g in Z*_{n²}, therefore n divides its order": it need not, and then μ does not exist.
    p, q = 5, 7
    n = p * q
    useless = [
        g
        for g in range(1, n * n)
        if math.gcd(g, n) == 1 and math.gcd((pow(g, 12, n * n) - 1) // n, n) != 1
    ]
    units = n * (p - 1) * (q - 1)
    assert len(useless) == units * (n - 24) // n  # all but φ(n)/n of them


# --- E20: a proof needs an upper bound of the distortion --------------------------------------


def test_e20_the_noise_bound_uses_a_lower_bound_of_tv() -> None:
    found = solution("randomization", 0.5, 25.0, 0.75)
    assert found.value is not None
    assert found.value.value == pytest.approx(1 / math.sqrt(2410))  # s²A = 1
    assert found.surrogate_leakage == pytest.approx(0.75)  # by the paper's metric
    limit = 0.5 + 25 * math.erf(0.25)  # C1 + C2·TV for large m
    assert limit == pytest.approx(7.4, abs=0.01)
    assert 0.5 + 25 * gaussian_tv(2410, 1 / math.sqrt(2410)) == pytest.approx(7.34, abs=0.005)
    assert not found.proved
    assert found.guarantee.startswith("Unproved")
    assert not Constants(0.5, 25.0).proves(0.75, math.erf(0.25))
    assert Constants(0.5, 25.0).proves(0.75, 0.0099)


@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0, 10.0])
def test_e20_the_distortion_limit_bounds_the_true_distortion(noise: float) -> None:
    # Unlike σ have no closed form: m = 2, σ = (1, 1/2), by the midpoint rule on a wide square.
    axis = (np.arange(4_000) + 0.5) / 4_000 * 16 - 8
    deviations = [1.0, 0.5]
    before, after = (
        np.outer(*(stats.norm.pdf(axis, scale=math.hypot(d, extra)) for d in deviations))
        for extra in (0.0, math.sqrt(noise))
    )
    exact = float(np.maximum(before - after, 0).sum() * (16 / 4_000) ** 2)  # before > after inside
    profile = Profile(2, sigma=np.array(deviations))
    limit = mechanism("randomization").distortion_limit(math.log(noise), profile)
    assert exact <= limit <= 1.6 * exact
    assert mechanism("randomization").distortion(math.log(noise), profile) <= exact


def test_e20_a_client_with_a_wider_box_than_the_mask_is_distorted_too() -> None:
    # Two clients, δ = 1 and 2; the mean of the metric's TV asks for r = 1.05 only, a box narrower
    # than the second client's: its true TV is 1 - (r/2)^10, not 0.
    profiles = [Profile(10, delta=1.0), Profile(10, delta=2.0)]
    found = solve(mechanism("secret-sharing"), Constants(0.5, 1.0), Problem(0.8), profiles)
    assert found.value is not None
    r = found.value.value
    assert r == pytest.approx((1 - 0.4) ** (-1 / 10))  # mean of (1 - r^-10, 0) = .2
    true_mean = ((1 - r**-10) + (1 - (r / 2) ** 10)) / 2
    assert 0.5 + true_mean > 0.8
    assert not found.proved
    assert found.guarantee.startswith("Unproved")


# --- E21: utility of several clients under compression ----------------------------------------


def test_e21_the_utility_lemma_of_compression_fails_for_two_clients() -> None:
    # m = 1, K = 2, updates uniform on [9, 11], utility 1 if the mean lies there, else 0 (C4 = 1).
    # Unprotected it always does; protected, only if both clients keep their coordinate.
    rng = np.random.default_rng(21)
    count, rho = 200_000, 0.9
    update = rng.uniform(9, 11, (count, 2))
    kept = rng.random((count, 2)) < rho
    printed = mechanism("compression").utility_bound(
        Strength(math.log(-math.log(rho))), Profile(1), 1.0, "printed", 2
    )
    assert printed == pytest.approx(0.1)
    losses = {}
    for rescale in (False, True):
        mean = np.where(kept, update / rho if rescale else update, 0.0).mean(axis=1)
        losses[rescale] = 1 - float(((mean >= 9) & (mean <= 11)).mean())
    margin = 5 * 0.5 / math.sqrt(count)
    assert losses[False] == pytest.approx(1 - rho**2, abs=margin)  # .19, nearly twice the bound
    assert losses[False] > printed + margin
    assert losses[True] > losses[False] + margin  # and worse with the paper's 1/ρ


# --- Theorem meta, by brute force -------------------------------------------------------------

M, DELTA, SIGMA = 50, 0.5, 0.7


def metric_tv(name: str, gamma: Floats, delta: float, sigma: float) -> Floats:
    """The distortion that the paper's metric uses, from its text."""
    if name == "randomization":
        tv = 0.01 * np.minimum(1, gamma * math.sqrt(M / sigma**4))
    elif name == "paillier":
        tv = 1 - (2 * delta / gamma**2) ** M
    elif name == "secret-sharing":
        tv = 1 - (2 * delta / (gamma + gamma)) ** M
    else:
        tv = 1 - gamma**M
    return np.maximum(tv, 0.0)


def metric_losses(name: str, gamma: Floats, delta: float, sigma: float) -> tuple[Floats, Floats]:
    """The paper's bounds of utility loss and efficiency reduction, C4 = C5 = 1, cut at 1.

    Secret sharing has the general lemma's C5·TV in place of its own (E13).
    """
    if name == "randomization":
        both = np.minimum(1, 1.5 * np.minimum(1, gamma * math.sqrt(M / sigma**4)))
        return both, both
    tv = metric_tv(name, gamma, delta, sigma)
    return (tv if name == "compression" else np.zeros_like(tv)), tv


GRIDS: dict[str, Callable[[], Floats]] = {
    "randomization": lambda: np.linspace(0, 0.2, 200_001),
    "paillier": lambda: np.linspace(math.sqrt(2 * DELTA), 2.2, 200_001),
    "secret-sharing": lambda: np.linspace(DELTA, 2.0, 200_001),
    "compression": lambda: np.linspace(0.8, 1, 200_001),
}


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("weights", [(1.0, 0.01), (0.0, 1.0), (1.0, 0.0), (0.3, 0.7)])
@pytest.mark.parametrize(("c1", "c2", "budget"), [(0.9, 200.0, 0.3), (0.5, 120.0, 0.8)])
def test_theorem_meta_the_optimum_wins_on_a_fine_grid(
    name: str, weights: tuple[float, float], c1: float, c2: float, budget: float
) -> None:
    gamma = GRIDS[name]()
    allowed = 2 * c1 - c2 * metric_tv(name, gamma, DELTA, SIGMA) <= budget
    assert allowed.any()
    assert not allowed.all()
    utility, cost = metric_losses(name, gamma, DELTA, SIGMA)
    best = (weights[0] * utility + weights[1] * cost)[allowed].min()
    profile = Profile(M, DELTA, SIGMA)
    problem = Problem(budget, *weights)
    found = solve(mechanism(name), Constants(c1, c2), problem, [profile])
    assert found.feasible
    assert found.value is not None
    assert found.objective is not None
    # No grid point that meets the constraint does better, and the best one is next to γ*.
    step = float(np.abs(np.diff(gamma)).max())
    assert found.objective <= best + 1e-9
    gradient = float(np.abs(np.diff(weights[0] * utility + weights[1] * cost)).max())
    assert best <= found.objective + gradient + 1e-9
    edge = gamma[allowed].max() if name == "compression" else gamma[allowed].min()
    assert abs(found.value.value - edge) <= step * 1.000001


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_theorem_meta_with_unlike_clients(name: str) -> None:
    c1, c2, budget = 0.9, 200.0, 0.3
    clients = [(0.4, 0.5), (0.5, 0.7), (0.45, 0.9)]  # (δ, σ)
    gamma = {
        "randomization": np.linspace(0, 0.2, 200_001),
        "paillier": np.linspace(0.85, 1.1, 200_001),
        "secret-sharing": np.linspace(0.35, 0.6, 200_001),
        "compression": np.linspace(0.99, 1, 200_001),
    }[name]
    tv = np.mean([metric_tv(name, gamma, d, s) for d, s in clients], axis=0)
    allowed = 2 * c1 - c2 * tv <= budget
    profiles = [Profile(M, d, s) for d, s in clients]
    found = solve(mechanism(name), Constants(c1, c2), Problem(budget), profiles)
    assert found.value is not None
    edge = gamma[allowed].max() if name == "compression" else gamma[allowed].min()
    assert abs(found.value.value - edge) <= float(gamma[1] - gamma[0]) * 1.000001


# --- What really holds: |leakage - C1| <= C2·TV, and its sharper forms ------------------------


@dataclass(frozen=True)
class Systems:
    """Random finite federations, one client each, with every quantity from its definition."""

    c1: Floats
    leaked: Floats
    shift: Floats  # √(JS(F^A, F^O) / ln 2)
    tv: Floats
    xi: Floats


def random_systems(seed: int, count: int, concentration: tuple[float, float]) -> Systems:
    """4 parameters, 5 data; beliefs of all sharpnesses, priors unrelated or their mean."""
    rng = np.random.default_rng(seed)
    shape = 10 ** rng.uniform(*concentration, (count, 1, 1))
    table = rng.gamma(np.broadcast_to(shape, (count, 4, 5))) + 1e-12
    table /= table.sum(axis=-1, keepdims=True)
    distributions = rng.dirichlet(np.full(4, 0.3), size=(2, count))
    near = rng.random(count) < 0.5  # protections that change little
    move = (10 ** rng.uniform(-3, 0, count))[:, None]
    distributions[1] = np.where(
        near[:, None], (1 - move) * distributions[0] + move * distributions[1], distributions[1]
    )
    own = rng.dirichlet(np.ones(5), size=count)
    prior = np.where((rng.random(count) < 0.5)[:, None], table.mean(axis=1), own)
    original, protected = (np.einsum("nw,nwd->nd", p, table) for p in distributions)
    return Systems(
        c1=root_js(original, prior),
        leaked=root_js(protected, prior),
        shift=root_js(original, protected),
        tv=np.abs(distributions[0] - distributions[1]).sum(axis=-1) / 2,
        xi=np.abs(np.log(table / prior[:, None, :])).max(axis=(1, 2)),
    )


@pytest.mark.parametrize("concentration", [(-1.0, 1.0), (1.0, 4.0)], ids=["sharp", "flat"])
def test_leakage_moves_by_at_most_c2_tv(concentration: tuple[float, float]) -> None:
    systems = random_systems(100, 60_000, concentration)
    rounding = 1e-7  # of a root of differences of 1e-15
    gap = np.abs(systems.leaked - systems.c1)
    assert (gap <= systems.shift + rounding).all()  # the triangle inequality
    paper = np.expm1(2 * systems.xi) / 2 / SQRT_LN2 * systems.tv
    assert (systems.shift <= paper + rounding).all()  # the lemma that the paper builds on
    sharper = np.array(
        [
            surrogate_bounds.posterior_shift_bound(float(t), float(x))
            for t, x in zip(systems.tv, systems.xi, strict=True)
        ]
    )
    assert (systems.shift <= sharper + rounding).all()
    assert (sharper <= np.minimum(paper, 1) * (1 + 1e-12)).all()
    oracle = np.minimum(
        np.exp(np.minimum(systems.xi / 2, 300)) * np.sinh(systems.xi) * systems.tv,
        np.sqrt(systems.tv),
    )
    np.testing.assert_allclose(sharper, np.minimum(oracle, 1), rtol=1e-9)
    for c1, leaked, tv, xi in zip(
        systems.c1[:2_000], systems.leaked, systems.tv, systems.xi, strict=False
    ):
        known = Constants.from_xi(float(c1), float(xi)).leakage_range(float(tv))
        assert known.low - rounding <= leaked <= known.high + rounding


def test_the_sharper_forms_are_not_far_from_the_truth() -> None:
    # Two parameters, two data, small ξ: the shift is √(1/(2 ln 2)) = .85 of e^{ξ/2} sinh ξ · TV.
    for b in (1e-3, 1e-2):
        table = np.array([[0.5 + b, 0.5 - b], [0.5 - b, 0.5 + b]])
        shift = float(root_js(table[0], table[1]))
        limit = surrogate_bounds.posterior_shift_bound(1.0, -math.log(1 - 2 * b))
        assert 0.8 < shift / limit <= 0.85
    # Disjoint beliefs, ξ without limit: the shift is √TV exactly.
    for tau in (0.01, 0.5, 1.0):
        first, second = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
        mixed = (1 - tau) * first + tau * second
        assert float(root_js(first, mixed)) <= surrogate_bounds.posterior_shift_bound(tau, 300.0)
    assert surrogate_bounds.posterior_shift_bound(1.0, 300.0) == pytest.approx(
        float(root_js(first, second))
    )


# --- The certificate --------------------------------------------------------------------------


def proved(kappa: float, mu: float, rounds: int = 1) -> float:
    """The bound of rounds that surely hold the record, whose influence is mu of the noise."""
    return success_bound(Training(rounds, 1.0, 1 / mu, "known"), 1 / kappa)


def orthogonal_success(candidates: int, mu: float) -> float:
    """Bayes-optimal success on orthogonal candidates of norm mu, uniform prior, unit noise.

    The best attacker takes the largest of N independent scores, of which one has mean mu.
    """

    def density(z: float) -> float:
        return float(stats.norm.pdf(z) * stats.norm.cdf(z + mu) ** (candidates - 1))

    return float(integrate.quad(density, -12, 12, epsabs=1e-12)[0])


@pytest.mark.parametrize(
    ("candidates", "mu", "success", "certified"),
    [(10, 1.0, 0.341, 0.389), (100, 2.0, 0.323, 0.372), (1000, 5.0, 0.951, 0.972)],
)
def test_certificate_on_orthogonal_candidates(
    candidates: int, mu: float, success: float, certified: float
) -> None:
    exact = orthogonal_success(candidates, mu)
    assert exact == pytest.approx(success, abs=5e-4)
    limit = proved(1 / candidates, mu)
    assert limit == pytest.approx(certified, abs=5e-4)
    assert exact <= limit


@pytest.mark.parametrize(("candidates", "mu"), [(10, 1.0), (100, 2.0), (1000, 5.0), (50, 0.3)])
@pytest.mark.parametrize("dimension", [3, 40])
def test_certificate_on_random_candidates(candidates: int, mu: float, dimension: int) -> None:
    rng = np.random.default_rng(7)
    trials = 10_000
    directions = rng.normal(size=(candidates, dimension))
    # Norms up to the clip, a prior that is not uniform: blind guess = the likeliest candidate.
    norms = mu * np.where(rng.random(candidates) < 0.5, 1.0, rng.random(candidates))
    updates = directions / np.linalg.norm(directions, axis=1, keepdims=True) * norms[:, None]
    for prior in (np.full(candidates, 1 / candidates), rng.dirichlet(np.ones(candidates))):
        truth = rng.choice(candidates, size=trials, p=prior)
        seen = updates[truth] + rng.normal(size=(trials, dimension))
        posterior = seen @ updates.T - norms**2 / 2 + np.log(prior)
        hits = int((posterior.argmax(axis=1) == truth).sum())
        limit = proved(float(prior.max()), mu)
        # False alarm if the true rate is at most the limit: below 1e-6.
        assert stats.binom.sf(hits - 1, trials, limit) > 1e-6


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("prior", [0.5, 0.6, 0.9])
def test_certificate_on_two_candidates_is_exact_for_opposite_ones(mu: float, prior: float) -> None:
    # g = ±mu with P(+) = prior, unit noise: guess + where y > -log(prior/(1-prior)) / (2 mu).
    edge = -math.log(prior / (1 - prior)) / (2 * mu)
    success = prior * stats.norm.sf(edge - mu) + (1 - prior) * stats.norm.cdf(edge + mu)
    limit = proved(prior, mu)
    assert success <= limit + 1e-12
    if prior == 0.5:
        assert success == pytest.approx(limit, rel=1e-12)  # attained: it cannot be improved


def test_certificate_over_rounds_and_in_both_directions() -> None:
    for kappa, mu in itertools.product((1e-6, 0.01, 0.3, 0.9), (0.1, 1.0, 4.0)):
        # R rounds of one record tell as much as one round with √R of the update.
        assert proved(kappa, mu, rounds=9) == pytest.approx(
            float(stats.norm.cdf(stats.norm.ppf(kappa) + 3 * mu))
        )
    for budget, candidates in itertools.product((0.1, 0.3, 0.5), (2, 100)):
        z = noise_multiplier_for(
            budget, rounds=4, q=1.0, participation="known", candidates=candidates
        )
        least = bernoulli_leakage(proved(1 / candidates, 1 / z, rounds=4), 1 / candidates)
        assert budget - 2e-4 < least <= budget


def test_certified_leakage_takes_the_worst_line_up() -> None:
    found, at = leakage_supremum(Training(1, 1.0, 1.0, "known"))
    inner = 1 / np.arange(2, 20_000)
    limits = stats.norm.cdf(stats.norm.ppf(inner) + 1.0)
    beliefs = np.stack([limits, 1 - limits], axis=-1)
    leakages = root_js(beliefs, np.stack([inner, 1 - inner], axis=-1))
    assert leakages.max() - 1e-9 <= found <= leakages.max() + 2e-4
    assert leakages[at - 2] == pytest.approx(leakages.max(), abs=2e-4)


@pytest.mark.parametrize("mu", [0.25, 1.0, 3.0])
def test_certificate_against_riskcal(mu: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    analysis = pytest.importorskip("riskcal.analysis")
    numeric = pld.from_gaussian_mechanism(
        standard_deviation=1 / mu, sensitivity=1.0, value_discretization_interval=1e-3
    )
    composed = numeric.self_compose(4)
    for kappa in (0.001, 0.01, 0.1, 0.5, 0.9):
        # p <= 1 - β(κ): β the trade-off function, from the privacy-loss distribution
        limit = 1 - float(analysis.get_beta_from_pld(numeric, alpha=kappa))
        assert proved(kappa, mu) == pytest.approx(limit, abs=1e-4)
        closed = 1 - float(analysis.get_beta_from_gdp(mu, kappa))
        assert proved(kappa, mu) == pytest.approx(closed, rel=1e-12)
        four = 1 - float(analysis.get_beta_from_pld(composed, alpha=kappa))
        assert proved(kappa, mu, rounds=4) == pytest.approx(four, abs=1e-3)
