from __future__ import annotations

import math
import re

import numpy as np
import pytest

from trilemma.paper_framework.mechanisms import MECHANISMS, mechanism
from trilemma.paper_framework.mechanisms.base import Form
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.solving import solve
from trilemma.paper_framework.surrogate_bounds import Constants, Regime
from trilemma.tuning.problem import Problem

PROFILE = Profile(2410, delta=0.5, sigma=0.05)


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_metric_meets_the_budget_at_the_optimum(name: str) -> None:
    solution = solve(mechanism(name), Constants(0.9, 200.0), Problem(0.3), [PROFILE])
    assert solution.feasible
    assert solution.surrogate_leakage == pytest.approx(0.3, abs=1e-12)
    assert solution.regime is Regime.ABOVE_C1
    assert not solution.proved
    assert solution.guarantee.startswith("No guarantee")


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("form", ["corrected", "printed", "tight"])
def test_no_protection_needed_is_the_neutral_value(name: str, form: Form) -> None:
    solution = solve(mechanism(name), Constants(0.2, 5.0), Problem(0.4), [PROFILE], form=form)
    neutral = {"randomization": 0.0, "paillier": 1.0, "secret-sharing": 0.5, "compression": 1.0}
    assert solution.regime is Regime.NO_PROTECTION_NEEDED
    assert solution.value is not None
    assert solution.value.value == neutral[name]
    assert solution.distortion == 0
    assert solution.proved, "unprotected updates leak C1, within the budget"


def test_infeasible_problems_name_a_budget_that_is_feasible_and_nearly_the_least() -> None:
    rng = np.random.default_rng(17)
    named = 0
    for _ in range(500):
        constants = Constants(float(1 - rng.random()), float(10 ** rng.uniform(-3, 2)))
        budget = float(rng.uniform(0.001, 0.999))
        for item in MECHANISMS.values():
            for form in ("corrected", "tight"):
                solution = solve(item, constants, Problem(budget), [PROFILE], form=form)
                if solution.regime is not Regime.INFEASIBLE:
                    assert solution.reason == ""
                    continue
                assert not solution.feasible
                assert solution.value is None
                if found := re.search(r"nearest feasible budget is (\S+)\.$", solution.reason):
                    nearest = float(found[1])
                    again = solve(item, constants, Problem(nearest), [PROFILE], form=form)
                    assert again.feasible
                    limit = item.largest_distortion(item.form(form))
                    edge = 2 * constants.c1 - limit * constants.c2
                    assert edge <= nearest <= edge + 2e-4
                    named += 1
                else:
                    assert solution.reason.endswith(
                        "no budget below 1 is feasible with this C1 and C2."
                    )
    assert named > 300


def test_the_printed_randomization_form_ends_at_a_hundredth() -> None:
    constants = Constants(0.5, 50.0)
    at_the_edge = solve(mechanism("randomization"), constants, Problem(0.5), [PROFILE])
    beyond = solve(mechanism("randomization"), constants, Problem(0.4999), [PROFILE])
    tight = solve(mechanism("randomization"), constants, Problem(0.4999), [PROFILE], form="tight")
    assert at_the_edge.feasible
    assert beyond.regime is Regime.INFEASIBLE
    assert tight.feasible
    assert tight.form == "tight"


def test_a_form_that_a_law_lacks_is_answered_by_the_corrected_one() -> None:
    for name in ("paillier", "secret-sharing", "compression"):
        tight = solve(
            mechanism(name), Constants(0.9, 200.0), Problem(0.3), [PROFILE], form="tight"
        )
        plain = solve(mechanism(name), Constants(0.9, 200.0), Problem(0.3), [PROFILE])
        assert tight == plain


def test_proved_needs_the_true_distortion() -> None:
    """C1 + C2·TV ≤ budget, with the exact TV of the noise, not the paper's lower bound (E20)."""
    constants = Constants(0.5, 25.0)
    noise = solve(mechanism("randomization"), constants, Problem(0.75), [PROFILE])
    keep = solve(mechanism("compression"), constants, Problem(0.76), [PROFILE])
    assert noise.feasible
    assert not noise.proved
    assert keep.proved_in_the_model, "above 1.5*C1 = 0.75, and the model's TV is exact"
    assert not keep.proved, "with the paper's own 1/ρ the TV is 1 - ρ^{2m}"


def test_a_cap_on_utility_makes_a_solution_infeasible() -> None:
    free = solve(mechanism("compression"), Constants(0.9, 200.0), Problem(0.3), [PROFILE])
    assert free.utility_bound is not None
    capped = Problem.constrained(0.3, free.utility_bound * 0.99)
    allowed = Problem.constrained(0.3, free.utility_bound * 1.01)
    assert (
        "utility bound"
        in solve(mechanism("compression"), Constants(0.9, 200.0), capped, [PROFILE]).reason
    )
    kept = solve(mechanism("compression"), Constants(0.9, 200.0), allowed, [PROFILE])
    assert kept.feasible
    assert kept.objective == kept.efficiency_bound
    costly = Problem(0.3, max_cost=1e-9)
    assert (
        "efficiency bound"
        in solve(mechanism("paillier"), Constants(0.9, 200.0), costly, [PROFILE]).reason
    )


def test_the_worst_case_of_the_other_regime_is_told() -> None:
    sentence = solve(
        mechanism("paillier"), Constants(0.3, 200.0), Problem(0.25), [PROFILE]
    ).guarantee
    assert f"{5 * 0.3 - 3 * 0.25:.4g}" in sentence
    for budget, opening in [
        (0.31, "Unproved"),
        (0.5, "Unproved: the true distortion may be 1"),
        (0.7, "Nothing"),
    ]:
        solution = solve(mechanism("paillier"), Constants(0.3, 200.0), Problem(budget), [PROFILE])
        assert solution.guarantee.startswith(opening)


def test_several_clients_share_one_parameter() -> None:
    profiles = [Profile(2410, delta=d, sigma=s) for d, s in [(0.1, 0.01), (0.5, 0.05), (2.0, 0.3)]]
    for value in MECHANISMS.values():
        solution = solve(value, Constants(0.9, 200.0), Problem(0.3), profiles)
        assert solution.surrogate_leakage == pytest.approx(0.3, abs=1e-9)


def test_unlike_clients_that_need_nothing_are_not_distorted() -> None:
    profiles = [Profile(2410, delta=d, sigma=1.0) for d in (0.1, 0.5, 2.0)]
    for value in MECHANISMS.values():
        solution = solve(value, Constants(0.2, 5.0), Problem(0.4), profiles)
        assert solution.distortion == 0
        assert solution.proved


def test_printed_efficiency_of_sharing_grows_with_clients() -> None:
    def bound(clients: int) -> float:
        solution = solve(
            mechanism("secret-sharing"),
            Constants(0.9, 200.0),
            Problem(0.3),
            [Profile(10, delta=2.0)] * clients,
            form="printed",
        )
        assert solution.value is not None
        assert solution.efficiency_bound is not None
        assert solution.efficiency_bound == pytest.approx(
            clients * 10 * math.log(solution.value.value)
        )
        return solution.efficiency_bound

    assert bound(4) == pytest.approx(4 * bound(1))


def test_each_client_has_its_own_weight() -> None:
    """η_{u,k} and η_{e,k} of unlike clients: (1/K) Σ_k of what each loses and pays."""
    profiles = [Profile(2410, delta=0.5, sigma=s) for s in (0.01, 0.05)]
    problem = Problem(0.3, utility_weight=(1.0, 3.0), efficiency_weight=(0.5, 0.0))
    solution = solve(mechanism("randomization"), Constants(0.9, 200.0), problem, profiles)
    assert solution.value is not None
    lemma = [
        min(1.0, 1.5 * min(1.0, solution.value.value * math.sqrt(2410) / s**2))
        for s in (0.01, 0.05)
    ]
    expected = (1.5 * lemma[0] + 3.0 * lemma[1]) / 2
    assert solution.objective == pytest.approx(expected, rel=1e-9)


def test_the_printed_utility_bound_of_noise_ends_at_three_halves() -> None:
    constants = Constants(0.5, 50.0)  # at ε = C₁ the metric needs s²A = 1
    printed, corrected = (
        solve(mechanism("randomization"), constants, Problem(0.5), [PROFILE], form=form, c4=2.0)
        for form in ("printed", "corrected")
    )
    assert printed.utility_bound == pytest.approx(3.0)  # Lemma F.1 to the letter: 1.5 C₄
    assert corrected.utility_bound == pytest.approx(2.0)


def test_the_utility_bound_of_compression_counts_all_clients_draws() -> None:
    profiles = [Profile(10)] * 3
    constants = Constants(0.5, 1.0)
    printed, corrected = (
        solve(mechanism("compression"), constants, Problem(0.8), profiles, form=form)
        for form in ("printed", "corrected")
    )
    assert printed.utility_bound == pytest.approx(0.2)  # 1 - ρ^m = q
    assert corrected.utility_bound == pytest.approx(1 - 0.8**3)  # 1 - ρ^{Km} (E21)
