from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"algorithm": "fedprox"}, "algorithm must be 'fedsgd' or 'fedavg', got 'fedprox'"),
        ({"sampling": "epochs"}, "sampling must be 'fixed' or 'poisson', got 'epochs'"),
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


def test_participation_is_secret_under_poisson_sampling_only() -> None:
    assert LocalTraining(batch=4).participation == "known"
    assert LocalTraining(batch=4, record_clip=1.0).participation == "known"
    assert LocalTraining(batch=4, sampling="poisson").participation == "secret"
    assert LocalTraining(batch=4, sampling="poisson").unit_size == 4
