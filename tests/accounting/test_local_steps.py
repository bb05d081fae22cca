"""FedAvg: the client's level, the record's level, and the smaller of both."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from trilemma.accounting.local_steps import (
    client_level,
    noise_ratio_for,
    record_level,
)
from trilemma.accounting.noise_calibration import noise_multiplier_for, success_bound
from trilemma.errors import InvalidInput

Q = 4 / 150


@pytest.mark.parametrize(("steps", "expected"), [(1, 1.03), (5, 2.36)])
def test_the_figures_of_the_records_level(steps: int, expected: float) -> None:
    found = noise_ratio_for(0.3, 150, q=Q, steps=steps, participation="secret", candidates=100)
    assert found == pytest.approx(expected, abs=6e-3)


def test_the_figure_of_the_clients_level_which_full_batches_fall_back_on() -> None:
    client = noise_multiplier_for(0.3, rounds=150, q=1.0, participation="known", candidates=100)
    assert client == pytest.approx(8.0, abs=0.05)
    # A full batch holds the record in each round, where 2C would need twice the noise.
    assert noise_ratio_for(0.3, 150, q=1.0, steps=3, candidates=100) == client


def test_each_level_in_closed_form() -> None:
    expected = norm.cdf(norm.ppf(0.01) + math.sqrt(150) / 8)
    assert success_bound(client_level(8.0, 150), 100) == pytest.approx(expected, rel=1e-9)
    record = record_level(3.0, 150, q=0.1, steps=4, records_of_person=2)
    assert (record.q, record.noise_multiplier) == pytest.approx((1 - 0.9**8, 1.5))
    assert record.records_of_person == 1


def test_steps_are_checked() -> None:
    with pytest.raises(InvalidInput, match="steps"):
        record_level(1.0, 10, q=0.1, steps=0)
