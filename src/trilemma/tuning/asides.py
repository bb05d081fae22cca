"""What is measured once something is chosen: beside it, the ladder, curves, rounds, beliefs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilemma.tuning.choosing.beside import procedures_beside
from trilemma.tuning.choosing.ladder import tested_rungs
from trilemma.tuning.choosing.shown import shown_procedures
from trilemma.tuning.estimates import certain_estimates, estimate_procedures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilemma.tuning.choosing.choice import Choice, Done
    from trilemma.tuning.plan import Plan
    from trilemma.work.replay import Procedure

__all__ = ["certain_estimates", "measure_asides"]


def measure_asides(
    plan: Plan, choice: Choice, done: Done, along: Mapping[str, Procedure] | None = None
) -> dict[str, Any]:
    """The verdict's fields beside, ladder, curves, rounds and beliefs, a tuple each.

    Procedures that go `along` are done at the same time, for whoever asks for them later.
    """
    chosen, measured = choice.chosen, plan.request.basis == "measured"
    groups = {"beside": procedures_beside(plan, chosen)}
    groups |= estimate_procedures(plan, choice.candidates)
    shown = shown_procedures(plan, chosen) if chosen is not None and measured else {}
    every = (*groups.values(), shown, along or {})
    found = done({name: each for some in every for name, each in some.items()})
    made = {field: tuple(found[name] for name in some) for field, some in groups.items()}
    if measured:
        tested = tested_rungs(plan, {each.name: each for each in choice.candidates})
        made["ladder"] = (*tested, *made["ladder"])
    return made | {field: found.get(field, ()) for field in ("rounds", "beliefs")}
