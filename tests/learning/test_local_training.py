from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, draw_rows


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algorithm": "fedprox"}, "algorithm must be 'fedsgd' or 'fedavg', got 'fedprox'"),
        ({"sampling": "epochs"}, "'fixed' or 'poisson' or 'full', got 'epochs'"),
        ({"lr": math.nan}, "lr must be positive and finite, .* got nan"),
        ({"lr": "0.1"}, "lr must be a number, got '0.1'"),
        ({"lr": 10**400}, "lr must be positive and finite"),
        ({"algorithm": "fedavg", "steps": 0}, "steps must be at least 1, got 0"),
        ({"batch": 2.5}, "batch must be a whole number, got 2.5"),
        ({"batch": True}, "batch must be a whole number, got True"),
        ({"batch": None}, "batch must be a whole number, got None"),
        ({"lr": None}, "lr must be a number, got None"),
        ({"steps": 2}, "use algorithm='fedavg'"),
        ({"algorithm": "fedavg", "batch": 4, "records": 3}, "at least one batch"),
        ({"record_clip": 0.0}, "record_clip must be positive and finite, .* got 0.0"),
        ({"record_clip": math.inf}, "record_clip .* got inf"),
        (
            {"algorithm": "fedavg", "records": 8, "sampling": "poisson"},
            "records must be None, got 8; leave it out, or use sampling='fixed'",
        ),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as raised:
        LocalTraining(**settings)
    assert str(raised.value).endswith(".")


def test_numbers_of_numpy_become_pythons() -> None:
    """Their repr differs between versions of NumPy, and settings enter digests by it."""
    rate: Any = np.float32(0.5)
    counts: list[Any] = [np.int64(2), np.int32(3), np.int64(6)]
    ours = LocalTraining("fedavg", rate, counts[0], counts[1], counts[2], np.float64(1.0))
    assert repr(ours) == repr(LocalTraining("fedavg", 0.5, 2, 3, 6, 1.0))


def test_full_sampling_counts_record_by_record_and_tells_who_took_part() -> None:
    full = LocalTraining(batch=4, sampling="full")
    assert (full.by_record, full.participation, full.unit_size) == (True, "known", 4)
    rows, present = draw_rows(full, 3, np.random.default_rng(0))
    assert rows.tolist() == [0, 1, 2], "fewer than the constant that divides, or more"
    assert present is not None
    assert present.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(InvalidInput, match="sampling='full' draws from all of a client's records"):
        LocalTraining("fedavg", batch=4, records=8, sampling="full")


def test_participation_is_secret_under_poisson_sampling_only() -> None:
    assert LocalTraining(batch=4).participation == "known"
    assert LocalTraining(batch=4, record_clip=1.0).participation == "known"
    assert LocalTraining(batch=4, sampling="poisson").participation == "secret"
    assert LocalTraining(batch=4, sampling="poisson").unit_size == 4
