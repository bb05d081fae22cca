"""Algorithms 3 and 4 by hand: beliefs, C₁, ξ and C₂ from counts of recovered records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from tests.game.attackers import Division, small_scenario

from trilemma.beliefs.blind_guess import BlindGuess
from trilemma.game.recovering.criterion import choose_criterion
from trilemma.game.recovering.recoveries import Outcomes, measure
from trilemma.game.recovering.units import Measurement, draw_unit
from trilemma.paper_framework.algorithm import estimated
from trilemma.paper_framework.constants_from_counts import constants_of
from trilemma.paper_framework.surrogate_bounds import chernoff_failure

BLIND = BlindGuess(20.0, "mean", 4, 499, 0.004, 0.05, 0.95)
KAPPA = 4.5 / 500


def outcomes(counts: list[list[list[int]]], attempts: int, labels: list[int]) -> Outcomes:
    """`counts` [client][model][record]: the first so many of the attempts recovered it."""
    table = np.array(counts)
    clients, models, size = table.shape
    hits = np.stack([table[k, m] for m in range(models) for k in range(clients)])
    recovered = np.arange(attempts)[None, :, None] < hits[:, None, :]
    units = clients * models
    return Outcomes(
        client=np.arange(units) % clients,
        model=np.arange(units) // clients,
        labels=np.tile(labels, (units, 1)),
        recovered=recovered,
        similarity=np.where(recovered, 30.0, 10.0),
        failed=np.zeros((units, attempts), dtype=bool),
        pictures=np.zeros((0, size, 1), dtype=np.float32),
    )


def root_js(p: list[float], q: list[float]) -> float:
    return float(jensenshannon(p, q, base=2))


def test_algorithm_3_by_hand() -> None:
    """T = 4, S = 2: f̂(d) = M_d/8 at each of two models, f̂^O their mean, ξ at single models."""
    found = constants_of(outcomes([[[4, 2], [3, 1]], [[1, 1], [2, 2]]], 4, [0, 1]), BLIND)
    prior = [KAPPA / 2, KAPPA / 2, 1 - KAPPA]
    first, second = [7 / 16, 3 / 16, 6 / 16], [3 / 16, 3 / 16, 10 / 16]
    beliefs = found.by_datum
    assert beliefs.prior == pytest.approx(prior)
    assert beliefs.observed[0] == pytest.approx(first)
    assert beliefs.observed[1] == pytest.approx(second)
    assert beliefs.c1_clients == pytest.approx([root_js(first, prior), root_js(second, prior)])
    assert beliefs.c1 == pytest.approx((root_js(first, prior) + root_js(second, prior)) / 2)
    assert beliefs.xi == pytest.approx(math.log(0.5 / (KAPPA / 2)))  # M_d = 4 at one model
    assert beliefs.c2 == pytest.approx((0.5 / (KAPPA / 2)) ** 2 / (2 * math.sqrt(math.log(2))),
                                       rel=1e-3)  # fmt: skip
    assert beliefs.constants.c2 == beliefs.c2
    assert (found.models, found.attempts, found.records, found.clients) == (2, 4, 2, 2)
    assert found.recovered == 0.5


def test_algorithm_4_by_hand() -> None:
    """The same records by class, both of class 1 of three: f̂(1) = (M_a + M_b)/8."""
    found = constants_of(
        outcomes([[[4, 2]]], 4, [1, 1]), BLIND, classes=3, class_shares=[1.0, 2.0, 1.0]
    )
    assert found.by_class is not None
    prior = [KAPPA / 4, KAPPA / 2, KAPPA / 4, 1 - KAPPA]
    assert found.by_class.prior == pytest.approx(prior)
    assert found.by_class.observed[0] == pytest.approx([0, 6 / 8, 0, 2 / 8])
    assert found.by_class.c1 == pytest.approx(root_js([0, 6 / 8, 0, 2 / 8], prior))
    assert found.by_class.xi is None, "classes 0 and 2 were never seen"
    smoothed = (6 + 0.5) / (8 + 4 / 2)
    ratios = [0.05 / (KAPPA / 4), smoothed / (KAPPA / 2), 0.25 / (1 - KAPPA)]
    assert found.by_class.xi_smoothed == pytest.approx(max(abs(math.log(r)) for r in ratios))
    assert constants_of(outcomes([[[4, 2]]], 4, [1, 1]), BLIND).by_class is None


@pytest.mark.parametrize(
    ("hits", "unseen"), [([4, 4], "d0"), ([4, 0], "a record"), ([0, 0], "a record")]
)
def test_xi_is_infinite_where_an_outcome_was_never_seen(hits: list[int], unseen: str) -> None:
    found = constants_of(outcomes([[hits]], 4, [0, 1]), BLIND)
    assert found.by_datum.xi is None
    assert found.by_datum.c2 is None
    assert found.by_datum.reason.startswith(unseen)
    assert found.by_datum.constants.c2 == found.by_datum.c2_smoothed
    assert found.relative_error is None
    assert found.attempts_needed is None


def test_a_criterion_without_a_blind_guess_has_half_a_success_as_its_prior() -> None:
    found = constants_of(outcomes([[[3, 2]]], 4, [0, 1]), None)
    assert found.kappa == pytest.approx(0.5 / 9)


def test_the_error_is_what_the_chernoff_lemma_promises_for_all_clients() -> None:
    counts = [[[600, 500]] * 2, [[700, 400]] * 2]
    found = constants_of(outcomes(counts, 1000, [0, 1]), BLIND)
    rates = [0.6, 0.5, 0.45, 0.7, 0.4, 0.45]  # of each record, and the share not recovered
    assert found.relative_error is not None
    assert chernoff_failure(found.relative_error, 2000, rates) == pytest.approx(0.05)
    assert found.attempts_needed is not None
    assert chernoff_failure(0.1, found.attempts_needed, rates) <= 0.05
    assert chernoff_failure(0.1, found.attempts_needed - 1, rates) > 0.05


def test_an_attack_that_always_succeeds_end_to_end() -> None:
    scenario = small_scenario()
    guess = choose_criterion(scenario)
    asked = Measurement(Division(), units=3, models=3, attempts=2, restarts=1, batches="fixed")
    _, control = measure(scenario, asked, guess.criterion)
    found = estimated(scenario, guess, control)
    kappa = found.kappa
    assert found.recovered == 1.0
    assert found.by_datum.c1 == pytest.approx(root_js([1.0, 0.0], [kappa, 1 - kappa]))
    batches = {
        tuple(draw_unit(scenario, asked, number).records.inputs.flatten().tolist())
        for number in range(0, 3 * len(scenario.records), len(scenario.records))
    }
    assert len(batches) == 1, "one batch a client, at every model"
