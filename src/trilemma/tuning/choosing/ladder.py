"""The ladder: what each family would need on every rung, the chosen one tested, others estimated.

An estimate is where the leading attack of a rung is expected to reach p_max, from a few games; it
proves nothing, and shows what the next rung would cost. Rungs whose attacks reconstruct are
estimated for one round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.attacks.base import RUNGS
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
_WHOLE: Final = ("candidates", "rest")  # the others reconstruct, which takes far longer
_BARE_UNITS: Final = 16


def tested_rungs(plan: Plan, candidates: Mapping[str, Candidate]) -> tuple[Rung, ...]:
    """The chosen rung, as tested."""
    made = []
    for family in plan.families:
        found = candidates.get(family.name)
        if found is None or not family.deployable:
            continue
        made.append(_rung(plan.request.knows, found, tested=found.feasible))
    return tuple(made)


def _rung(knows: Knows, found: Candidate, *, tested: bool) -> Rung:
    return Rung(
        knows=knows,
        family=found.name,
        tested=tested,
        rounds=found.rounds,
        strength=found.strength,
        leakage=found.leakage,
        metric=None if found.costs is None else found.costs.protected_metric,
        efficiency_reduction=(
            None if found.costs is None else found.costs.efficiency_reduction.value
        ),
        note=found.statement,
    )


def ladder_procedures(plan: Plan, candidates: Sequence[Candidate]) -> dict[str, Procedure]:
    """One estimate for every family on every other measured rung that has attacks of its own.

    Where a family was shown to need no strength, it needs none against who knows less; where
    that was counted, none against anyone.
    """
    wanted: dict[str, Procedure] = {}
    counted = plan.setting.ceiling(plan.claim) <= plan.p_max
    own = len(RUNGS) if counted else RUNGS.index(plan.suite.rung)
    enough = {each.name: each for each in candidates if each.feasible and each.strength is None}
    for rung in RUNGS:
        if rung == plan.suite.rung or leading(plan.scenario, rung) is None:
            continue
        for family in plan.families:
            if family.deployable:
                shown = enough.get(family.name) if RUNGS.index(rung) < own else None
                wanted[f"{rung}: {family.name}"] = _estimate(plan, family, rung, shown)
    return wanted


def _estimate(plan: Plan, family: Family, rung: RungName, enough: Candidate | None) -> Procedure:
    """`enough`: the family as tested on a higher rung, where it needed no strength."""

    def measure(ask: Ask) -> Rung:
        if enough is not None and family.seen != "nothing":
            return replace(
                _rung(rung, enough, tested=False),
                note=f"Nothing is added at the rung {plan.suite.rung!r}, and so nothing here.",
            )
        gauge = plan.gauge(ask, rung=rung)
        whole = family.seen == "nothing" or (family.whole_training and rung in _WHOLE)
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
            costs, _ = plan.at_most(_SEEDS).price(ask, family.protection(x))
        except InvalidInput as error:
            return replace(found, note=f"Cannot be run: {error}")
        return replace(
            found,
            metric=costs.protected_metric,
            efficiency_reduction=costs.efficiency_reduction.value,
        )

    return measure
