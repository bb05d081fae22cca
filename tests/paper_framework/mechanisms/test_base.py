"""Every closed form against the plain formula in 50-digit arithmetic."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

from trilemma.errors import InvalidInput, UnknownName
from trilemma.paper_framework.mechanisms import MECHANISMS, mechanism
from trilemma.paper_framework.mechanisms.base import Form, Strength, mean_distortion, strength_for
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.surrogate_bounds import Constants

TOLERANCE = 1e-9
FORMS: tuple[Form, ...] = ("printed", "corrected", "tight")


@dataclass
class Setting:
    c1: float
    c2: float
    budget: float
    profile: Profile

    @property
    def q(self) -> float:
        return Constants(self.c1, self.c2).required_distortion(self.budget)

    def exact_q(self) -> mpf:
        return (2 * mpf(self.c1) - mpf(self.budget)) / mpf(self.c2)


def random_settings(count: int, seed: int) -> list[Setting]:
    rng = np.random.default_rng(seed)
    settings = []
    for _ in range(count):
        c1 = float(1 - rng.random())
        c2 = float(10 ** rng.uniform(-3, 12))
        edge = 2 * c1 - c2  # the budget at which q = 1; half of the draws lie close to it
        budget = float(rng.random()) if rng.random() < 0.7 else edge * (1 + rng.normal() / 10)
        budget = min(max(budget, 1e-9), 1 - 1e-9)
        m = int(10 ** rng.uniform(0, 9))
        delta, sigma = (float(10 ** rng.uniform(-9, 3)) for _ in range(2))
        settings.append(Setting(c1, c2, budget, Profile(m, delta, sigma)))
    return settings


def sigma_sum(profile: Profile) -> mpf:
    """A = √(Σ σᵢ⁻⁴), term by term."""
    if isinstance(profile.sigma, np.ndarray):
        return mp.sqrt(mp.fsum(mpf(float(s)) ** -4 for s in profile.sigma))
    assert profile.sigma is not None
    return mp.sqrt(mpf(profile.parameters) / mpf(profile.sigma) ** 4)


def plain_optimum(name: str, q: mpf, profile: Profile, form: Form) -> mpf:
    """The number that must be exact: s²*, ln n*, r* - δ or 1 - ρ*."""
    m = profile.parameters
    if name == "randomization":
        scale = 4 * mp.erfinv(q) if form == "tight" else 100 * q
        return scale / sigma_sum(profile)
    survival = q if form == "printed" else 1 - q
    if name == "compression":
        return 1 - (1 - q) ** (mpf(1) / m)
    assert profile.delta is not None
    delta = mpf(profile.delta)
    if name == "paillier":
        return mp.log(mp.sqrt(2 * delta) / survival ** (mpf(1) / (2 * m)))
    return delta / survival ** (mpf(1) / m) - delta


def our_optimum(name: str, strength: Strength) -> float:
    value = mechanism(name).value(strength)
    return value.log_value if name == "paillier" else value.distance


def assert_agrees(setting: Setting) -> int:
    checked = 0
    with mp.workdps(50):
        q = setting.exact_q()
        assert setting.q == pytest.approx(float(q), rel=TOLERANCE)
        for name, value in MECHANISMS.items():
            for form in FORMS:
                limit = value.largest_distortion(value.form(form))
                if not 0 < setting.q < 1 or setting.q > limit:
                    continue
                # The oracle starts from the same q: near 1 it is q itself that carries 1e-16.
                exact = plain_optimum(name, mpf(setting.q), setting.profile, value.form(form))
                strength = value.inverse(setting.q, setting.profile, value.form(form))
                ours = our_optimum(name, strength)
                assert abs(mpf(ours) - exact) <= TOLERANCE * abs(exact), (name, form, setting)
                again = value.distortion(strength.log_dose, setting.profile, value.form(form))
                target = value.reached(setting.q, value.form(form))
                assert again == pytest.approx(target, rel=TOLERANCE, abs=1e-300), (name, form)
                checked += 1
    return checked


def test_closed_forms_on_random_settings() -> None:
    settings = random_settings(2400, seed=13)
    checked = sum(assert_agrees(setting) for setting in settings)
    infeasible = sum(setting.q >= 1 for setting in settings)
    needless = sum(setting.q <= 0 for setting in settings)
    assert checked > 10_000
    assert infeasible > 100
    assert needless > 100


@pytest.mark.parametrize("name", MECHANISMS)
def test_distortion_rises_with_the_dose_and_starts_at_zero(name: str) -> None:
    each, profile = mechanism(name), Profile(1000, delta=0.5, sigma=0.1)
    doses = [-math.inf, *np.linspace(-40, 5, 200)]
    curve = [each.distortion(dose, profile) for dose in doses]
    assert curve[0] == 0
    assert all(a <= b for a, b in itertools.pairwise(curve))
    assert curve[-1] == pytest.approx(each.largest_distortion("corrected"))


@pytest.mark.parametrize("name", ["paillier", "secret-sharing", "compression"])
def test_box_laws_are_the_volume_of_the_overlap(name: str) -> None:
    """TV by integrating the densities for m = 1 and m = 2 with the plain definitions."""
    delta, m = 0.5, 2
    profile = Profile(m, delta=delta)
    each = mechanism(name)
    strength = each.inverse(0.4, profile)
    if name == "compression":
        overlap = each.value(strength).value ** m
    else:
        value = each.value(strength).value
        width = value**2 if name == "paillier" else 2 * value
        overlap = (2 * delta / width) ** m
    assert each.distortion(strength.log_dose, profile) == pytest.approx(1 - overlap, rel=1e-12)


# Several clients


def some_clients(rng: np.random.Generator, spread: float) -> list[Profile]:
    m = int(10 ** rng.uniform(0, 9))
    return [
        Profile(
            m, delta=float(10 ** rng.normal(0, spread)), sigma=float(10 ** rng.normal(0, spread))
        )
        for _ in range(int(rng.integers(2, 6)))
    ]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("spread", [1e-10, 1e-4, 0.3])
def test_the_root_over_clients_meets_the_mean(name: str, spread: float) -> None:
    rng = np.random.default_rng(16)
    each = mechanism(name)
    for _ in range(40):
        profiles = some_clients(rng, spread)
        for form in ("corrected", "tight"):
            limit = each.largest_distortion(form)
            tv = float(rng.uniform(0.001, 0.999)) * limit
            strength = strength_for(each, tv, profiles, form)
            assert mean_distortion(each, strength, profiles, form) == pytest.approx(tv, rel=1e-9)


def test_equal_clients_give_the_closed_form() -> None:
    profile = Profile(100, delta=0.5, sigma=1.0)
    for value in MECHANISMS.values():
        assert strength_for(value, 0.005, [profile] * 7) == value.inverse(0.005, profile)


def test_clients_of_different_models_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one model"):
        strength_for(mechanism("compression"), 0.1, [Profile(3), Profile(4)])


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_strength_of_a_value_is_the_one_that_has_it(name: str) -> None:
    each, profile = mechanism(name), Profile(1000, delta=0.5, sigma=0.1)
    for tv in (1e-6, 0.003, 0.009):
        found = each.inverse(tv, profile)
        again = each.strength(each.value(found).log_value, profile)
        assert again.anchor == found.anchor
        assert again.log_dose == pytest.approx(found.log_dose, abs=1e-6)
    if name != "randomization":  # a value weaker than neutral does nothing
        weaker = each.anchor(profile) + (0.1 if name == "compression" else -0.1)
        assert each.strength(weaker, profile).dose == 0


def test_unknown_mechanism_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"compression, paillier, randomization, secret-sharing"):
        mechanism("homomorphic")


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("tv", [0.0, 1.0, -0.1, math.nan])
def test_no_optimum_outside_the_unit_interval(name: str, tv: float) -> None:
    with pytest.raises(InvalidInput, match="distortion"):
        mechanism(name).inverse(tv, Profile(3, delta=1.0, sigma=1.0))


@pytest.mark.parametrize("name", MECHANISMS)
def test_bounds_stay_within_c4_and_c5(name: str) -> None:
    each, profile = mechanism(name), Profile(1000, delta=0.5, sigma=0.1)
    for log_dose in np.linspace(-30, 10, 50):
        strength = Strength(float(log_dose), each.anchor(profile))
        assert 0 <= each.utility_bound(strength, profile, 2.0, "corrected", 3) <= 2.0
        assert 0 <= each.efficiency_bound(strength, profile, 3.0, "corrected", 1) <= 3.0
