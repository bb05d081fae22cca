"""Basis "certified": clip and noise that hold against every attacker, without attacking.

p ≤ Φ(Φ⁻¹(κ) + √R·C/s) for updates clipped to norm C with N(0, s²I) added, R rounds, and κ the
success rate of a blind guess; leakage is then at most sup over κ of H_κ(p).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.optimize import brentq

from trilemma.beliefs.intervals import Interval
from trilemma.bounds import certified_leakage, certified_success, check_budget
from trilemma.errors import InvalidInput
from trilemma.estimation.tasks import Diverged, TrainTask, read_training
from trilemma.observations import Adversary
from trilemma.protections.dp import PrivacyFigure, dp_figure
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.randomization import Randomization
from trilemma.tuning.choosing.families import Setting, carrier

if TYPE_CHECKING:
    from trilemma.work.replay import Ask

__all__ = ["Certificate", "ClipTried", "best_clip", "certify", "clip_norms", "noise_for"]

ClipRule = Literal["stated", "median", "utility"]

_LEAST_KAPPA: Final = 1e-9  # the certificate needs κ > 0; a smaller one only lowers the leakage
_SHARE: Final = 1e-3  # by which the noise exceeds the root, so that rounding is on the safe side
_TAIL: Final = 8.0  # standard deviations of noise that must fit into a transport's range
DELTA_SHARE: Final = 0.1  # δ = 0.1 / number of records


@dataclass(frozen=True)
class ClipTried:
    """A clip norm, the noise that it needs, and the metric then reached (None: it diverged)."""

    clip: float
    noise: float
    metric: float | None


@dataclass(frozen=True)
class Certificate:
    """Clip and noise for a budget, and what they are worth.

    `kappa` is the interval of the blind-guess rate over which the leakage is bounded. Its upper
    end was measured, and holds with `kappa_confidence`; None says that it was stated, and all
    that follows holds as far as it does. `noise` is the standard deviation on what the adversary
    sees, `success` the bound at the upper end of κ. `clip_rule` says where the clip norm is from.
    """

    protection: str
    release: str
    kappa: Interval
    kappa_confidence: float | None
    clip: float
    clip_rule: ClipRule
    noise: float
    rounds: int
    success: float
    leakage: float
    privacy: PrivacyFigure
    clips_tried: tuple[ClipTried, ...] = ()


def noise_for(budget: float, kappa: Interval, clip: float, rounds: int) -> float:
    """The least s with sup_κ H_κ(Φ(Φ⁻¹(κ) + √R·C/s)) ≤ budget, rounded up.

    >>> s = noise_for(0.3, Interval(0.01, 0.01), clip=1.0, rounds=1)
    >>> round(certified_leakage(Interval(0.01, 0.01), 1.0, s), 3)
    0.3
    """
    check_budget(budget)

    def excess(log_noise: float) -> float:
        found = certified_leakage(kappa, clip, math.exp(log_noise), rounds, points=201)
        return found - budget

    scale = math.log(clip * math.sqrt(rounds))
    low, high = scale - 5.0, scale + 12.0
    if excess(low) <= 0:  # the budget is met with next to no noise
        return math.exp(low)
    noise = math.exp(float(brentq(excess, low, high, xtol=1e-6))) * (1 + _SHARE)
    while certified_leakage(kappa, clip, noise, rounds) > budget:
        noise *= 1 + _SHARE
    return noise


def certify(
    setting: Setting,
    budget: float,
    kappa: Interval,
    *,
    records: int,
    kappa_confidence: float | None = None,
    rounds: int = 1,
    clip: float | None = None,
    adversary: Adversary = Adversary.SERVER,
    transport: str = "plain",
    population: int | None = None,
) -> Certificate:
    """Noise for a budget; the clip norm is the median of the clients' update norms by default.

    The bound holds for every clip norm, however it was chosen. A norm that was chosen from data
    tells something of them where it is published; that is not counted.

    A plain transport shows the server each message. Through secret sharing it sees the sum of K
    clients, whose noises add up; whatever the other clients sent is then a constant to whoever
    guesses, so the bound holds with the noise of the sum. A curious client sees the sum too, and
    takes its own noise out. `population` clients, of which a round samples the scenario's.
    """
    if not 0 <= kappa.low <= kappa.high < 1:
        raise InvalidInput(
            f"kappa (blind-guess rate) must lie in [0, 1), got {kappa.low} .. {kappa.high}."
        )
    norm = float(np.median(setting.norms)) if clip is None else clip
    if not (math.isfinite(norm) and norm > 0):
        raise InvalidInput(f"clip (norm of an update) must be positive and finite, got {norm}.")
    limits = Interval(max(kappa.low, _LEAST_KAPPA), max(kappa.high, _LEAST_KAPPA))
    noise = noise_for(budget, limits, norm, rounds)
    in_sum = transport != "plain" or adversary is Adversary.CLIENT
    colluders = int(adversary is Adversary.CLIENT)
    honest = setting.clients - colluders if in_sum else 1
    if in_sum:
        made = Randomization.for_sum(
            noise**2, threshold=setting.clients, colluders=colluders, clip=norm
        )
    else:
        made = Randomization(noise**2, norm)
    protection = Protection((made,))
    if transport != "plain":
        reach = norm + _TAIL * made.scale
        protection = Protection((made,), carrier(transport, reach, setting))
    return Certificate(
        protection=protection.describe(),
        release="sum" if in_sum else "local",
        kappa=limits,
        kappa_confidence=kappa_confidence,
        clip=norm,
        clip_rule="median" if clip is None else "stated",
        noise=noise,
        rounds=rounds,
        success=certified_success(limits.high, norm, noise, rounds),
        leakage=certified_leakage(limits, norm, noise, rounds),
        privacy=dp_figure(
            made,
            delta=DELTA_SHARE / records,
            rounds=rounds,
            release="sum" if in_sum else "local",
            clients=honest,
            population=population,
        ),
    )


def clip_norms(setting: Setting) -> tuple[float, ...]:
    """Clip norms worth trying: quantiles of the clients' update norms, and parts of the median.

    Once all updates are clipped, noise falls with the norm, and so does the step of a round: a
    smaller norm is a smaller learning rate, which noise often calls for.
    """
    low, middle, high = np.quantile(setting.norms, (0.1, 0.5, 0.9))
    return tuple(float(norm) for norm in (high, middle, low, middle / 2, middle / 4, middle / 8))


def best_clip(
    certificates: Sequence[Certificate], ask: Ask, *, rounds: int, seeds: Sequence[int]
) -> Certificate:
    """Of certificates for one budget with different clip norms, that of the best mean metric.

    Only utility decides, so the guarantee is that of any single one of them. Trainings are of
    full length: short ones favour large steps, and with them large norms. Take other seeds than
    those that price the choice, which would flatter it.
    """
    specs = [each.protection for each in certificates]
    payloads = ask([TrainTask(spec, seed, rounds, True) for spec in specs for seed in seeds])
    tried = [
        ClipTried(each.clip, each.noise, _mean_metric(payloads[at : at + len(seeds)]))
        for each, at in zip(certificates, range(0, len(payloads), len(seeds)), strict=True)
    ]
    metrics = [-math.inf if each.metric is None else each.metric for each in tried]
    best = certificates[int(np.argmax(metrics))]
    return replace(best, clip_rule="utility", clips_tried=tuple(tried))


def _mean_metric(payloads: Sequence[bytes]) -> float | None:
    try:
        return float(np.mean([read_training(payload).metric for payload in payloads]))
    except Diverged:
        return None
