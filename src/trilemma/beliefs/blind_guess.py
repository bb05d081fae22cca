"""κ, the blind-guess rate: how often one guess passes for a record without seeing any update.

κ = sup over guesses g of P(Ω(g, X) > t₀). A measured leakage takes κ as a lower limit, a
certificate as an upper one, so both are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.beliefs.intervals import clopper_pearson_upper
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.entropy import Seeded
    from trilemma.records.range import InputSpec

__all__ = ["BlindGuess", "blind_guess", "default_threshold"]

_THRESHOLDS: Final = (20.0, 25.0, 30.0)  # dB, the candidates for the default
_ACCEPTED: Final = 0.01
_MAX_POOL: Final = 4000  # the table of distances stays below 130 MB


@dataclass(frozen=True)
class BlindGuess:
    """The best single guess found on one half of a pool, and its success on the other half.

    `low` and `high` are one-sided limits at `confidence` each: `low` for a measured leakage, from
    the other half; `high` for a certificate, from doubled balls around the pool's records.
    """

    threshold: float
    guess: str
    successes: int
    trials: int
    low: float
    high: float
    confidence: float

    @property
    def rate(self) -> float:
        """Share of the other half that the guess passes for."""
        return self.successes / self.trials


def blind_guess(
    pool: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    spec: InputSpec,
    *,
    threshold: float,
    entropy: Seeded,
    confidence: float = 0.95,
) -> BlindGuess:
    """Measure κ at a PSNR threshold (dB) on a pool of records [n, ...].

    Candidates are the mean, the means of the classes, every record of the first half, and the
    mean of the records in the fullest ball around one of those. `high` needs no candidate: a ball
    around any guess lies in the doubled ball around any record inside it, so the largest count of
    pool records in a doubled ball around a pool record is at least that of the best guess, and
    its Clopper-Pearson upper limit covers κ.
    """
    rows = _subsample(len(pool), entropy)
    records = pool[rows].reshape(len(rows), -1).astype(np.float64)
    classes = None if labels is None else labels[rows]
    order = entropy.generator("halves").permutation(len(records))
    first, second = np.array_split(order, 2)
    radius = (spec.high - spec.low) ** 2 * 10 ** (-threshold / 10)  # of the mean squared error
    names, guesses = _candidates(
        records[first], None if classes is None else classes[first], radius
    )
    hits = (_distances(guesses, records[first]) < radius).sum(axis=1)
    best = int(np.argmax(hits))
    successes = int((_distances(guesses[best : best + 1], records[second]) < radius).sum())
    doubled = int((_distances(records, records) < 4 * radius).sum(axis=1).max())
    return BlindGuess(
        threshold=threshold,
        guess=names[best],
        successes=successes,
        trials=len(second),
        low=1 - clopper_pearson_upper(len(second) - successes, len(second), confidence),
        high=clopper_pearson_upper(doubled, len(records), confidence),
        confidence=confidence,
    )


def default_threshold(
    pool: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    spec: InputSpec,
    *,
    entropy: Seeded,
    confidence: float = 0.95,
) -> BlindGuess:
    """κ at the lowest of 20, 25 and 30 dB at which it is at most 1 %, at 30 dB where none is."""
    for threshold in _THRESHOLDS:
        found = blind_guess(
            pool, labels, spec, threshold=threshold, entropy=entropy, confidence=confidence
        )
        if found.rate <= _ACCEPTED:
            break
    return found


def _subsample(size: int, entropy: Seeded) -> NDArray[np.int64]:
    if size < 4:
        raise InvalidInput(f"the blind-guess rate needs a pool of at least 4 records, got {size}.")
    if size <= _MAX_POOL:
        return np.arange(size)
    return entropy.generator("pool").choice(size, _MAX_POOL, replace=False)


def _candidates(
    half: NDArray[np.float64], labels: NDArray[np.int64] | None, radius: float
) -> tuple[list[str], NDArray[np.float64]]:
    names, guesses = ["mean of the records"], [half.mean(axis=0)]
    for label in () if labels is None else np.unique(labels):
        names.append(f"mean of class {label}")
        guesses.append(half[labels == label].mean(axis=0))
    inside = _distances(half, half) < radius
    densest = inside[int(np.argmax(inside.sum(axis=1)))]
    names.append("mean of the densest ball")
    guesses.append(half[densest].mean(axis=0))
    names += ["a record"] * len(half)
    return names, np.vstack([*guesses, half])


def _distances(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean squared error of each pair, [len(a), len(b)]."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.maximum(squares, 0) / a.shape[1])
