"""What the sections of a verdict's page show, and the data that its plots draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.tunable import Tunable
from trilemma.reporting.page.explorer import Explorer, Preference
from trilemma.reporting.page.gallery_rows import boards
from trilemma.reporting.page.glossary import GLOSSARY
from trilemma.reporting.page.panels import bare_panels, front_places, verdict_panels
from trilemma.reporting.page.rounds_plot import rounds_series
from trilemma.reporting.page.settings_rows import (
    deployment_rows,
    federation_rows,
    request_rows,
    verdict_rows,
)
from trilemma.reporting.page.trade_off_plot import trade_off_plot, trade_off_words
from trilemma.reporting.words.answer import (
    answer,
    cost_facts,
    earlier_tests,
    final_tests,
    metric_name,
    not_needed,
    verdict_metric,
)
from trilemma.reporting.words.budgets import OTHERS
from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
from trilemma.reporting.words.numbers import hundred
from trilemma.reporting.words.proof_text import not_proved, proved
from trilemma.reporting.words.protection_text import family, phrase
from trilemma.reporting.words.trade_off_text import ATTACKERS
from trilemma.tuning.problem import Problem

if TYPE_CHECKING:
    from trilemma.reporting.page.gallery_rows import Board
    from trilemma.reporting.page.panels import Panel
    from trilemma.tuning.results.gallery import Gallery
    from trilemma.tuning.results.pareto_front import Front
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["front_context", "front_data", "verdict_context", "verdict_data"]


def verdict_explorer(verdict: Verdict) -> Explorer:
    """The explorer of a verdict's curves, which starts at its own budget and weights."""
    problem = verdict.request.problem
    own = Preference.of(problem)
    return Explorer(
        verdict.curves,
        verdict.claim,
        start=own,
        verdict=own,
        max_utility_loss=problem.max_utility_loss,
        max_cost=problem.max_cost,
        once=frozenset(
            candidate.name
            for candidate in verdict.candidates
            if candidate.rounds < verdict.claim.rounds
        ),
    )


def front_explorer(front: Front) -> Explorer:
    """The explorer of a front, which starts at the default weights; what thins is barred.

    It is measured for one round, where the claim is on a training.
    """
    thinned = {point.family for point in front.points if _thins(point.protection)}
    return Explorer(
        front.points,
        front.claim,
        start=Preference.of(Problem()),
        once=frozenset(thinned if front.claim.rounds > 1 else ()),
    )


def _thins(protection: str | None) -> bool:
    """Whether coordinates are left out."""
    parts = parse_protection(protection or "none").transforms
    return any(isinstance(part, Tunable) and part.thins for part in parts)


def verdict_context(verdict: Verdict, gallery: Gallery | None) -> dict[str, Any]:
    """What the templates of a verdict lay out."""
    chosen, drawn = verdict.choice, verdict.figure
    return {
        "verdict": verdict,
        "answer": answer(verdict),
        "tests": () if chosen is None else final_tests(chosen),
        "failed": "" if chosen is None else earlier_tests(chosen),
        "unprotected": {attack.name: attack for attack in verdict.attacks},
        "knowledge_levels": WHAT_IS_KNOWN,
        "trade_off": drawn and trade_off_plot(drawn),
        "trade_off_words": drawn and trade_off_words(drawn),
        "crossed": drawn is not None and any(point.crossed for point in drawn.points),
        "attackers": ATTACKERS,
        "basis": {"measured": "tested", "certified": "proved", "cryptographic": "by a key"},
        "costs": tuple(cost_facts(verdict)),
        "rounds": rounds_series(verdict.rounds),
        "not_proved": not_proved(verdict),
        "certificates": proved(verdict.candidates),
        "boards": _boards(verdict, gallery),
        "explorer": verdict_explorer(verdict) if verdict.curves else None,
        "panels": verdict_panels(verdict),
        "metric_name": verdict_metric(verdict),
        "spare": {
            candidate.name: not_needed(verdict, candidate) for candidate in verdict.candidates
        },
        "asked": verdict_rows(verdict),
        "federation": federation_rows(verdict),
        "deployment": deployment_rows(verdict.deployment),
        "glossary": GLOSSARY,
        "others": OTHERS,
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """What the scripts of a verdict's page draw and compute with."""
    first = answer(verdict)
    return {
        "document": verdict.as_json(),
        **_curves(verdict_explorer(verdict), verdict_panels(verdict)),
        "front": {
            "places": front_places(verdict.curves),
            "knee": None,
            "verdict": _place(verdict),
        },
        "own": {"headline": dict(first.facts).get("protection", ""), "proof": first.badge},
        "metric": verdict_metric(verdict),
        "trade_off": verdict.figure and asdict(trade_off_plot(verdict.figure)),
        "rounds": {
            "budget": verdict.request.budget,
            "series": [asdict(item) for item in rounds_series(verdict.rounds)],
        },
    }


def front_context(front: Front) -> dict[str, Any]:
    """What the templates of a front lay out."""
    return {
        "front": front,
        "explorer": front_explorer(front),
        "panels": bare_panels(front.points),
        "metric_name": metric_name(
            (point.metric for point in front.points), front.federation.metric
        ),
        "asked": request_rows(front.request, front.claim, rounds=front.claim.rounds),
        "federation": federation_rows(front),
        "glossary": GLOSSARY,
        "others": OTHERS,
    }


def front_data(front: Front) -> dict[str, Any]:
    """What the scripts of a front's page draw and compute with."""
    context = front_context(front)
    return {
        "document": front.as_json(),
        **_curves(context["explorer"], context["panels"]),
        "front": {"places": front.front, "knee": front.knee, "verdict": None},
        "metric": context["metric_name"],
    }


def _boards(verdict: Verdict, gallery: Gallery | None) -> tuple[Board, ...]:
    if gallery is None or not verdict.show_records:
        return ()
    own_the_candidate_set = ("candidates", "rest")
    return boards(
        gallery,
        [attack.name for attack in verdict.attacks if attack.knows in own_the_candidate_set],
    )


def _curves(explorer: Explorer, panels: Sequence[Panel]) -> dict[str, Any]:
    stops = explorer.stops
    return {
        "explorer": {
            "start": asdict(explorer.start),
            "verdict": None if explorer.verdict is None else asdict(explorer.verdict),
            "max_utility_loss": explorer.max_utility_loss,
            "max_cost": explorer.max_cost,
            "barred": sorted(explorer.barred),
            "stops": stops,
            "allowed": [hundred(explorer.allowed(stop)) for stop in stops["budget"]],
            "phrases": [phrase(point.protection) for point in explorer.points],
        },
        "names": {point.family: family(point.family) for point in explorer.points},
        "panels": [{**asdict(panel), "ticks": panel.axis.ticks()} for panel in panels],
    }


def _place(verdict: Verdict) -> dict[str, float] | None:
    """Where the verdict lies beside the front; what only a key protects leaks 0."""
    chosen = verdict.choice
    if chosen is None or chosen.costs is None:
        return None
    leakage = 0.0 if chosen.leakage is None else chosen.leakage.value
    return {"leakage": leakage, "loss": chosen.costs.utility_loss.value}
