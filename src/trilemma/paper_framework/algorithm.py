"""The paper's algorithm on a federation: constants, γ* of all four mechanisms, and what they do.

Lines 1 to 5 of Algorithm 1: Algorithms 2 to 4 estimate C₁, ξ and C₂ by deep leakage from gradients
on unprotected updates (the server, one round, no knowledge); the closed forms give γ*. Beside each
γ* stands what the same attacker, trainings and rounds measure there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from trilemma.attacks import get
from trilemma.errors import InvalidInput
from trilemma.game.recovering.criterion import choose_criterion
from trilemma.game.recovering.recoveries import attack_units
from trilemma.game.recovering.units import Measurement
from trilemma.paper_framework.constants_from_counts import EstimatedConstants, constants_of
from trilemma.paper_framework.measured_effects import JobRunner
from trilemma.paper_framework.mechanisms import MECHANISMS
from trilemma.paper_framework.mechanisms.base import Form, MechanismModel
from trilemma.paper_framework.paper_result import Paper, Row
from trilemma.paper_framework.parameter_curves import curve, on_axis, runnable
from trilemma.paper_framework.profiling import client_profiles
from trilemma.paper_framework.solving import Solution, solve
from trilemma.tuning.problem import Problem

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.game.recovering.criterion import Guess
    from trilemma.game.recovering.recoveries import Outcomes
    from trilemma.game.scenario import Scenario
    from trilemma.paper_framework.profile import Profile

__all__ = ["ATTEMPTS", "FORMS", "MODELS", "Asked", "estimated", "run_paper"]

Asked = Literal["printed", "corrected", "tight", "all"]
FORMS: Final[tuple[Form, ...]] = ("printed", "corrected", "tight")
MODELS: Final = 5  # M
ATTEMPTS: Final = 10  # T
_STEPS: Final = 20  # R
_UNITS: Final = 60  # updates attacked at γ*


def estimated(scenario: Scenario, guess: Guess, outcomes: Outcomes) -> EstimatedConstants:
    """C₁, ξ and C₂ from the attempts on one batch a client."""
    shares: list[float] = []
    if scenario.classes is not None:
        shares = np.bincount(scenario.pooled().labels.numpy(), minlength=scenario.classes).tolist()
        shares = [share + 0.5 for share in shares]  # no class is impossible
    return constants_of(outcomes, guess.kappa, classes=scenario.classes, class_shares=shares)


def run_paper(
    scenario: Scenario,
    problem: Problem | None = None,
    *,
    form: Asked = "all",
    criterion: Criterion | None = None,
    models: int = MODELS,
    attempts: int = ATTEMPTS,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Paper:
    """The paper's algorithm from beginning to end."""
    began = time.process_time()
    problem = problem or Problem()
    attack = get("dlg")
    guess = choose_criterion(scenario, criterion, seed=seed)
    measurement = Measurement(
        attack,
        units=models,
        restarts=1,
        attempts=attempts,
        models=models,
        steps=_STEPS,
        seed=seed,
        batches="fixed",
    )
    clients = len(scenario.records)
    attacked = models * clients * attempts
    effort = f"M = {models}, T = {attempts}"
    say(f"Algorithms 2 to 4: {attacked} attacks on unprotected updates, {effort}")
    outcomes = attack_units(scenario, measurement, guess.criterion, range(models * clients))
    constants = estimated(scenario, guess, outcomes)
    if constants.recovered <= constants.kappa:
        raise InvalidInput(
            f"the attack recovered {constants.recovered:.0%} of the unprotected records, no more "
            f"than a blind guess: there is nothing to protect from it; lower the "
            f"batch size, or say with --success when a record counts as recovered."
        )
    say("solving for the optima")
    profiles = client_profiles(scenario, seed=seed)
    job_runner = JobRunner(scenario, attack, guess.criterion, constants.kappa, seed, _STEPS, say)
    forms = FORMS if form == "all" else (form,)
    rows = {
        model: [
            _row(
                job_runner, model, constants, _solution(model, constants, problem, profiles, asked)
            )
            for asked in forms
            if form != "all" or model.form(asked) == asked
        ]
        for model in MECHANISMS.values()
    }
    curves = [
        curve(
            job_runner, model, constants.by_datum.constants, profiles, [row.gamma for row in own]
        )
        for model, own in rows.items()
    ]
    return Paper(
        scenario=scenario.name,
        clients=clients,
        parameters=scenario.task.layout.size,
        attack=repr(attack),
        criterion=f"{guess.criterion.metric} above {guess.criterion.threshold:g}",
        steps=_STEPS,
        seed=seed,
        budget=problem.budget,
        utility_weight=problem.utility_weight,
        efficiency_weight=problem.efficiency_weight,
        max_utility_loss=problem.max_utility_loss,
        max_cost=problem.max_cost,
        estimated=constants,
        deltas=tuple(profile.delta for profile in profiles),
        precisions=tuple(math.exp(profile.log_precision) for profile in profiles),
        floored=tuple(profile.floored for profile in profiles),
        rows=tuple(row for own in rows.values() for row in own),
        curves=tuple(curves),
        rounds=scenario.rounds,
        seeds=job_runner.seeds,
        restarts=job_runner.restarts,
        cpu_seconds=time.process_time() - began,
    )


def _solution(
    model: MechanismModel,
    constants: EstimatedConstants,
    problem: Problem,
    profiles: Sequence[Profile],
    form: Form,
) -> Solution:
    return solve(model, constants.by_datum.constants, problem, profiles, form=form)


def _row(
    job_runner: JobRunner, model: MechanismModel, constants: EstimatedConstants, solution: Solution
) -> Row:
    gamma, bound, measured = None, None, None
    note = "" if solution.value else solution.reason
    if solution.value is not None:
        gamma = on_axis(solution.value)
        bound = constants.by_datum.constants.printed_bound(solution.distortion or 0.0)
        protection, note = runnable(model, gamma)
        if protection is not None:
            measured = job_runner.measure(protection, gamma, _UNITS)
    return Row(solution.optimum, gamma, bound, measured, note)
