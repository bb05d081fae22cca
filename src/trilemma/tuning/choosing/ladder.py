"""The ladder: what each family would need on every rung, the chosen one tested, others estimated.

An estimate is the strength, of a few played, nearest to where the leading attack of a rung should
reach p_max; it proves nothing, and shows what the next rung would cost. Rungs whose attacks
reconstruct are estimated for one round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.attacks import get
from trilemma.attacks.base import RUNGS, links
from trilemma.errors import InvalidInput
from trilemma.estimation.playing.suite import leading
from trilemma.tuning.calibrating.outcomes import UNPROTECTED
from trilemma.tuning.results.verdict import Rung

if TYPE_CHECKING:
    from trilemma.attacks import Rung as RungName
    from trilemma.tuning.families.families import Family
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.request import Knows
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.work.replay import Ask, Procedure

__all__ = ["ladder_procedures", "tested_rungs"]

_SEEDS: Final = 2
_WHOLE: Final = ("candidates", "rest")  # who reconstructs round by round takes far longer
_BARE_UNITS: Final = 16


def tested_rungs(plan: Plan, candidates: Mapping[str, Candidate]) -> tuple[Rung, ...]:
    """The chosen rung, as tested."""
    able = [each.name for each in plan.families if each.deployable and each.name in candidates]
    found = [candidates[name] for name in able]
    return tuple(_rung(plan.request.knows, each, tested=each.feasible) for each in found)


def _rung(knows: Knows, found: Candidate, *, tested: bool) -> Rung:
    costs = found.costs
    return Rung(
        knows=knows,
        family=found.name,
        tested=tested,
        rounds=found.rounds,
        strength=found.strength,
        leakage=found.leakage,
        metric=None if costs is None else costs.protected_metric,
        efficiency_reduction=None if costs is None else costs.efficiency_reduction.value,
        note=found.statement,
        counted=found.basis == "counted",
    )


def ladder_procedures(plan: Plan, candidates: Sequence[Candidate]) -> dict[str, Procedure]:
    """One estimate for every family on every other measured rung that has attacks of its own.

    Where a family was shown to need no strength, it needs none against who knows less; where
    that was counted, none against anyone.
    """
    wanted: dict[str, Procedure] = {}
    counted = plan.setting.ceiling(plan.claim) <= plan.p_max
    own = len(RUNGS) if counted else RUNGS.index(plan.suite.rung)
    tested = {each.name: each for each in candidates}
    for rung in RUNGS:
        if rung == plan.suite.rung or leading(plan.scenario, rung, plan.claim.rounds) is None:
            continue
        for family in plan.families:
            if family.deployable:
                found, below = tested.get(family.name), RUNGS.index(rung) < own
                wanted[f"{rung}: {family.name}"] = _estimate(plan, family, rung, found, below)
    return wanted


def _estimate(
    plan: Plan, family: Family, rung: RungName, tested: Candidate | None, below: bool
) -> Procedure:
    """`tested` is the family on the plan's own rung, `below` which this one is."""

    def measure(ask: Ask) -> Rung:
        enough = tested is not None and tested.feasible and tested.strength is None
        if tested is not None and enough and below and family.seen != "nothing":
            return replace(
                _rung(rung, tested, tested=False),
                note=f"Nothing is added at the rung {plan.suite.rung!r}, and so nothing here.",
            )
        gauge = plan.gauge(ask, rung=rung)
        able = rung in _WHOLE or links(get(gauge.suite.lead))
        whole = family.seen == "nothing" or (family.whole_training and able)
        rounds = gauge.rounds if whole else 1
        if family.seen == "nothing":
            x, counts = UNPROTECTED, None
        elif family.mechanism is None:
            shown = family.attacked(UNPROTECTED, plan.request.adversary)
            stream = f"none of the {family.seen}, {rung}"
            x, lead = UNPROTECTED, (gauge.suite.lead,)
            counts = gauge.count(stream, shown, _BARE_UNITS, attacks=lead, rounds=rounds)
        else:
            x, counts = gauge.estimate(family, rounds)
        leakage = None if counts is None else plan.leakage(counts.successes, counts.units)
        found = replace(
            Rung(rung, family.name, False, rounds, family.strength(x), leakage, None, None),
            note="" if counts else "The server reads nothing; this rests on the key.",
        )
        try:
            metric, slower = _price(plan, ask, family, x, tested)
        except InvalidInput as error:
            return replace(found, note=f"Cannot be run: {error}")
        return replace(found, metric=metric, efficiency_reduction=slower)

    return measure


def _price(
    plan: Plan, ask: Ask, family: Family, x: float, tested: Candidate | None
) -> tuple[float, float]:
    """The metric at a strength, and by how much rounds are slower.

    How much noise is added changes no bit and no second: where the family was tested, its rounds
    were timed. How much is kept changes both.
    """
    pricing, protection = plan.at_most(_SEEDS), family.protection(x)
    mechanism = family.mechanism
    if tested is None or tested.costs is None or (mechanism is not None and mechanism.thins):
        costs, _ = pricing.price(ask, protection)
        return costs.protected_metric, costs.efficiency_reduction.value
    return pricing.metric(ask, protection), tested.costs.efficiency_reduction.value
