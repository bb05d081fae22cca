"""`trilemma check`: what will be attacked, what cannot be, and how long `tune` will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilemma import api
from trilemma.cli.common_options import JsonOption, print_json
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
    as_json: JsonOption = False,
    **flags: Any,
) -> None:
    """Say what `tune` would attack, what it cannot and why, and how long it would take here.

    Example: trilemma check my_hospital:make_scenario
    """
    given = {**flags, "scenario": scenario}
    federated, request, _ = read_settings(None, given, Federated, Request)
    found = api.check(federated.scenario, request, **federated.given())
    if as_json:
        print_json(found.as_json())
    else:
        _show(found, federated.scenario)


def _show(found: Examined, spec: str) -> None:
    from trilemma.reporting.words.knowledge_text import KNOWS, WHAT_IS_KNOWN
    from trilemma.reporting.words.numbers import count, hundred, number
    from trilemma.reporting.words.terminal import Printer
    from trilemma.reporting.words.way_text import how_it_runs
    from trilemma.tuning.choice.advice import weighed
    from trilemma.tuning.time_left import busy

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
        f"The messages of {over}, by one who knows {WHAT_IS_KNOWN[plan.request.knows]} "
        f"({KNOWS[plan.request.knows]}): which of {claim.candidates} records was used? A blind "
        f"guess is right in {hundred(claim.kappa)} cases; the budget of "
        f"{number(plan.request.budget)} allows {hundred(plan.p_max)}."
    )
    rows = []
    for attack in found.attacks:
        taken = "too long to be timed" if attack.seconds is None else f"{number(attack.seconds)} s"
        rows.append((attack.name, WHAT_IS_KNOWN[attack.knows], taken))
    out.table(("attack", "knows", "a game against one round"), rows, gap=2)
    names = ", ".join(family.name for family in plan.families)
    out.note(f"Protections to choose from: {names}.")
    out.title("What is done with your model")
    out.bullets(
        (*plan.scenario.remarks, *weighed(plan.scenario), how_it_runs(plan.scenario.task.way))
    )
    if found.left_out:
        out.title("What is not possible here")
        out.bullets(f"{what}: {why}" for what, why in found.left_out)
    out.title("How long it takes on this machine (an estimate, from a few timed games)")
    for name in found.work:
        one, two = (found.seconds(name, workers) for workers in (1, 2))
        held_up = busy(one, found.wall, found.cpu)
        first = ""
        if name in found.answers:
            until = found.seconds(name, answer=True).said
            first = f" What is proved is told after {until} of it."
        out.note(
            f"trilemma {name}: {one.said} in one process, {two.said} with --workers 2, of CPU "
            f"time{held_up}.{first}"
        )
    if (minutes := plan.request.minutes) is not None:
        out.note(
            f"Once there is an answer, attacks end {minutes:g} minutes after the start "
            "(--minutes)."
        )
