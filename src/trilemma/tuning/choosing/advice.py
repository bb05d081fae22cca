"""Sentences for the reader: what a verdict does not cover, and what helps where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from trilemma.observations import Adversary

if TYPE_CHECKING:
    from trilemma.estimation.suite import Suite
    from trilemma.tuning.choosing.families import Setting
    from trilemma.tuning.problem import Problem
    from trilemma.tuning.results.verdict import Candidate

__all__ = ["advice", "limits"]

_LIMITS: Final = (
    "One round: an adversary that combines the updates of several rounds may learn more.",
    "Honest but curious: whoever deviates from the protocol is not covered.",
)
_COMBINED: Final = "randomization+secret-sharing"


def limits(chosen: Candidate | None, suite: Suite, adversary: Adversary) -> tuple[str, ...]:
    """What the verdict does not cover, which a reader must know before anything else."""
    sentences = list(_LIMITS)
    if chosen is None or chosen.basis in ("measured", "surrogate"):
        sentences.append(
            f"These attackers only ({', '.join(suite.binding)}, with the effort stated): a better "
            f"one, or one that knows more of the data, may recover more."
        )
        sentences.append(
            "An average over records, clients, models and draws: single records may leak more."
        )
    if chosen is not None and chosen.basis == "certified":
        sentences[0] = "Only the rounds that the certificate counts."
        if chosen.certificate is not None and chosen.certificate.clip_rule != "stated":
            sentences.append(
                "The clip norm was chosen from the clients' data: what it tells of them, once "
                "published, is not counted."
            )
    sentences.append(
        "The server is the adversary: what a curious client gets is shown beside it."
        if adversary is Adversary.SERVER
        else "A curious client is the adversary: what the server gets is shown beside it."
    )
    return tuple(sentences)


def advice(
    candidates: Sequence[Candidate], problem: Problem, setting: Setting, adversary: Adversary
) -> str:
    """Where nothing keeps the budget: the smallest leakage reached, and what would help."""
    reached = [each for each in candidates if each.smallest_leakage is not None]
    able = [each for each in candidates if each.feasible and each.deployable]
    capped = [each for each in candidates if not each.feasible and each.costs is not None]
    if all(each.basis == "surrogate" for each in candidates):
        return "The paper's optimum does not keep its promise here; tune with --basis measured."
    if capped and not able:
        return "Some protections keep the budget but not the caps; raise a cap, or the budget."
    tried = {each.name for each in candidates}
    ways = ["more clients"] if setting.clients < 20 else []
    ways += ["larger batches"]
    if _COMBINED not in tried and setting.clients > 1:
        ways += [f"a combined protection such as {_COMBINED}"]
    if adversary is Adversary.SERVER and "paillier" not in tried and setting.clients > 1:
        ways += ["paillier, whose server reads nothing"]
    helps = f"{', '.join(ways)} or a larger budget"
    if not reached:
        return f"Nothing was measured below the budget of {problem.budget:g}; try {helps}."
    best = min(reached, key=lambda each: each.smallest_leakage or 0.0)
    return (
        f"The smallest upper limit of the leakage reached is {best.smallest_leakage:.3g}, by "
        f"{best.name}; what would help: {helps}."
    )
