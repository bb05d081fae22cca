"""Which jobs a tuning may want, by the bounds of its own procedures: how long it may take."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trilemma.attacks.crafted import hidden_linear
from trilemma.federation.recipe import Recipe
from trilemma.game.costs import fewest_rounds
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.tuning.calibration.outcomes import UNPROTECTED
from trilemma.tuning.choice.choose import control_of
from trilemma.tuning.choice.other_adversary import BESIDE_GAMES, craftable
from trilemma.tuning.choice.shown_results import possible_shown
from trilemma.tuning.families.calibrator import CONTROL_GAMES
from trilemma.tuning.pareto.family_curves import CURVE_SEEDS, possible_curves
from trilemma.tuning.proof.attacks_on_proof import EFFORTS
from trilemma.tuning.proof.baseline_search import (
    AVERAGED_TRAININGS,
    FREE_TRAININGS,
    REFINED_TRAININGS,
    STEP_TRAININGS,
)
from trilemma.tuning.proof.noise_for_budget import Proof
from trilemma.tuning.proof.noise_sweep import possible_trade_off
from trilemma.tuning.results.gallery import RECORDS
from trilemma.tuning.time_left import Kind, Range, Work, kind_of

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.plan import Plan

__all__ = ["possible_further", "possible_jobs"]


def possible_jobs(plan: Plan, *, pictures: bool = False) -> dict[str, Work]:
    """By procedure the units of each kind of work, of a whole tuning."""
    work: dict[str, Work] = {}
    proved = [family for family in plan.families if plan.proves(family)]
    measured = [family for family in plan.families if not plan.proves(family)]
    if measured:
        seeds = len(plan.pricing.seeds)
        work["baseline"] = {_training(plan): Range(seeds, seeds)}
    work |= {family.name: _measured(plan, family) for family in measured}
    work |= {
        family.name: _proved(plan, family, searches=place == 0)
        for place, family in enumerate(proved)
    }
    return work | possible_further(plan, pictures=pictures)


def possible_further(plan: Plan, *, pictures: bool) -> dict[str, Work]:
    """The same of further results, none of which is certain before something is chosen."""
    lead, asked, rounds = plan.suite.lead, plan.request, plan.claim.rounds
    proves = any(plan.proves(family) for family in plan.families)
    measures = not all(plan.proves(family) for family in plan.families)
    work: dict[str, dict[Kind, int]] = {}
    if games := _beside(plan, proves, measures):
        work["beside"] = games
    if proves:
        work["trade_off"] = possible_trade_off(plan)
    if measures:
        work |= possible_shown(plan)
        if asked.strengths:
            played, points = possible_curves(plan)
            work["curves"] = {Kind("games", (lead,), over): n for over, n in played.items()}
            work["curves"] |= {
                _training(plan): points * CURVE_SEEDS,
                Kind("timings"): points * fewest_rounds(asked.confidence),
            }
    if pictures and plan.scenario.show_records:
        work["gallery"] = {Kind("games", (a,), rounds): RECORDS for a in plan.suite.attacks}
    control = Range(CONTROL_GAMES, CONTROL_GAMES)
    controls: dict[str, Work] = {
        control_of(name): {Kind("games", (name,)): control} for name in plan.suite.attacks
    }
    return controls | {
        name: {kind: Range(0, most) for kind, most in kinds.items()}
        for name, kinds in work.items()
    }


def _beside(plan: Plan, proves: bool, measures: bool) -> dict[Kind, int]:
    """Games of other adversaries, at what was proved or measured."""
    games = {}
    if proves and hidden_linear(plan.scenario.task.model) is not None:
        kind = Kind("games", ("exact-posterior",), 1)
        games[kind] = EFFORTS[plan.request.preset].games
    if measures:
        games[Kind("games", (plan.suite.lead,), plan.claim.rounds)] = BESIDE_GAMES
        if craftable(plan):
            games[Kind("games", ("analytic",), 1)] = BESIDE_GAMES
    return games


def _measured(plan: Plan, family: Family) -> Work:
    """One candidate: calibrated and priced."""
    if family.seen == "nothing":
        return _priced(plan, family.carrier, certain=True)
    calibrator, rounds, adversary = plan.calibrator(), plan.claim.rounds, plan.request.adversary
    if family.tested_over(rounds):
        games = calibrator.possible(family)
    else:
        games, rounds = calibrator.possible_estimate(), 1
    at = UNPROTECTED if family.mechanism is None else 0.0
    shown = family.attacked(at, adversary).describe()
    return _priced(plan, family.carrier) | {
        kind_of(AttackJob("", shown, (name,), adversary, rounds, 0, 0)): count
        for name, count in games.items()
    }


def _proved(plan: Plan, family: Family, *, searches: bool) -> Work:
    """One candidate: proved, priced, and compared with trainings without protection.

    Families share these: the first one's are certain.
    """
    seeds, (least, most) = len(plan.pricing.seeds), STEP_TRAININGS
    own = _training(plan, plan.scenario.local_training)
    proved = _training(plan, Proof.of(plan, family.carrier).local_training)
    work = Counter[tuple[Kind, str]]()
    # The best training without protection, which is refined, may be of either kind.
    work[own, "least"] += seeds + least + AVERAGED_TRAININGS
    work[own, "most"] += 2 * seeds + most + AVERAGED_TRAININGS + REFINED_TRAININGS
    work[proved, "least"] += seeds + FREE_TRAININGS
    work[proved, "most"] += 2 * seeds + FREE_TRAININGS + REFINED_TRAININGS
    return _priced(plan, family.carrier, certain=True) | {
        kind: Range(work[kind, "least"] if searches else 0, work[kind, "most"])
        for kind in (own, proved)
    }


def _priced(plan: Plan, carrier: str, *, certain: bool = False) -> dict[Kind, Range]:
    """Trainings and timed rounds, which may be spared where the budget is not kept."""
    trained = len(plan.pricing.seeds)
    timed = fewest_rounds(plan.pricing.confidence)
    return {
        _training(plan): Range(trained if certain else 0, trained),
        Kind("timings", carrier=carrier): Range(timed if certain else 0, timed),
    }


def _training(plan: Plan, training: LocalTraining | None = None) -> Kind:
    recipe = None if training is None else Recipe(training)
    return kind_of(TrainJob("none", 0, plan.pricing.rounds, recipe))
