"""Sentences for the reader: who is held off, what is not covered, what helps where nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.tuning.proof.bounds_by_rounds import refused_above
from trilemma.tuning.proof.proof_wording import proved_headline, proved_limits

if TYPE_CHECKING:
    from trilemma.game.playing.claims import Claim
    from trilemma.game.scenario import Scenario
    from trilemma.tuning.families.family_setting import Setting
    from trilemma.tuning.plan import Plan
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.verdict import RoundsPoint

__all__ = [
    "PROVISIONAL", "advice", "contradictions", "headline", "limits", "not_yet", "unlearnt",
    "untried", "weak", "weighed",
]  # fmt: skip

PROVISIONAL: Final = "Provisional:"
"""How a limit begins that says of a verdict that a better one follows."""

_KNOWS: Final = {
    "nothing": "knows only the model and the messages",
    "public": "owns public records of the same kind",
    "candidates": "holds the {n} candidates",
    "rest": "holds the {n} candidates and every other record of every client",
}
_SHOWN_AS: Final = {
    "beside": "attacks on what was chosen",
    "trade_off": "success against accuracy",
    "rounds": "leakage by rounds",
    "beliefs": "the paper's leakage",
    "curves": "curves",
    "gallery": "pictures",
    "baseline": "trainings without protection",
}
_COMBINED: Final = "randomization+secret-sharing"


def headline(request: Request, claim: Claim, p_max: float, chosen: Candidate | None = None) -> str:
    """Who is held off, over which rounds, out of how many candidates, and how often it is right.

    "A server that holds the 100 candidates and sees one round that used the record singles it
    out in at most 21 of 100 attempts; guessing gives 1. At 95 % confidence."
    """
    proof = None if chosen is None else chosen.certificate
    if proof is not None or request.knows == "anyone":
        spec = "none" if chosen is None else chosen.protection or "none"
        return proved_headline(proof, request, parse_protection(spec).transport.name)
    who = "A server" if request.adversary is Adversary.SERVER else "A curious client"
    knows = _KNOWS[request.knows].format(n=claim.candidates)
    if claim.rounds == 1:
        seen = " and sees one round that used the record"
    else:
        knowing = "knows" if claim.participation == "known" else "does not know"
        seen = f", sees all {claim.rounds:,} rounds and {knowing} which of them used the record"
    sure = f"at {100 * request.confidence:.0f} % confidence"
    quick = "A quick look, " if request.preset == "quick" else ""
    return (
        f"{who} that {knows}{seen} singles it out of {claim.candidates} records in at "
        f"most {100 * p_max:.0f} of 100 attempts; guessing gives {100 / claim.candidates:.2g}. "
        f"{quick}{sure if quick else sure.capitalize()}."
    )


def limits(plan: Plan, chosen: Candidate | None) -> tuple[str, ...]:
    """What the verdict does not cover, which a reader must know before anything else."""
    if chosen is not None and chosen.certificate is not None:
        transport = parse_protection(chosen.protection or "none").transport
        return proved_limits(chosen.certificate, transport.name, plan.request.adversary)
    sentences = []
    if plan.claim.rounds == 1:
        sentences.append("Several rounds. An attacker who combines their updates learns more.")
    sentences.append("Attackers who deviate from the protocol.")
    if chosen is None or chosen.basis == "measured":
        sentences += _of_measurement(plan)
    sentences += _apart(plan)
    if plan.claim.inserted:
        sentences.append(
            "The clients hold too few records for candidate sets of their own: the claim is about "
            "a record that was inserted in place of one of the client's."
        )
    if chosen is not None and chosen.protection is not None:
        whole = plan.deployment.parameters
        part = parse_protection(chosen.protection).timed_on(whole)
        if part < whole:
            sentences.append(
                f"Seconds and bits are those of {part:,} of the update's {whole:,} coordinates, "
                f"scaled to all: ciphertexts are alike."
            )
    if plan.request.basis == "proved" and plan.unprovable:
        sentences.append(f"Nothing is proved here: {plan.unprovable}")
    sentences += refused_above(plan, chosen)
    sentences.append(
        "A curious client. What it gets is shown beside what the server gets."
        if plan.request.adversary is Adversary.SERVER
        else "The server. What it gets is shown beside what a curious client gets."
    )
    return tuple(sentences)


def _of_measurement(plan: Plan) -> list[str]:
    """What games with some attackers cannot say."""
    tried = ", ".join(plan.suite.attacks)
    others = (
        f"Other attacks, and attackers who know more. Tried were {tried}; `--knows rest` "
        "measures who knows more, and `--knows anyone` proves."
    )
    sentences = [others]
    if lost := [name for name in plan.suite.attacks if name in plan.suite.lost]:
        sentences.append(
            f"Not tried on sums of {plan.scenario.per_round} clients, where they would search "
            f"more than twice as many numbers as are read: {', '.join(lost)}."
        )
    sentences.append(
        "Single records, which may leak more than the average over records and clients."
    )
    if plan.claim.rounds > 1:
        used = 100 * plan.setting.used(plan.claim.rounds)
        sentences.append(
            f"Records that the training leaves out. It uses {used:.2g} % of them, and the "
            f"rate is that of records that it uses."
        )
    return sentences


def weak(chosen: Candidate | None, won: Mapping[str, int], games: int) -> tuple[str, ...]:
    """That the attackers fail without protection, too, so that holding them off says little.

    `won` of so many unprotected rounds by each attack.
    """
    if chosen is None or chosen.basis != "measured" or not won:
        return ()
    best = max(won, key=lambda name: won[name])
    if 2 * won[best] >= games:
        return ()
    said = (
        f"Weak attackers: without any protection the best of them ({best}) is right in "
        f"{won[best]} of {games} single rounds, so that holding them off says little of better "
        f"ones; `--knows rest` asks one that no attacker with less knowledge beats."
    )
    return (said,)


def _apart(plan: Plan) -> list[str]:
    """Which clients hold too few records for a candidate set, and what to do about them."""
    return [
        f"Client {k} is set apart: with {plan.setting.records[k]} records it has too few for a "
        "candidate set of its own, and no game is about a record of it. In an update of few "
        "records each shows more: leave the client out, or let it send under secure aggregation "
        "only, or ask for a proof, which holds for it as for the others."
        for k in plan.claim.apart
    ]


def not_yet(
    plan: Plan, unfinished: Mapping[str, int], *, pending: bool = False
) -> tuple[str, ...]:
    """What was not finished when the minutes were over, and how far it got."""
    if pending:
        return (f"{PROVISIONAL} attacks on this answer are still under way, and follow.",)
    if not unfinished or plan.request.minutes is None:
        return ()
    names = ", ".join(
        f"{_SHOWN_AS.get(name, name)} ({games} games played)" for name, games in unfinished.items()
    )
    said = (
        f"After {plan.request.minutes:g} minutes attacks were ended. Not finished: {names}. The "
        f"same command goes on with them, for as long again."
    )
    return (said,)


def unlearnt(plan: Plan, chosen: Candidate | None) -> tuple[str, ...]:
    """That the unprotected model learnt nothing, so that nothing can be said of what is lost."""
    constant = plan.federation.baseline
    if chosen is None or chosen.costs is None or constant is None:
        return ()
    reached = chosen.costs.unprotected_metric
    if reached > constant:
        return ()
    said = (
        f"Nothing was learnt: without protection {plan.federation.metric} is {reached:.3g}, and "
        f"one constant answer for all records has {constant:.3g}, so that what a protection costs "
        f"is not known; train longer, with another step or model, and tune again."
    )
    return (said,)


def weighed(scenario: Scenario) -> tuple[str, ...]:
    """That records count alike where they are clipped, whatever the loss divides a batch by."""
    if not scenario.weighs_records:
        return ()
    said = (
        "The loss divides by what a whole batch holds, such as its tokens that are not padded. "
        "Where records are clipped one by one, as for a proof, each one's own loss is taken, "
        "divided by its own: all records count the same."
    )
    return (said,)


def untried(plan: Plan, won: Mapping[str, int], games: int) -> tuple[str, ...]:
    """Which attacks a quick look left out, after what each won of so many unprotected rounds."""
    idle = [name for name in plan.suite.attacks[1:] if not won.get(name, 1)]
    request = plan.request
    tests = not all(map(plan.proves, plan.families))
    if not idle or request.preset != "quick" or not tests:
        return ()
    said = (
        f"A quick look: what won none of {games} unprotected rounds was tested no further "
        f"({', '.join(idle)}); leave out --quick to try all."
    )
    return (said,)


def contradictions(points: Sequence[RoundsPoint]) -> tuple[str, ...]:
    """That limits cross which cannot, if they do: results that contradict one another."""
    crossed = sorted({point.rounds for point in points if point.crossed})
    if not crossed:
        return ()
    after = ", ".join(map(str, crossed))
    said = (
        f"Results contradict one another: after {after} rounds an attacker who knows less, or has "
        f"seen less, won more than one who knows more, or more than is proved, beyond what chance "
        f"allows. An assumption failed; do not rely on this verdict."
    )
    return (said,)


def advice(candidates: Sequence[Candidate], request: Request, setting: Setting) -> str:
    """Where nothing keeps the budget: the smallest leakage reached, and what would help."""
    able = any(item.feasible and item.deployable for item in candidates)
    if not able and any(item.breaks_a_cap for item in candidates):
        return "Some protections keep the budget but not the caps; raise a cap, or the budget."
    helps = f"{', '.join(_ways(candidates, request, setting))} or a larger budget"
    reached = {
        item.name: item.smallest_leakage
        for item in candidates
        if item.smallest_leakage is not None
    }
    if not reached:
        return f"Nothing was measured below the budget of {request.budget:g}; try {helps}."
    best = min(reached, key=reached.__getitem__)
    return (
        f"The smallest upper limit of the leakage reached is {reached[best]:.3g}, by {best}; what "
        f"would help: {helps}."
    )


def _ways(candidates: Sequence[Candidate], request: Request, setting: Setting) -> list[str]:
    """What this federation could do besides what was tried."""
    tried = {item.name for item in candidates}
    ways = ["more clients"] if setting.clients < 20 else []
    ways += ["larger batches"]
    if setting.clients < 2:
        return ways
    if _COMBINED not in tried:
        ways += [f"a combined protection such as {_COMBINED}"]
    if request.adversary is Adversary.SERVER and "paillier" not in tried:
        ways += ["paillier, whose server reads nothing"]
    return ways
