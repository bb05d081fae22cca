"""Total variation between a Gaussian update and the same update with Gaussian noise added.

P^O = N(μ, diag σᵢ²) against P^S = N(μ, diag(σᵢ² + s²)), the setting of the paper's appendix on
randomization. Below, rᵢ = s²/σᵢ² and everything is a function of m and the rᵢ alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["isotropic_tv", "large_m_tv", "large_m_tv_inverse", "log1p_minus", "upper_tv"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_NARROW: Final = 3.0  # in standard deviations: 64 nodes integrate such a bell to rounding error
_STIRLING_FROM: Final = 64.0  # the series below then errs by less than 1e-15


def isotropic_tv(parameters: int, log_ratio: float) -> float:
    """Exact TV for equal σ: P(m/2, t/2) - P(m/2, t/(2(1+r))), t = m log(1+r) (1+r)/r.

    P is the regularised lower incomplete gamma function; the two arguments bound the shell on
    which the narrower density is the larger one. For small r the difference cancels, so there
    the gamma density is integrated between the two arguments instead.

    >>> isotropic_tv(1, math.log(3.0))  # N(0,1) against N(0,4)
    0.32267...
    """
    from scipy.special import gammainc, gammaincc  # heavy: the command line must start without

    ratio = _exp(log_ratio)
    if ratio == 0.0:
        return _small_ratio_tv(parameters, log_ratio)
    if math.isinf(ratio):
        return 1.0
    shape = parameters / 2
    width = math.log1p(ratio)  # of the interval, in units of the shape
    if width * math.sqrt(shape) < _NARROW:
        return _integrated(shape, ratio, width)
    low = shape * width / ratio
    high = low + shape * width
    if high < shape:
        return float(gammainc(shape, high) - gammainc(shape, low))
    return float(1.0 - gammaincc(shape, high) - gammainc(shape, low))


def large_m_tv(log_scaled_variance: float) -> float:
    """Large-m limit for any σᵢ: TV = 2Φ(s²A/(2√2)) - 1 = erf(s²A/4), A = √(Σ σᵢ⁻⁴).

    The argument is log(s²A).

    >>> large_m_tv(0.0)
    0.2763...
    """
    return math.erf(_exp(log_scaled_variance) / 4)


def large_m_tv_inverse(tv: float) -> float:
    """log(s²A) = log(4 erf⁻¹(TV)), the inverse of `large_m_tv`."""
    from scipy.special import erfcinv, erfinv  # heavy, as above

    # Above a half, erfinv would lose what 1 - TV still has.
    root = float(erfinv(tv)) if tv < 0.5 else float(erfcinv(1 - tv))
    return math.log(4) + math.log(root)


def upper_tv(ratios: NDArray[np.float64]) -> float:
    """An upper bound of the TV for unequal σᵢ: the least of Pinsker (both ways) and Hellinger.

    TV ≤ √(KL/2), KL(S‖O) = ½ Σ (rᵢ - log(1+rᵢ)), KL(O‖S) = ½ Σ (log(1+rᵢ) - rᵢ/(1+rᵢ)), and
    TV ≤ √(1 - BC²), -log BC = Σ (½ log(1 + rᵢ/2) - ¼ log(1+rᵢ)).
    """
    forward = -0.5 * float(log1p_minus(ratios).sum())
    backward = -0.5 * float(log1p_minus(-ratios / (1 + ratios)).sum())
    # 2 log(1+r/2) - log(1+r) = log(1 + r²/(4(1+r))), a form without cancellation
    overlap = 0.25 * float(np.log1p(ratios / (1 + ratios) * ratios / 4).sum())
    hellinger = math.sqrt(-math.expm1(-2 * overlap))
    return min(1.0, math.sqrt(forward / 2), math.sqrt(backward / 2), hellinger)


def log1p_minus(v: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(1+v) - v without cancellation near 0, by the atanh series in t = v/(2+v).

    log(1+v) = 2 atanh t and v = 2t/(1-t), so the difference is
    -2t²/(1-t) + 2(t³/3 + t⁵/5 + …).
    """
    v = np.asarray(v, dtype=np.float64)
    t = v / (2 + v)
    square = t * t
    tail = np.zeros_like(t)
    for k in range(31, 1, -2):  # |t| < 0.1: the first dropped term is below 1e-31
        tail = tail * square + 1.0 / k
    series = 2 * square * (t * tail - 1 / (1 - t))
    with np.errstate(divide="ignore"):
        direct = np.log1p(v) - v
    result: NDArray[np.float64] = np.where(np.abs(t) < 0.1, series, direct)
    return result


def _integrated(shape: float, ratio: float, width: float) -> float:
    """∫ of the gamma density from u = log(1+r)/r to u + log(1+r), in units x = shape · u."""
    left = float(log1p_minus(np.array(ratio))) / ratio  # log(1+r)/r - 1 ≤ 0
    v = left + width * (_NODES + 1) / 2
    log_density = shape * log1p_minus(v) - np.log1p(v) + _log_peak(shape)
    return float(width / 2 * (_WEIGHTS * np.exp(log_density)).sum())


def _log_peak(shape: float) -> float:
    """log of shape^shape · e^-shape / Γ(shape), which Stirling's series gives for large shapes."""
    from scipy.special import gammaln  # heavy, as above

    if shape < _STIRLING_FROM:
        return shape * math.log(shape) - shape - float(gammaln(shape))
    inverse = 1 / shape
    correction = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))
    return 0.5 * math.log(shape / (2 * math.pi)) - correction


def _small_ratio_tv(parameters: int, log_ratio: float) -> float:
    """First order in r, where r itself underflows: r · shape times the density's peak."""
    shape = parameters / 2
    return math.exp(log_ratio + _log_peak(shape)) if log_ratio > -math.inf else 0.0


def _exp(log_value: float) -> float:
    return math.exp(log_value) if log_value < 709 else math.inf
