"""The choice: every family measured, and the best of those that keep the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from trilemma.protections.specs import in_words
from trilemma.tuning.choosing.procedures import procedures
from trilemma.tuning.families.pricing import ranked
from trilemma.tuning.results.candidates import Candidate

if TYPE_CHECKING:
    from trilemma.tuning.families.counts import Counts
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.results.promises import Promise, SurrogateConstants
    from trilemma.work.replay import Procedure, Then

__all__ = ["Choice", "Done", "choose"]

After = Callable[[Sequence[Candidate]], Mapping[str, "Procedure"]]
"""The procedures that follow on some candidates, whatever else is measured."""


class Done(Protocol):
    """Does procedures by name, and gives their results by the same names.

    It may begin with what comes `then`.
    """

    def __call__(
        self, procedures: Mapping[str, Procedure], /, *, then: Then | None = None
    ) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Choice:
    """What was found: the candidates in their order, and the control of every attack.

    `constants` and `promises` are the paper's, where its closed forms were asked for.
    """

    candidates: tuple[Candidate, ...]
    control: Counts
    constants: SurrogateConstants | None
    promises: tuple[Promise, ...]

    @property
    def chosen(self) -> Candidate | None:
        """The best, None where nothing keeps the budget."""
        return next((each for each in self.candidates if each.rank == 1), None)

    @property
    def answer(self) -> str:
        """What is known before all that stands beside it is measured."""
        found = "nothing was shown to keep the budget"
        if self.chosen is not None:
            what = in_words(self.chosen.protection or "none")
            needed = self.chosen.protection not in (None, "none")
            found = f"use {what}" if needed else f"{what} keep the budget"
        return f"the answer: {found}; what stands beside it follows"


def choose(plan: Plan, done: Done, then: After | None = None) -> Choice:
    """Measure every family of the plan, and rank them.

    `then` says what follows, whatever will be chosen, on the candidates measured so far.
    """

    def follows(found: Mapping[str, Any]) -> Mapping[str, Procedure]:
        so_far = [each for each in found.values() if isinstance(each, Candidate)]
        return {} if then is None else then(so_far)

    found = done(procedures(plan), then=follows)
    constants, promises = found.pop("promises", (None, ()))
    control = found.pop("control")
    return Choice(ranked(list(found.values())), control, constants, promises)
