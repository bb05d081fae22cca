"""The paper's promises: constants from counts, and what attacks pick at each optimum."""

from __future__ import annotations

import math

import pytest
from tests.commands.own_scenario import small
from tests.tuning.simulating import Simulated, runner

from trilemma.estimation.playing.suite import Suite
from trilemma.observations import Adversary
from trilemma.tuning.families.counts import Counts
from trilemma.tuning.families.gauge import Gauge
from trilemma.tuning.families.pricing import Pricing
from trilemma.tuning.problem import Problem
from trilemma.tuning.surrogate.promises import possible_games, promises, surrogate_constants
from trilemma.updates import Profile

PRICING = Pricing(Problem(0.3), Profile(parameters=83, delta=1.0, sigma=1e-4), 8, (0,), 1e6, 0.95)


def counts(hits: int, units: int = 24) -> Counts:
    return Counts(units, {"a": hits}, {}, 0)


def test_constants_by_hand() -> None:
    found = surrogate_constants(counts(12), 0.05, 0.95)
    xi = max(math.log(0.5 / 0.05), abs(math.log(0.5 / 0.95)))
    assert found.c2 == pytest.approx((math.exp(2 * xi) - 1) / (2 * math.sqrt(math.log(2))))
    assert not found.smoothed
    assert found.c1.low <= found.c1.value <= found.c1.high


@pytest.mark.parametrize("hits", [0, 24])
def test_all_or_none_is_smoothed_and_says_so(hits: int) -> None:
    found = surrogate_constants(counts(hits), 0.05, 0.95)
    assert found.smoothed
    assert f"{hits} of 24 games" in found.reason
    assert math.isfinite(found.c2)


def test_every_mechanism_is_solved_and_attacked_where_it_can_run() -> None:
    run = runner(Simulated(small, None, 1, 2, 0))
    gauge = Gauge(Suite("candidates", ("analytic",)), Adversary.SERVER, 8, 0.3, 0.05)
    found = run(promises(gauge, surrogate_constants(counts(24), 0.05, 0.95), PRICING, 0.05))
    assert sum(each.units for each in found) <= possible_games()
    forms = {(each.mechanism, each.form) for each in found}
    assert {("randomization", "printed"), ("randomization", "tight")} <= forms
    for each in found:
        assert each.promised == 0.3
        assert (each.measured is None) == (each.units == 0)
        assert each.measured is not None or each.note
    noise = next(each for each in found if each.mechanism == "randomization")
    assert noise.successes == 12, "so little noise stops nobody"
    assert next(each for each in found if each.mechanism == "paillier").protection is None


def test_an_attack_that_learns_nothing_has_no_promise() -> None:
    run = runner(Simulated(small, None, 1, 2, 0))
    gauge = Gauge(Suite("candidates", ("analytic",)), Adversary.SERVER, 8, 0.3, 0.05)
    blind = surrogate_constants(counts(0), 0.05, 0.95)
    assert run(promises(gauge, blind, PRICING, 0.05)) == ()
