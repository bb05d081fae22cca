"""Certified candidates: proved for anyone, and priced by trainings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilemma.game.estimates import Estimate
from trilemma.observations import Adversary
from trilemma.tuning.families.pricing import priced
from trilemma.tuning.proof.certify import certify
from trilemma.tuning.proof.noise_for_budget import Proof, helpers_of
from trilemma.tuning.results.candidate import Candidate

if TYPE_CHECKING:
    from trilemma.execution.scheduler import Procedure
    from trilemma.tuning.families.family import Family
    from trilemma.tuning.plan import Plan

__all__ = ["certified_candidate"]

_HELPED: Final = (
    "One client that helps the server holds the key and opens every single update, so that noise "
    "shared by the clients hides nobody; use secret sharing or randomization alone, or exclude "
    "helpers (helpers = 0)."
)


def certified_candidate(plan: Plan, family: Family) -> Procedure[Candidate]:
    """What is proved of a family, and what it costs."""
    server = plan.request.adversary is Adversary.SERVER
    if family.carrier == "paillier" and helpers_of(plan) and server:
        return Candidate(family.name, "certified", False, True, _HELPED)
    proof = Proof.of(plan, family.carrier)
    found = yield from certify(plan, proof)
    certificate, protection = found.certificate, proof.protection()
    candidate = Candidate(
        name=family.name,
        basis="certified",
        feasible=certificate.leakage <= plan.request.budget,
        deployable=True,
        statement=found.statement,
        rounds=certificate.rounds,
        protection=protection.describe(),
        symbol=family.symbol,
        strength=certificate.variance,
        leakage=Estimate(certificate.leakage, 0.0, certificate.leakage),
        certificate=certificate,
        deployment=proof.deployment(found.recipe),
    )
    recipe, own, best = (
        replace(value, judge="reporting")
        for value in (found.recipe, found.unprotected, found.best)
    )
    costs = priced(candidate, protection, plan.pricing, recipe=recipe, without=own, best=best)
    return (yield from costs)
