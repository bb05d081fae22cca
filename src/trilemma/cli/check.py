"""`trilemma check`: what will be attacked, what cannot be, and how long `tune` will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilemma import api
from trilemma.cli.configuration import Running, read_settings, with_flags
from trilemma.settings import Federated
from trilemma.tuning.request import Request

if TYPE_CHECKING:
    from trilemma.tuning.check_report import Examined

__all__ = ["check"]


@with_flags(Federated, Request, leave_out=("scenario", *Running.model_fields))
def check(
    scenario: Annotated[
        str | None,
        typer.Argument(help="A ready-made scenario, or module:function [as in trilemma.toml]."),
    ] = None,
    **flags: Any,
) -> None:
    """Say what `tune` would attack, what it cannot and why, and how long it would take here.

    Example: trilemma check my_hospital:make_scenario
    """
    given = {**flags, "scenario": scenario}
    federated, request, _ = read_settings(None, given, Federated, Request)
    found = api.check(federated.scenario, request, **federated.given())
    _show(found, federated.scenario)


def _show(found: Examined, spec: str) -> None:
    from trilemma.reporting.words.knowledge_text import KNOWS, RUNGS
    from trilemma.reporting.words.numbers import count, hundred, number
    from trilemma.reporting.words.terminal import Printer
    from trilemma.reporting.words.way_text import how_it_runs

    plan, out = found.plan, Printer()
    there, claim, training = plan.federation, plan.claim, plan.scenario.local_training
    out.text(
        f"{spec} can be tuned: {there.scenario}, {count(there.clients, 'client')} with "
        f"{count(there.records, 'record')}, {count(there.records_per_update, 'record')} an update "
        f"({training.algorithm}), a model of {count(there.parameters, 'parameter')}."
    )
    out.title("What will be attacked")
    over = "one round" if claim.rounds == 1 else f"a training of {claim.rounds} rounds"
    out.note(
        f"The messages of {over}, by one who knows {RUNGS[plan.request.knows]} "
        f"({KNOWS[plan.request.knows]}): which of {claim.candidates} records was used? A blind "
        f"guess is right in {hundred(claim.kappa)} cases; the budget of "
        f"{number(plan.request.budget)} allows {hundred(plan.p_max)}."
    )
    rows = []
    for each in found.attacks:
        taken = "too long to be timed" if each.seconds is None else f"{number(each.seconds)} s"
        rows.append((each.name, RUNGS[each.rung], taken))
    out.table(("attack", "knows", "a game against one round"), rows, gap=2)
    names = ", ".join(each.name for each in plan.families)
    out.note(f"Protections to choose from: {names}.")
    out.title("What is done with your model")
    out.bullets((*plan.scenario.remarks, how_it_runs(plan.scenario.task.way)))
    if found.left_out:
        out.title("What is not possible here")
        out.bullets(f"{what}: {why}" for what, why in found.left_out)
    out.title("How long it takes on this machine (an estimate, from a few timed games)")
    for name in found.work:
        one, two = (found.seconds(name, workers).said for workers in (1, 2))
        out.note(f"trilemma {name}: {one} in one process, {two} with --workers 2.")
