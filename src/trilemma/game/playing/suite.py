"""Which attacks a knowledge holds, and which of them leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trilemma.attacks import Analytic, Dager, KnowledgeLevel, Linkage, Tokens, get
from trilemma.attacks.base import KNOWLEDGE_LEVELS, links
from trilemma.errors import InvalidInput
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.scenario import Scenario
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection

__all__ = ["Suite", "leading", "suite_of", "why_not"]

_ATTACKS: Final[dict[KnowledgeLevel, tuple[str, ...]]] = {
    "nothing": ("dlg", "inverting-gradients", "idlg", "analytic"),
    "public": ("map", "linkage"),
    "candidates": ("gaussian-posterior",),
    "rest": ("exact-posterior",),
}
_TABLE: Final[dict[KnowledgeLevel, tuple[str, ...]]] = {
    **_ATTACKS,
    "nothing": ("tableak", "analytic"),
}
_TEXT: Final[dict[KnowledgeLevel, tuple[str, ...]]] = {
    **_ATTACKS,
    "nothing": ("dager", "tokens"),
    "public": (),
}
_WHOLE: Final = ("dlg", "idlg", "inverting-gradients", "map", "tableak")
_SEARCHING: Final = ("analytic", "linkage", *_WHOLE)
_BEHIND: Final = 2  # unknown numbers for each that is read, above which no search is tried


@dataclass(frozen=True)
class Suite:
    """The attacks of some knowledge, each of which must pass its own test; the first one leads.

    The leading attack makes use of all that the knowledge knows: strengths are searched with it,
    and the others, of which one may be stronger here and there, are tested where it passes. Those
    that are `lost` in the sum of a cohort, where they would search far more numbers than are read,
    are not tried on sums.
    """

    knows: KnowledgeLevel
    attacks: tuple[str, ...]
    lost: frozenset[str] = frozenset()

    @property
    def lead(self) -> str:
        """The attack with which strengths are searched."""
        return self.attacks[0]

    def on(self, seen: str) -> tuple[str, ...]:
        """The attacks that are tried where a "message" or a "sum" is seen."""
        return tuple(name for name in self.attacks if seen != "sum" or name not in self.lost)


def suite_of(
    scenario: Scenario,
    knows: KnowledgeLevel,
    asked: Sequence[str] | None = None,
    *,
    rounds: int = 1,
) -> Suite:
    """The attacks of some knowledge and of all below it on so many rounds, or those asked for.

    With every other record known, the exact posterior is optimal in expectation for Gaussian
    noise, so nothing else is run on that knowledge.
    """
    if asked is not None:
        return _asked(scenario, knows, asked)
    attacks = _by_knowledge(scenario, rounds)
    if knows == "rest":
        return Suite(knows, attacks[knows])
    below = [
        name
        for item in KNOWLEDGE_LEVELS[: KNOWLEDGE_LEVELS.index(knows) + 1]
        for name in attacks[item]
    ]
    order = sorted(below, key=lambda name: -KNOWLEDGE_LEVELS.index(get(name).knows))
    able = [name for name in order if why_not(scenario, name) is None]
    if not able:
        raise InvalidInput(
            f"no attack of an attacker who knows {knows!r} applies to this scenario "
            f"({why_not(scenario, order[0])}); use knows='candidates'."
        )
    lost = (name for name in able[1:] if _hopeless(scenario, name, scenario.per_round))
    return Suite(knows, tuple(able), frozenset(lost))


def leading(scenario: Scenario, knows: KnowledgeLevel, rounds: int) -> Suite | None:
    """The attack that leads, alone: for estimates; None where none of its own applies."""
    own = [
        name for name in _by_knowledge(scenario, rounds)[knows] if why_not(scenario, name) is None
    ]
    return Suite(knows, tuple(own[:1])) if own else None


def why_not(scenario: Scenario, name: str) -> str | None:
    """Why an attack does not apply to a scenario, and what is measured instead; None: it does."""
    return (
        _records_against(scenario, name)
        or _model_against(scenario, name)
        or _layer_missing(scenario, name)
    )


def _records_against(scenario: Scenario, name: str) -> str | None:
    """Why an attack cannot search these records, or their labels."""
    if name in _SEARCHING and scenario.input_spec.discrete:
        return (
            f"{name} searches over real numbers, but an embedding looks these inputs up: the "
            f"updates of the candidates are compared instead"
        )
    if name not in (*_WHOLE, "linkage"):
        return None
    if scenario.whole_labels:
        return (
            f"{name} weighs all classes that a record may have, but these have a label for each "
            f"of their parts: attacks that compare the updates of candidates are run instead"
        )
    if scenario.unlabelled:
        return (
            f"{name} searches a record and its label apart, but these records are their own "
            f"labels: attacks that compare the updates of candidates are run instead"
        )
    if scenario.foreign_labels:
        shape = tuple(scenario.records[0].labels.shape[1:])
        return (
            f"{name} searches labels of the shape that the model returns, but these have "
            f"{shape} a record: attacks that compare the updates of candidates are run instead"
        )
    return None


def _model_against(scenario: Scenario, name: str) -> str | None:
    """Why an attack cannot follow updates of this model."""
    task, size = scenario.task, scenario.task.layout.size
    if name in _WHOLE and task.way.once:
        return (
            f"{name} searches by the derivative of an update in its inputs, which this model does "
            f"not have ({task.way.once}): attacks that compare updates are run instead"
        )
    if name in ("linkage", "map") and task.normalises_batches:
        return (
            f"{name} reads classes off single records' updates, but BatchNorm makes each depend "
            f"on its batch: attacks that simulate the batch are run instead"
        )
    if name == "linkage" and not Linkage.applies(task):
        return (
            f"{name} holds whole updates of many public records at once, too much for {size:,} "
            f"parameters each: attacks that read one message after the other are run instead"
        )
    if _hopeless(scenario, name, 1):
        numbers = scenario.local_training.unit_size * scenario.input_spec.size
        return (
            f"{name} searches all records of a message at once, here {numbers} numbers behind "
            f"{size}: attacks that seek one record alone are run instead"
        )
    return None


def _layer_missing(scenario: Scenario, name: str) -> str | None:
    """What an attack reads records off, where this model or its records have none of that."""
    spec, task, model = scenario.input_spec, scenario.task, type(scenario.model).__name__
    if name == "analytic" and not analytic_applies(scenario):
        return (
            f"the analytic attack needs a model that starts with a trained linear layer with "
            f"bias, which this {model} does not"
        )
    if name == "tableak" and not spec.columns:
        return f"{name} needs a table's columns, but inputs of shape {spec.shape} have none"
    if name == "dager" and not Dager.applies(task, spec, scenario.local_training.unit_size):
        return (
            f"{name} reads texts off the gradient of a layer behind the embedding that is wider "
            f"than a batch has tokens, which this {model} has not"
        )
    if name == "tokens" and not Tokens.applies(task, spec):
        return (
            f"{name} reads the rows of an embedding that is trained and does nothing but look "
            f"tokens up, which this {model} has not"
        )
    return None


def _hopeless(scenario: Scenario, name: str, clients: int) -> bool:
    """Whether an attack would search many more numbers than updates of so many clients tell."""
    numbers = clients * scenario.local_training.unit_size * scenario.input_spec.size
    return name in _WHOLE and numbers > _BEHIND * scenario.task.layout.size


def _by_knowledge(scenario: Scenario, rounds: int) -> Mapping[KnowledgeLevel, tuple[str, ...]]:
    """The attacks of each knowledge, the strongest first: over rounds, those that link them."""
    spec = scenario.input_spec
    attacks = _TEXT if spec.discrete else _TABLE if spec.columns else _ATTACKS
    if rounds == 1:
        return attacks
    return {
        knows: tuple(sorted(names, key=lambda name: not links(get(name))))
        for knows, names in attacks.items()
    }


def _asked(scenario: Scenario, knows: KnowledgeLevel, asked: Sequence[str]) -> Suite:
    if not asked:
        raise InvalidInput("give at least one attack, or leave attacks out for the default ones.")
    for name in dict.fromkeys(asked):
        needed = get(name).knows
        if KNOWLEDGE_LEVELS.index(needed) > KNOWLEDGE_LEVELS.index(knows):
            raise InvalidInput(
                f"the attack {name!r} needs the knowledge {needed!r}, but the attacker is said "
                "to know "
                f"{knows!r}; use knows={needed!r}, or leave it out."
            )
        if (reason := why_not(scenario, name)) is not None:
            raise InvalidInput(f"{reason}; leave {name!r} out.")
    return Suite(knows, tuple(dict.fromkeys(asked)))


@lru_cache(maxsize=4)
def analytic_applies(scenario: Scenario) -> bool:
    """Whether the model starts with a linear layer that can be inverted."""
    arena = Arena.of(scenario, rounds=1)
    seen = Observer(arena, Protection(), Adversary.SERVER, "nothing", 0, steps=0)
    return Analytic().applies(seen.views([arena.draw(0, 0)])[0][0])
