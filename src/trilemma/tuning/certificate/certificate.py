"""What is proved against anyone: noise, clip and sampling, and the bounds that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilemma.bounds.training import Participation

__all__ = ["Certificate"]


@dataclass(frozen=True)
class Certificate:
    """A proof for every attacker, whatever it knows, over a whole training.

    `noise_multiplier` z is the noise over the influence of one record, at the fewest honest
    survivors; `variance` is what each client adds to its update, whose records are clipped to
    `record_clip` each. `success` bounds how often anyone picks the right one of N, by N;
    `leakage` is the largest over all N, reached at `worst_line_up`. `epsilon` at `delta`, and the
    true-positive rate of membership inference at 1 % false positives, say the same in the words
    of differential privacy. `person` records may belong to one person.
    """

    level: Literal["record", "client"]
    noise_multiplier: float
    variance: float
    record_clip: float
    server_lr: float
    rounds: int
    sampling_rate: float
    participation: Participation
    survivors: int
    helpers: int
    person: int
    success: dict[int, float]
    leakage: float
    worst_line_up: int
    epsilon: float
    delta: float
    true_positive_rate: float
