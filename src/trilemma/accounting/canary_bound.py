"""A lower bound on μ from one run with canaries, beside the μ that was proved.

Each of m canaries is used by a fair coin b_i of its own, for the whole training: then a vector
g_it with ‖g_it‖ = C joins the sum of round t. In a round the g_it are orthogonal to each other.
What is released is o_t = B_t + Σ_i b_i g_it + N(0, σ_t² I), with B_t and g_it free to depend on
earlier releases, so that one canary is hidden by μ = √(Σ_t C² / σ_t²), which for R rounds at
σ = z C is √R/z.

Somebody guesses every b_i from all releases; W guesses are right. Because the g_it are orthogonal,
the likelihood is a product over canaries: given o the b_i are independent, with log odds
L_i = Σ_t (⟨o_t - B_t, g_it⟩ - C²/2) / σ_t², and a guess of b_i is right with probability
ρ_i = 1 / (1 + exp -|L_i|) at most. The L_i are independent too, ±μ²/2 + μ N(0, 1), so that
E ρ_i = Φ(μ/2). Whatever the guesses are,

    W is stochastically at most Bin(m, Φ(μ/2)),

and with p the Clopper-Pearson lower limit of W of m, μ_lo = 2 Φ⁻¹(p) exceeds μ in at most 5 % of
all runs: for every m, without an asymptotic step. Less noise or a longer canary means a larger μ.

Counting guesses of one run is Steinke, Nasr and Jagielski's (2023), random directions Andrew et
al.'s (2023). A bound above the proof refutes what was proved: a sum of clipped parts and Gaussian
noise of that size. It is not a statement on every mechanism that is μ-Gaussian private: there the
count may spread more than a binomial (Mahloujifar, Melis and Chaudhuri 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import beta, chi2, norm

from trilemma.errors import InvalidInput
from trilemma.quantities import between, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]

__all__ = ["LEAST", "CanaryCount", "count_canaries", "mu_lower"]

LEAST: Final = 50  # canaries; of fewer even certain guesses show hardly anything
CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class CanaryCount:
    """What the canaries of one run show.

    Of `canaries` guesses `right` were right; `mu` is the lower bound on μ at 95 % confidence.
    `influence` is a used canary's mean part of the sums, over its clip, `noise` the standard
    deviation of a round's noise along a canary, over the clip: z where all is as proved. Both with
    intervals of 99 %, which name what to look at and decide nothing.
    """

    canaries: int
    right: int
    mu: float
    influence: tuple[float, float, float]
    noise: tuple[float, float, float]


def mu_lower(right: int, canaries: int, confidence: float = CONFIDENCE) -> float:
    """2 Φ⁻¹ of the Clopper-Pearson lower limit of `right` of `canaries`, 0 at least.

    >>> round(mu_lower(344, 500), 3)
    0.782
    """
    counted("canaries", canaries)
    between("confidence", confidence)
    if not 0 <= right <= canaries:
        raise InvalidInput(f"right must lie in 0 .. {canaries}, the canaries, got {right}.")
    if right == 0:
        return 0.0
    rate = float(beta.ppf(1 - confidence, right, canaries - right + 1))
    return max(0.0, 2 * float(norm.ppf(rate)))


def count_canaries(scores: Array, used: Flags, rounds: int) -> CanaryCount:
    """Guesses "used" of the larger half of the scores [m], and counts.

    A score is the mean over rounds of a release's part along a canary, in clips, so that about 1
    stands for a used canary and 0 for another. Where the two lie need not be known.
    """
    inside, outside = scores[used], scores[~used]
    if min(len(inside), len(outside)) < 2:
        raise InvalidInput(
            f"of {len(scores)} canaries {len(inside)} are used, which compares nothing; take more."
        )
    right = int(((scores > np.median(scores)) == used).sum())
    freedom = len(scores) - 2
    squares = float(
        ((inside - inside.mean()) ** 2).sum() + ((outside - outside.mean()) ** 2).sum()
    )
    deviation = math.sqrt(squares / freedom)
    difference = float(inside.mean() - outside.mean())
    reach = 2.576 * deviation * math.sqrt(1 / len(inside) + 1 / len(outside))
    root = math.sqrt(rounds)
    low, high = (math.sqrt(squares / chi2.ppf(share, freedom)) for share in (0.995, 0.005))
    return CanaryCount(
        len(scores),
        right,
        mu_lower(right, len(scores)),
        (difference - reach, difference, difference + reach),
        (root * low, root * deviation, root * high),
    )
