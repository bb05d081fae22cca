"""Rates and leakage of what was recovered."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.game.attackers import Division, small_scenario

from trilemma.beliefs.recovery import Criterion
from trilemma.game.estimates import mean_leakage
from trilemma.game.recovering.recoveries import Outcomes, measure
from trilemma.game.recovering.recovery_rates import Rates
from trilemma.game.recovering.units import Measurement
from trilemma.protection.specs import parse_protection


def outcomes(hits: list[int], trials: int, size: int = 1) -> Outcomes:
    clients = len(hits)
    client = np.arange(clients * trials) % clients
    turn = np.arange(clients * trials) // clients
    recovered = np.repeat((turn < np.array(hits)[client])[:, None, None], size, axis=2)
    return Outcomes(
        client=client,
        model=np.arange(len(client)),
        labels=np.zeros((len(client), size), dtype=np.int64),
        recovered=recovered,
        similarity=np.where(recovered, 30.0, 10.0),
        failed=np.zeros((len(client), 1), dtype=bool),
        pictures=np.zeros((0, size, 1), dtype=np.float32),
    )


def test_counts_become_rates_and_leakage() -> None:
    found = Rates.of(outcomes([15, 5], 20), kappa=0.01)
    assert (found.recovered, found.units, found.success.value) == (20, 40, 0.5)
    assert found.leakage == mean_leakage([15, 5], 20, kappa=0.01)
    assert found.attack_works
    assert not Rates.of(outcomes([3, 2], 20)).attack_works


def test_success_of_one_record_of_a_batch_and_of_all() -> None:
    batch = outcomes([0], 10, size=2)
    batch.recovered[:5, 0, 1] = True
    found = Rates.of(batch)
    assert (found.success.value, found.success_all) == (0.0, 0.25)


@pytest.mark.slow
def test_c1_lies_in_its_interval_across_seeds() -> None:
    """Noisy updates, so that about half of the records are recovered; truth from 1,000 units."""
    scenario = small_scenario(clients=1, size=60)
    noise = parse_protection("randomization:variance=4e-3")

    def hits(seed: int, units: int) -> int:
        asked = Measurement(Division(), noise, units=units, seed=seed, steps=0, chunk=500)
        protected, _ = measure(scenario, asked, Criterion())
        assert protected is not None
        return int(protected.target().sum())

    truth = mean_leakage([hits(10_000, 1000)], 1000).value
    assert 0.3 < truth < 0.95
    repeats = 30
    covered = sum(truth in mean_leakage([hits(seed, 40)], 40) for seed in range(repeats))
    assert covered / repeats >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / repeats)
