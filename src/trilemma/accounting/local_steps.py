"""Weight changes of several local steps (FedAvg): the whole update is clipped to C, noise s.

Two proofs hold, and the smaller noise is enough.

- The client's level: the update moves the sum by at most C in each round, μ = √R C/s. This hides
  all records of the client, so also one.
- The record's level, with Poisson steps: a round holds the record unless all of its E steps leave
  it out, q' = 1 - (1 - q)^E, and then moves the clipped update by at most 2C.

`noise_ratio` is s/C, s the standard deviation of the honest survivors' noise in the sum.
"""

from __future__ import annotations

import math
from functools import partial

from trilemma.accounting.noise_calibration import noise_multiplier_for
from trilemma.accounting.sampled_training import Participation, Training
from trilemma.errors import InvalidInput

__all__ = ["client_level", "noise_ratio_for", "record_level"]


def client_level(noise_ratio: float, rounds: int) -> Training:
    """The training in which the whole client is to be hidden.

    >>> client_level(8.0, 150)
    Training(rounds=150, q=1.0, noise_multiplier=8.0, participation='known', records_of_person=1)
    """
    return Training(rounds, 1.0, noise_ratio, "known")


def record_level(
    noise_ratio: float,
    rounds: int,
    *,
    q: float,
    steps: int,
    participation: Participation = "known",
    records_of_person: int = 1,
) -> Training:
    """The training in which one record, or a person's k, is to be hidden: q' with 2C.

    Of k records any one in any step is enough: q' = 1 - (1 - q)^(kE).
    """
    rate = _round_rate(q, steps, records_of_person)
    return Training(rounds, rate, noise_ratio / 2, participation)


def noise_ratio_for(
    budget: float,
    rounds: int,
    *,
    q: float,
    steps: int,
    participation: Participation = "known",
    candidates: float | None = None,
    records_of_person: int = 1,
    remainder: float = 0.0,
) -> float:
    """The smaller s/C of both levels whose leakage is at most `budget`.

    >>> round(noise_ratio_for(0.3, 150, q=4 / 150, steps=1, candidates=100), 2)
    2.65
    >>> secret = noise_ratio_for(0.3, 150, q=4 / 150, steps=1, participation="secret")
    >>> secret < noise_ratio_for(0.3, 150, q=4 / 150, steps=1)
    True
    """
    least = partial(
        noise_multiplier_for, budget, rounds=rounds, candidates=candidates, remainder=remainder
    )
    rate = _round_rate(q, steps, records_of_person)
    client, record = (
        least(q=1.0, participation="known"),
        least(q=rate, participation=participation),
    )
    return min(client, 2 * record)


def _round_rate(q: float, steps: int, records: int) -> float:
    if not 0 < q <= 1 or steps < 1 or records < 1:
        raise InvalidInput(
            f"q must lie in (0, 1], steps and records_of_person be at least 1, got {q}, {steps} "
            f"and {records}."
        )
    return 1.0 if q == 1 else -math.expm1(steps * records * math.log1p(-q))
