"""The (ε, δ)-differential privacy that clipping and Gaussian noise amount to.

With noise of standard deviation s on updates clipped to norm C, the noise multiplier is z = s/S,
where S = C if a neighbouring federation has one client more or less, and 2C if one client's data
are replaced. Where only the sum of K clients is seen, its noise is √K times as large: z = s√K/S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom

from trilemma.errors import InvalidInput
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.randomization import Randomization

__all__ = ["PrivacyFigure", "dp_figure", "gaussian_delta", "gaussian_epsilon", "private_noise"]

Neighbouring = Literal["add-remove", "replace"]
Method = Literal["analytic Gaussian", "participation bound", "PLD", "RDP"]
_LEAST_FOR_PLD: Final = 0.5


@dataclass(frozen=True)
class PrivacyFigure:
    """(ε, δ) of one round and of all, the noise multiplier behind them, and how ε was found."""

    epsilon: float
    delta: float
    epsilon_per_round: float
    noise_multiplier: float
    rounds: int
    neighbouring: Neighbouring
    method: Method


def private_noise(protection: Protection) -> Randomization | None:
    """What differential privacy rests on: Gaussian noise on updates of bounded norm."""
    for each in protection.transforms:
        if isinstance(each, Randomization) and each.clip is not None:
            return each
    return None


def dp_figure(
    randomization: Randomization,
    *,
    delta: float,
    rounds: int = 1,
    release: Literal["local", "sum"] = "local",
    clients: int = 1,
    population: int | None = None,
    neighbouring: Neighbouring = "add-remove",
) -> PrivacyFigure:
    """What the noise is worth over `rounds` rounds of `clients` clients each, of equal weight.

    For a sum, count the clients whose noise an adversary cannot take out: the threshold less the
    colluders.

    If all take part in each round, R rounds are one Gaussian release with μ = √R/z, exactly.
    `population` > `clients` says that each round samples its clients from so many:

    - release "sum": subsampling amplifies. This holds against those who do not learn who was
      sampled (a curious client, a reader of the model), not against a server that picks them.
      add-remove: Poisson sampling, privacy loss distributions (Rényi below z = ½, where these
      take too long); replace: a fixed number without replacement, Rényi; all by dp-accounting,
      or the figure without sampling, where that is better.
    - release "local": the server knows who took part, so nothing is amplified; but a client takes
      part in at most B rounds except with probability δ/2, B that binomial quantile, so that
      (ε, δ) follows from B rounds at δ/2.

    >>> figure = dp_figure(Randomization(1.0, clip=1.0), delta=1e-5)
    >>> round(figure.epsilon, 3), figure.noise_multiplier
    (4.377, 1.0)
    """
    if randomization.clip is None:
        raise InvalidInput(
            "noise without a clip gives no differential privacy, as an update may be of any "
            "length; set clip."
        )
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1, got {delta}.")
    if rounds < 1 or clients < 1:
        raise InvalidInput(f"rounds and clients must be at least 1, got {rounds} and {clients}.")
    if release not in ("local", "sum"):
        raise InvalidInput(f"release must be 'local' or 'sum', got {release!r}.")
    if neighbouring not in ("add-remove", "replace"):
        raise InvalidInput(
            f"neighbouring must be 'add-remove' or 'replace', got {neighbouring!r}."
        )
    everyone = clients if population is None else population
    if everyone < clients:
        raise InvalidInput(
            f"population ({everyone}) must hold at least the {clients} clients of a round."
        )
    sensitivity = randomization.clip * (1 if neighbouring == "add-remove" else 2)
    multiplier = randomization.scale / sensitivity
    if release == "sum":
        multiplier *= math.sqrt(clients)
    method: Method = "analytic Gaussian"
    each, total = (gaussian_epsilon(math.sqrt(r) / multiplier, delta) for r in (1, rounds))
    if everyone > clients and release == "local":
        most = max(1, int(binom.isf(delta / 2, rounds, clients / everyone)))
        bound = gaussian_epsilon(math.sqrt(most) / multiplier, delta / 2)
        if bound < total:
            method, total = "participation bound", bound
    elif everyone > clients:
        accountant: Method = "RDP"
        if neighbouring == "add-remove" and multiplier >= _LEAST_FOR_PLD:
            accountant = "PLD"
        sampled = [
            _sampled_epsilon(multiplier, r, clients, everyone, neighbouring, accountant, delta)
            for r in (1, rounds)
        ]
        each = min(each, sampled[0])
        if sampled[1] < total:
            method, total = accountant, sampled[1]
    return PrivacyFigure(total, delta, each, multiplier, rounds, neighbouring, method)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ), exact for the Gaussian mechanism (Balle, Wang).

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    return math.exp(_log_gaussian_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The ε at which δ(ε) = delta, by bisection in log δ, which is exact far into the tails.

    >>> round(gaussian_epsilon(1.0, 0.126937), 5)
    1.0
    """
    target = math.log(delta)
    if _log_gaussian_delta(mu, 0.0) <= target:
        return 0.0
    high = 1.0
    while _log_gaussian_delta(mu, high) > target:
        high *= 2
    return float(
        brentq(lambda e: _log_gaussian_delta(mu, e) - target, 0.0, high, xtol=1e-12, rtol=1e-14)
    )


def _log_gaussian_delta(mu: float, epsilon: float) -> float:
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    gap = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)) - first
    return first + (math.log(-math.expm1(gap)) if gap < 0 else -math.inf)


def _sampled_epsilon(
    multiplier: float,
    rounds: int,
    clients: int,
    population: int,
    neighbouring: Neighbouring,
    method: Method,
    delta: float,
) -> float:
    import dp_accounting  # heavy, and needed for sampled clients only
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    gaussian = dp_accounting.GaussianDpEvent(multiplier)
    if neighbouring == "add-remove":
        relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        event = dp_accounting.PoissonSampledDpEvent(clients / population, gaussian)
    else:
        relation = dp_accounting.NeighboringRelation.REPLACE_ONE
        event = dp_accounting.SampledWithoutReplacementDpEvent(population, clients, gaussian)
    accountant = PLDAccountant(relation) if method == "PLD" else RdpAccountant(None, relation)
    return float(accountant.compose(event, rounds).get_epsilon(delta))
