"""Success rate against accuracy: what is proved and what each attacker reaches, by noise."""

from __future__ import annotations

from dataclasses import dataclass

from trilemma.accounting.sampled_training import Participation
from trilemma.game.estimates import Estimate
from trilemma.tuning.request import Knows
from trilemma.tuning.results.documents import Share

__all__ = ["AttackerRate", "TradeOff", "TradeOffPoint"]


@dataclass(frozen=True)
class AttackerRate:
    """How often attackers of one knowledge guess right at one noise multiplier.

    `recovered` of `units` games were won; none was played where `units` is 0. `lower` and `upper`
    hold for all cells of the figure at once (`beliefs.envelopes`): the rate rises with knowledge,
    falls with noise, and lies below the proof. `rate` is an estimate that does so too.
    """

    knows: Knows
    units: int
    recovered: int
    lower: Share
    upper: Share
    rate: Share


@dataclass(frozen=True)
class TradeOffPoint:
    """One noise multiplier: what a training reaches, what is proved, and what attackers reach.

    `metric` is a mean over seeds with its interval, in whole points where less noise than is
    proved would tell more. `lost` is what a training of the federation's own batches without
    protection reaches, less that, and `lost_to_best` the same against the best unprotected one
    (None: not trained); they are those of means that fall with noise. `crossed`: the counts
    contradict the order of knowledge, of noise, or the proof.
    """

    noise_multiplier: float
    variance: float
    metric: Estimate
    lost: float
    lost_to_best: float | None
    proof: Share
    attackers: tuple[AttackerRate, ...]
    crossed: bool = False


@dataclass(frozen=True)
class TradeOff:
    """One recipe at several noise multipliers, the least noise first.

    All rates are of one guess among `candidates`, over `rounds` that the attacker sees, where a
    sum has `summed` clients, of whose noises `noises` are counted. Trainings are those of the
    `chosen` noise, with all clients, `seeds` of each; nothing but the noise differs. `allowed` is
    the rate that the budget allows for so many candidates.
    """

    candidates: int
    participation: Participation
    rounds: int
    summed: int
    noises: int
    seeds: int
    chosen: int
    allowed: Share
    confidence: Share
    points: tuple[TradeOffPoint, ...]

    @property
    def games(self) -> int:
        """How many an attacker played at the chosen noise at most; 0: nothing was attacked."""
        return max(item.units for item in self.points[self.chosen].attackers)
