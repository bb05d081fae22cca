"""Which attacks a rung of the ladder holds, and which of them leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trilemma.attacks import Analytic, Rung, get
from trilemma.attacks.base import RUNGS
from trilemma.errors import InvalidInput
from trilemma.estimation.games import Arena
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.sights import Observer
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection

__all__ = ["Suite", "leading", "suite_of"]

_LADDER: Final[dict[Rung, tuple[str, ...]]] = {
    "nothing": ("dlg", "inverting-gradients", "idlg", "analytic"),
    "public": ("map",),
    "candidates": ("gaussian-posterior",),
    "rest": ("exact-posterior",),
}


@dataclass(frozen=True)
class Suite:
    """The attacks of a rung, each of which must pass its own test; the first one leads.

    The leading attack is the strongest that the rung's knowledge allows: strengths are searched
    with it, and the others are tested where it passes.
    """

    rung: Rung
    attacks: tuple[str, ...]

    @property
    def lead(self) -> str:
        """The attack with which strengths are searched."""
        return self.attacks[0]

    @property
    def others(self) -> tuple[str, ...]:
        """The attacks that are tested at the strength found."""
        return self.attacks[1:]


def suite_of(scenario: Scenario, rung: Rung, asked: Sequence[str] | None = None) -> Suite:
    """The attacks of a rung and of all below it, or those asked for.

    With every other record known, the exact posterior is optimal in expectation for Gaussian
    noise, so nothing else is run on that rung.
    """
    if asked is not None:
        return _asked(scenario, rung, asked)
    if rung == "rest":
        return Suite(rung, _LADDER[rung])
    below = [name for each in RUNGS[: RUNGS.index(rung) + 1] for name in _LADDER[each]]
    order = sorted(below, key=lambda name: -RUNGS.index(get(name).rung))
    able = [name for name in order if name != "analytic" or analytic_applies(scenario)]
    return Suite(rung, tuple(able))


def leading(rung: Rung) -> Suite:
    """The attack that leads a rung, alone: for estimates."""
    return Suite(rung, _LADDER[rung][:1])


def _asked(scenario: Scenario, rung: Rung, asked: Sequence[str]) -> Suite:
    if not asked:
        raise InvalidInput("give at least one attack, or leave attacks out for the default ones.")
    for name in dict.fromkeys(asked):
        needed = get(name).rung
        if RUNGS.index(needed) > RUNGS.index(rung):
            raise InvalidInput(
                f"the attack {name!r} needs the rung {needed!r}, but the attacker is said to know "
                f"{rung!r}; climb with knows={needed!r}, or leave it out."
            )
        if name == "analytic" and not analytic_applies(scenario):
            raise InvalidInput(
                "the analytic attack needs a model that starts with a linear layer with bias; "
                "leave it out."
            )
    return Suite(rung, tuple(dict.fromkeys(asked)))


def analytic_applies(scenario: Scenario) -> bool:
    """Whether the model starts with a linear layer that can be inverted."""
    arena = Arena.of(scenario, rounds=1)
    seen = Observer(arena, Protection(), Adversary.SERVER, "nothing", 0, steps=0)
    return Analytic().applies(seen.views([arena.draw(0, 0)])[0][0])
