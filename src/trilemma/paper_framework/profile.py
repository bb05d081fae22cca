"""What the paper assumes of a client's unprotected update: m, the box δ, deviations σᵢ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Profile", "same_size"]

_BITS: Final = 63  # of the number of coordinates


@dataclass(frozen=True, eq=False)
class Profile:
    """The distribution of one client's unprotected update, as the paper's appendices assume it.

    Uniform on a box of half-width δ (Paillier, secret sharing, compression), or Gaussian with
    standard deviations σᵢ (randomization; the paper calls σᵢ a variance, departure E10). A scalar
    σ stands for m equal ones, so that m = 10⁹ needs no array.

    >>> profile = Profile.from_sigmas([0.5, 0.0, 2.0])
    >>> profile.parameters, profile.floored, profile.sigma
    (3, 1, array([0.5, 0.5, 2. ]))
    """

    parameters: int
    delta: float | None = None
    sigma: float | NDArray[np.float64] | None = None
    floored: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.parameters, bool) or not isinstance(self.parameters, int | np.integer):
            raise InvalidInput(
                f"parameters (m, the size of the model) must be an integer, "
                f"got {self.parameters!r}."
            )
        if self.parameters < 1:
            raise InvalidInput(
                f"parameters (m, the size of the model) must be at least 1, got {self.parameters}."
            )
        if int(self.parameters).bit_length() > _BITS:
            raise InvalidInput(
                f"parameters (m, the size of the model) must have at most {_BITS} bits, got "
                f"{int(self.parameters).bit_length()}."
            )
        if self.delta is not None and not (math.isfinite(self.delta) and self.delta > 0):
            raise InvalidInput(
                f"delta (half-width of the update's box) must be positive and finite, "
                f"got {self.delta}."
            )
        if isinstance(self.sigma, np.ndarray):
            _check_sigmas(self.sigma)
            if self.sigma.shape != (self.parameters,):
                raise InvalidInput(
                    f"sigma has {self.sigma.size} entries, but the model has "
                    f"{self.parameters} parameters; give one sigma a parameter, or a single one."
                )
            if not self.sigma.all():
                raise InvalidInput(
                    f"sigma contains {int((self.sigma == 0).sum())} zeros; build the profile with "
                    f"Profile.from_sigmas, which floors and counts them."
                )
        elif self.sigma is not None and not (math.isfinite(self.sigma) and self.sigma > 0):
            raise InvalidInput(
                f"sigma (standard deviation of a coordinate) must be positive and finite, "
                f"got {self.sigma}."
            )

    @classmethod
    def from_sigmas(cls, sigmas: ArrayLike, *, delta: float | None = None) -> Profile:
        """A profile with one σᵢ a coordinate; zeros are floored at the smallest positive one.

        A coordinate that never varies would make Σ σᵢ⁻⁴ infinite and the printed optimum zero
        (departure E10); `floored` says how many there were.
        """
        values = np.asarray(sigmas, dtype=np.float64)
        _check_sigmas(values)
        zero = values == 0
        if zero.all():
            raise InvalidInput(
                "every sigma is zero: an update that never varies cannot leak; "
                "check that the sigmas come from several different updates."
            )
        floored = np.where(zero, values[~zero].min(), values)
        return cls(values.size, delta, floored, int(zero.sum()))

    @classmethod
    def of(cls, updates: ArrayLike) -> Profile:
        """The profile of observed updates [samples, m]: σᵢ their deviation, δ half their range.

        δ is one number for the whole box, so it is the largest half-range of a coordinate.
        """
        samples = np.asarray(updates, dtype=np.float64)
        if samples.ndim != 2 or samples.shape[0] < 2:
            raise InvalidInput(
                f"a profile needs a table of at least 2 updates [samples, m], "
                f"got shape {samples.shape}."
            )
        if not np.isfinite(samples).all():
            odd = int((~np.isfinite(samples)).any(axis=1).sum())
            raise InvalidInput(
                f"{odd} of {len(samples)} updates contain NaN or infinity; no profile can be made "
                f"of them."
            )
        half_range = float(np.ptp(samples, axis=0).max()) / 2
        return cls.from_sigmas(samples.std(axis=0, ddof=1), delta=half_range or None)

    @cached_property
    def log_precision(self) -> float:
        """log A = ½ log Σᵢ σᵢ⁻⁴, the only function of the σᵢ that the paper's bounds use."""
        sigma = self.require_sigma()
        if isinstance(sigma, np.ndarray):
            logs = -4.0 * np.log(sigma)
            peak = logs.max()
            return 0.5 * float(peak + np.log(np.exp(logs - peak).sum()))
        return 0.5 * math.log(self.parameters) - 2.0 * math.log(sigma)

    def require_sigma(self) -> float | NDArray[np.float64]:
        """σ, or a sentence that asks for it."""
        if self.sigma is None:
            raise InvalidInput(
                "randomization needs sigma, the standard deviation of the update's coordinates; "
                "give --sigma or --sigma-file."
            )
        return self.sigma

    def require_delta(self, mechanism: str) -> float:
        """δ, or a sentence that asks for it."""
        if self.delta is None:
            raise InvalidInput(
                f"{mechanism} needs delta, the half-width of the update's coordinates; "
                f"give --delta."
            )
        return self.delta


def _check_sigmas(values: NDArray[np.float64]) -> None:
    if values.ndim != 1 or values.size == 0:
        raise InvalidInput(f"sigma must be a vector of numbers, got shape {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise InvalidInput(
            f"sigma must be finite and not negative, but entry {bad[0]} is {values[bad[0]]}."
        )


def same_size(profiles: Sequence[Profile]) -> int:
    """m of several clients' profiles, which must agree: they train one model."""
    if not profiles:
        raise InvalidInput("at least one client's profile is needed.")
    sizes = {profile.parameters for profile in profiles}
    if len(sizes) > 1:
        raise InvalidInput(
            f"clients of one federation train one model, got sizes {sorted(sizes)}."
        )
    return sizes.pop()
