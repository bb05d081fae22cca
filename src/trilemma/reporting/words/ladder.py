"""The ladder in words: what each family needs against each attacker, and the next rung's price."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from trilemma.reporting.words.answer import metric_name
from trilemma.reporting.words.numbers import metric, number, slower
from trilemma.reporting.words.protections import family, strength, tuned
from trilemma.tuning.families.families import FAMILIES
from trilemma.tuning.request import KNOWLEDGE

if TYPE_CHECKING:
    from trilemma.estimation.leakage import Estimate
    from trilemma.tuning.request import Knows
    from trilemma.tuning.results.candidates import Candidate
    from trilemma.tuning.results.verdict import Rung, Verdict

__all__ = ["KNOWS", "RUNGS", "Ladder", "Step", "ladder", "next_rung"]

Mark = Literal["tested", "one round", "proved", "estimate", "fails", "key", "beyond a cap", "none"]

RUNGS: Final[dict[Knows, str]] = {
    "nothing": "nothing",
    "public": "public records",
    "candidates": "the candidates",
    "rest": "the rest",
    "anyone": "anyone",
}
KNOWS: Final[dict[Knows, str]] = {
    "nothing": "the model, the protocol and the messages",
    "public": "besides, records of the same kind that belong to no client",
    "candidates": "besides, the line-up itself",
    "rest": "besides, every other record of every client, and which of them each round used",
    "anyone": "whatever there is to know: no attack, a proof",
}
_MARKS: Final[dict[Mark, str]] = {
    "tested": "tested",
    "one round": "estimated for one round only",
    "proved": "proved",
    "estimate": "estimate",
    "fails": "fails",
    "key": "rests on the key",
    "beyond a cap": "passes, but not chosen",
    "none": "not computed",
}
_NO_PROOF: Final = "Without noise nothing can be proved."
_NOT_ASKED: Final = "A proof was not asked for: trilemma tune --knows anyone."


@dataclass(frozen=True)
class Step:
    """One family on one rung; `note` says why where there is nothing to show.

    `once`: measured for one round only, where the claim is about a whole training.
    """

    knows: Knows
    family: str
    mark: Mark
    strength: str
    leakage: Estimate | None
    metric: float | None
    reduction: float | None
    once: bool = False
    note: str = ""
    value: float | None = None

    @property
    def marked(self) -> str:
        """What the numbers are, in words."""
        only = ", one round only" if self.once and self.mark in ("estimate", "fails") else ""
        return f"{_MARKS[self.mark]}{only}"

    @property
    def holds(self) -> bool:
        """Whether it keeps the budget there at a known price, by test, proof, key or estimate."""
        able = self.mark in ("tested", "proved", "key", "estimate") and not self.once
        return able and self.metric is not None


@dataclass(frozen=True)
class Ladder:
    """All steps, rung by rung from the least knowledge up, and in each the same families."""

    rungs: tuple[Knows, ...]
    families: tuple[str, ...]
    steps: tuple[Step, ...]
    metric: str

    def at(self, knows: Knows, name: str) -> Step:
        return next(each for each in self.steps if (each.knows, each.family) == (knows, name))

    def on(self, knows: Knows) -> tuple[Step, ...]:
        return tuple(each for each in self.steps if each.knows == knows)


def ladder(verdict: Verdict) -> Ladder | None:
    """The verdict's ladder without a gap; None where no two rungs of it were looked at."""
    measured = {each.knows for each in verdict.ladder}
    if len(measured) < 2:
        return None
    found = {(each.knows, each.family): each for each in verdict.ladder}
    candidates = {each.name: each for each in verdict.candidates}
    names = {each.family for each in verdict.ladder}
    families = (*(n for n in FAMILIES if n in names), *sorted(names - set(FAMILIES)))
    rungs = tuple(each for each in KNOWLEDGE if each in measured or each == "anyone")
    steps = []
    for knows in rungs:
        for name in families:
            rung, candidate = found.get((knows, name)), candidates.get(name)
            if rung is None:
                steps.append(_missing(knows, name, candidate))
            else:
                steps.append(_step(rung, verdict))
    shown = metric_name(each.metric for each in verdict.ladder)
    return Ladder(rungs, families, tuple(steps), shown)


def next_rung(verdict: Verdict) -> str:
    """The price of the next rung, in a sentence; where nothing holds, of one that can be held."""
    made, chosen = ladder(verdict), verdict.choice
    if made is None:
        return ""
    here = KNOWLEDGE.index(verdict.request.knows)
    if chosen is None:
        for knows in reversed([each for each in made.rungs if KNOWLEDGE.index(each) < here]):
            if best := _cheapest(made, knows):
                return f"Lower on the ladder, against {_attacker(knows)}: {_price(best, made)}."
        return ""
    if chosen.name not in made.families:
        return ""
    own = made.at(verdict.request.knows, chosen.name)
    for knows in (each for each in made.rungs if KNOWLEDGE.index(each) > here):
        steps = [made.at(knows, chosen.name)]
        if not steps[0].holds:
            steps = [each for each in (_cheapest(made, knows),) if each is not None]
        elif steps[0].mark == "key":
            return f"Against {_attacker(knows)} it rests on the key as well."
        for step in steps:
            said = f"One rung up, against {_attacker(knows)}"
            if step.family == own.family and not _stronger(step, own):
                return f"{said}: by an estimate, {own.strength} is enough there too."
            than = f"instead of {own.strength} and {metric(own.metric, made.metric)}"
            return f"{said}: {_price(step, made)}, {than}."
        if any(each.mark != "none" for each in made.on(knows)):
            return f"One rung up, against {_attacker(knows)}, nothing that was tried is enough."
    return ""


def _attacker(knows: Knows) -> str:
    return {
        "nothing": "an attacker that knows only the model and the messages",
        "public": "an attacker that owns public records",
        "candidates": "an attacker that has the list of candidates",
        "rest": "an attacker that knows every other record",
        "anyone": "anyone",
    }[knows]


def _stronger(step: Step, own: Step) -> bool:
    """Whether more is needed; of what thins, less is more."""
    if step.value is None or own.value is None:
        return step.value is not None
    if "% kept" in step.strength:
        return step.value < own.value
    return step.value > own.value


def _price(step: Step, made: Ladder) -> str:
    sure = {"estimate": " (an estimate)", "proved": " (proved)"}.get(step.mark, "")
    return (
        f"{family(step.family)} at {step.strength}, {made.metric} "
        f"{metric(step.metric, made.metric)}, rounds {slower(step.reduction)} as long{sure}"
    )


def _cheapest(made: Ladder, knows: Knows) -> Step | None:
    able = [each for each in made.on(knows) if each.holds and each.mark != "key"]
    return max(able, key=lambda each: each.metric or 0.0, default=None)


def _step(rung: Rung, verdict: Verdict) -> Step:
    made = Step(
        rung.knows,
        rung.family,
        "estimate",
        strength(rung.family, rung.strength),
        rung.leakage,
        rung.metric,
        rung.efficiency_reduction,
        rung.rounds < verdict.claim.rounds,
        rung.note,
        rung.strength,
    )
    if rung.leakage is None and rung.metric is not None:
        return replace(made, mark="key", note="")
    if rung.counted:
        return replace(made, mark="proved")
    if rung.knows != verdict.request.knows:
        return _estimated(made, rung, verdict.request.budget)
    if rung.tested:
        return replace(made, mark="proved" if rung.knows == "anyone" else "tested", note="")
    if rung.leakage is None:
        return replace(made, mark="fails", strength="none found")
    if made.once:
        return replace(made, mark="one round", note="")
    return replace(made, mark="beyond a cap")


def _estimated(made: Step, rung: Rung, budget: float) -> Step:
    """A strength is chosen so as to meet the budget; what has none meets it or does not."""
    if rung.leakage is None:
        return replace(made, mark="none", strength="–")
    fixed = not tuned(rung.family)
    least = rung.leakage.value if fixed else rung.leakage.low
    if least <= budget:
        return made
    note = f"It leaks more than {number(budget)}."
    return replace(made, mark="fails", note=f"{note} {made.note}".strip())


def _missing(knows: Knows, name: str, candidate: Candidate | None) -> Step:
    blank = Step(knows, name, "none", "–", None, None, None)
    if knows != "anyone":
        return replace(blank, note="It was not measured on this rung.")
    if candidate is not None and candidate.basis == "cryptographic":
        return replace(blank, mark="key", note="No proof can say more than the key does.")
    if candidate is None or candidate.certificate is None:
        noisy = "randomization" in name
        return replace(blank, note=_NOT_ASKED if noisy else _NO_PROOF)
    proof, costs = candidate.certificate, candidate.costs
    return replace(
        blank,
        mark="proved",
        strength=strength(name, proof.variance),
        value=proof.variance,
        metric=None if costs is None else costs.protected_metric,
        reduction=None if costs is None else costs.efficiency_reduction.value,
        note=f"Leakage at most {number(proof.leakage)} at every N.",
    )
