"""The main job: from a budget to a protection and its parameter, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trilemma.errors import UnknownName
from trilemma.estimation.costs import BANDWIDTH
from trilemma.mechanisms.specs import parse_protection
from trilemma.observations import Adversary
from trilemma.tuning.advice import advice, limits
from trilemma.tuning.choice import ranked
from trilemma.tuning.plan import Plan
from trilemma.tuning.procedures import BasisAsked, procedures, procedures_beside
from trilemma.tuning.provenance import versions
from trilemma.tuning.replay import settle
from trilemma.tuning.tasks import attack_named
from trilemma.tuning.verdict import AttackUsed, Basis, Beside, Candidate, Verdict

if TYPE_CHECKING:
    from trilemma.beliefs.recovery import Criterion
    from trilemma.estimation.recoveries import Source
    from trilemma.progress import Ticker
    from trilemma.runs import Run
    from trilemma.tuning.plan import Effort
    from trilemma.tuning.problem import Problem

__all__ = ["BASES", "tune"]

BASES: Final = ("measured", "certified", "surrogate", "all")


def tune(
    source: Source,
    problem: Problem,
    *,
    protections: Sequence[str] | None = None,
    attacks: Sequence[str] | None = None,
    adversary: Adversary = Adversary.SERVER,
    basis: BasisAsked = "measured",
    confidence: float = 0.95,
    bandwidth: float = BANDWIDTH,
    criterion: Criterion | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    run: Run | None = None,
    data_key: bytes | None = None,
    workers: int = 1,
    ticker: Ticker | None = None,
) -> Verdict:
    """The protection of least weighted loss whose leakage is shown to be within the budget.

    `protections` are names of families and `attacks` of attacks that bind (None: the defaults).
    What `run` already holds is not measured again; without it everything stays in memory.
    """
    if basis not in BASES:
        raise UnknownName("basis", basis, BASES)
    plan = Plan.of(
        source,
        problem,
        mechanisms=protections,
        attacks=attacks,
        adversary=adversary,
        confidence=confidence,
        bandwidth=bandwidth,
        criterion=criterion,
        effort=effort,
        seed=seed,
        run=run,
        data_key=data_key,
    )
    with plan.crew(workers) as crew:
        found = settle(procedures(plan, basis), crew, run=run, ticker=ticker)
        candidates = ranked([each for each in found.values() if isinstance(each, Candidate)])
        chosen = next((each for each in candidates if each.rank == 1), None)
        beside = settle(procedures_beside(plan, chosen), crew, run=run, ticker=ticker)
    return _verdict(plan, basis, found, candidates, chosen, beside)


def _verdict(
    plan: Plan,
    basis: BasisAsked,
    found: Mapping[str, Any],
    candidates: tuple[Candidate, ...],
    chosen: Candidate | None,
    beside: Mapping[str, Beside],
) -> Verdict:
    """Everything in one value."""
    constants, made = found.get("promises", (None, ()))
    fallback: Basis = "measured" if basis == "all" else basis
    nothing = "No protection was shown to keep the budget."
    return Verdict(
        limits=limits(chosen, plan.suite, plan.adversary),
        protection=None if chosen is None else parse_protection(chosen.protection or "none"),
        basis=fallback if chosen is None else chosen.basis,
        statement=nothing if chosen is None else chosen.statement,
        advice="" if chosen else advice(candidates, plan.problem, plan.setting),
        leakage=None if chosen is None else chosen.leakage,
        problem=plan.problem,
        adversary=plan.adversary,
        confidence=plan.confidence,
        largest_success_rate=plan.p_max,
        attacks=_attacks(plan, found),
        local_training=plan.scenario.local_training,
        federation=plan.federation,
        chosen=None if chosen is None else chosen.name,
        candidates=candidates,
        beside=tuple(beside.values()),
        constants=constants,
        promises=made,
        curves=(),
        predictions=(),
        seed=plan.seed,
        training_seeds=plan.pricing.seeds,
        versions=versions(),
        show_records=plan.scenario.show_records,
    )


def _attacks(plan: Plan, found: Mapping[str, Any]) -> tuple[AttackUsed, ...]:
    counts = [(plan.suite.binding, found["control"])]
    counts += [(plan.suite.shown, found["shown"])] if plan.suite.shown else []
    return tuple(
        AttackUsed(
            name=name,
            effort=repr(attack_named(name, plan.scenario)),
            restarts=plan.effort.restarts,
            binding=name in plan.suite.binding,
            control_units=each.units,
            control_recovered=each.by_attack[name],
        )
        for names, each in counts
        for name in names
    )
