"""A training as a certificate sees it checks itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy.stats import binom

from trilemma.accounting.sampled_training import Training
from trilemma.errors import InvalidInput


@pytest.mark.parametrize(("rounds", "q", "person"), [(150, 4 / 6000, 1), (3, 0.4, 2), (7, 1.0, 1)])
def test_how_likely_a_record_is_used(rounds: int, q: float, person: int) -> None:
    expected = 1 - binom.pmf(0, rounds * person, q)
    used = Training(rounds, q, 1.0, records_of_person=person).used
    assert used == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((0, 0.1, 1.0), "rounds must be at least 1, got 0"),
        ((1, 0.0, 1.0), r"lie in \(0, 1\], got 0.0"),
        ((1, 1.1, 1.0), "got 1.1"),
        ((1, math.nan, 1.0), "got nan"),
        ((1, 0.1, 0.0), "noise_multiplier must be positive and finite, got 0.0"),
        ((1, 0.1, math.inf), "got inf"),
        ((1, 0.1, 1.0, "unknown"), "got 'unknown'"),
        ((1, 0.1, 1.0, "known", 0), "records_of_person must be at least 1, got 0"),
    ],
)
def test_bad_values_are_refused_by_name(values: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Training(*values)
