"""When a record counts as recovered, and how often a blind guess does that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilemma.beliefs.blind_guess import BlindGuess, blind_guess, default_threshold
from trilemma.beliefs.recovery import Criterion
from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = ["Guess", "choose_criterion"]


@dataclass(frozen=True)
class Guess:
    """When a record counts as recovered, and how often a blind guess does (None: not known)."""

    criterion: Criterion
    kappa: BlindGuess | None


def choose_criterion(
    scenario: Scenario,
    criterion: Criterion | None = None,
    *,
    seed: int = 0,
    confidence: float = 0.95,
) -> Guess:
    """The criterion asked for, the scenario's own, or the default, and its blind-guess rate.

    `confidence` is that of the rate's limits.
    """
    asked = criterion or scenario.criterion or Criterion.of(scenario.input_spec)
    pool = scenario.pooled()
    inputs = pool.inputs.numpy()
    labels = None if scenario.classes is None else pool.labels.numpy()
    entropy = Seeded(seed).child("blind guess")
    if asked is None:
        found = default_threshold(
            inputs, labels, scenario.input_spec, entropy=entropy, confidence=confidence
        )
        return Guess(Criterion("psnr", found.threshold), found)
    asked.check(scenario.input_spec)
    if asked.metric != "psnr":
        return Guess(asked, None)
    found = blind_guess(
        inputs,
        labels,
        scenario.input_spec,
        threshold=asked.threshold,
        entropy=entropy,
        confidence=confidence,
    )
    return Guess(asked, found)
