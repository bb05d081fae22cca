"""What `tune` and `pareto` share: the effort, and a federation with all settings resolved."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trilemma.beliefs.belief import largest_success_rate
from trilemma.errors import InvalidInput
from trilemma.estimation.constants import Guess, choose_criterion
from trilemma.estimation.costs import BANDWIDTH
from trilemma.estimation.identity import data_hash, require_scenario
from trilemma.estimation.paper_bounds import update_profile
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.suite import Suite, binding_suite
from trilemma.estimation.tasks import Bench, Task
from trilemma.observations import Adversary
from trilemma.tuning.calibrating.gauge import Gauge, streams
from trilemma.tuning.choosing.families import Family, Setting, families
from trilemma.tuning.choosing.pricing import Pricing
from trilemma.tuning.results.verdict import Federation
from trilemma.work.executors import Crew, one_thread

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.units import Source
    from trilemma.tuning.problem import Problem
    from trilemma.work.journal import Run
    from trilemma.work.replay import Ask

__all__ = ["Effort", "Plan"]


@dataclass(frozen=True)
class Effort:
    """What is spent on attacks and trainings; all of it is part of the claim.

    `restarts` of which an attack keeps the best; `steps` SGD steps of the models at which updates
    are attacked; `rounds` of each training and its paired `seeds`; `certified_rounds` that a
    certificate covers; `kappa` a stated upper limit of the blind-guess rate (None: measured);
    `clip` norm of a certificate (None: the median of the clients' update norms; "utility": the
    one that trains best); `population` from which a round samples the scenario's clients, for its
    differential privacy; `strengths` of each mechanism at which its curve is measured (0: no
    curves), which no claim rests on.
    """

    restarts: int = 3
    steps: int = 20
    rounds: int = 150
    seeds: int = 5
    certified_rounds: int = 1
    kappa: float | None = None
    clip: float | Literal["utility"] | None = None
    population: int | None = None
    strengths: int = 6

    def __post_init__(self) -> None:
        for name in ("restarts", "rounds", "certified_rounds"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.seeds < 2:
            raise InvalidInput(f"seeds must be at least 2, for an interval, got {self.seeds}.")
        if isinstance(self.clip, str) and self.clip != "utility":
            raise InvalidInput(f"clip must be a norm or 'utility', got {self.clip!r}.")
        if self.strengths < 0 or self.strengths == 1:
            raise InvalidInput(
                f"strengths (points of a curve) must be 0 for none, or at least 2, got "
                f"{self.strengths}."
            )
        if self.kappa is not None and not 0 < self.kappa < 1:
            raise InvalidInput(
                f"kappa (blind-guess rate) must lie strictly between 0 and 1, got {self.kappa}."
            )


@dataclass(frozen=True)
class Plan:
    """What is measured, against whom and with which effort, before anything is."""

    source: Source
    scenario: Scenario
    problem: Problem
    adversary: Adversary
    confidence: float
    effort: Effort
    seed: int
    guess: Guess
    setting: Setting
    suite: Suite
    families: tuple[Family, ...]
    pricing: Pricing
    federation: Federation

    @classmethod
    def of(
        cls,
        source: Source,
        problem: Problem,
        *,
        mechanisms: Sequence[str] | None = None,
        attacks: Sequence[str] | None = None,
        adversary: Adversary = Adversary.SERVER,
        confidence: float = 0.95,
        bandwidth: float = BANDWIDTH,
        criterion: Criterion | None = None,
        effort: Effort | None = None,
        seed: int = 0,
        run: Run | None = None,
        data_key: bytes | None = None,
    ) -> Plan:
        """Look at the federation: its criterion, its updates, the families that it can run."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence must lie strictly between 0 and 1, got {confidence}.")
        spent = effort or Effort()
        scenario = source if isinstance(source, Scenario) else source()
        if run is not None:
            require_scenario(run, scenario)
        tag = data_hash(scenario, data_key or secrets.token_bytes(32))
        with one_thread():  # sums must not change their order with the number of cores
            guess = choose_criterion(scenario, criterion, seed=seed, confidence=confidence)
            setting = Setting.of(scenario, guess.criterion, adversary, seed=seed)
            suite = binding_suite(scenario, attacks)
            profile = update_profile(scenario, seed=seed)
        seeds = tuple(range(spent.seeds))
        return cls(
            source=source,
            scenario=scenario,
            problem=problem,
            adversary=adversary,
            confidence=confidence,
            effort=spent,
            seed=seed,
            guess=guess,
            setting=setting,
            suite=suite,
            families=families(setting, adversary, mechanisms),
            pricing=Pricing(problem, profile, spent.rounds, seeds, bandwidth, confidence),
            federation=Federation.of(scenario, guess, tag),
        )

    @property
    def p_max(self) -> float:
        """The success rate that the budget allows; a blind-guess rate of 0 is conservative."""
        return largest_success_rate(self.problem.budget)

    def gauge(self, ask: Ask, adversary: Adversary | None = None) -> Gauge:
        """Counts recovered units for one procedure, at its share of the error probability."""
        level = (1 - self.confidence) / streams(self.families)
        who = adversary or self.adversary
        return Gauge(ask, self.suite, who, self.setting.clients, self.p_max, level)

    def crew(self, workers: int) -> Crew[Task]:
        """Workers that can do every task of this plan."""
        effort = self.effort
        bench = Bench(self.source, self.guess.criterion, effort.restarts, effort.steps, self.seed)
        return Crew(bench, workers=workers)
