"""From a verdict to the statement of its pack."""

from __future__ import annotations

import hashlib
from datetime import date
from typing import TYPE_CHECKING, Final, Literal

from trilemma.accounting.trade_off import membership_bound
from trilemma.evidence_pack.statement import (
    Accuracy,
    Again,
    Claimed,
    Data,
    Knowledge,
    Played,
    Privacy,
    Rounds,
    Statement,
    Status,
    SuccessRate,
    ThreatModel,
    Unit,
    WorstClient,
)
from trilemma.observations import Adversary
from trilemma.reporting.words import numbers as words
from trilemma.reporting.words.answer import answer, final_tests, verdict_metric
from trilemma.reporting.words.knowledge_text import KNOWS
from trilemma.reporting.words.trade_off_text import ATTACKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilemma.evidence_pack.manifest import Signer
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.certificate import Certificate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["state"]

_CANDIDATES: Final = 100  # quoted where a proof is for any number of them
_FALSE_POSITIVES: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99,
)  # fmt: skip
_READS: Final = {
    "messages": "each client's update by itself",
    "sum": "the sum of each round's updates alone",
    "nothing": "ciphertexts, without the key",
}
_KEY: Final = "It rests on a key and a cryptographic assumption: no proof of ours, and no game."
_NEVER_MEASURED: Final = (
    "Whether what is deployed does what was evaluated: `trilemma deploy --check` compares them.",
    "Faults of the code that runs: `trilemma canaries` looks for some in a training.",
    "How long clients take to answer, and what networks, logs and backups show.",
    "What the model's answers do to people who use it, and what it says of a whole group.",
    "The user's code of model, loss and data: its keyed hash stays in the run folder.",
)
_EVENTS: Final = (
    "When a field of `deployment` changes: model, local training, clients, cohort, threshold.",
    "When the records change, or a person has more of them than `unit_of_privacy` says.",
    "When a fault of the code that `code` names is published.",
)
_BETTER: Final = "When a better attack is published: what was tested holds for those that played."


def state(verdict: Verdict, text: bytes, day: date, signer: Signer | None) -> Statement:
    """The statement of a verdict whose file is `text`, made on a day by a signer."""
    chosen, there = verdict.choice, verdict.federation
    proof = None if chosen is None else chosen.certificate
    status: Status = "not covered"
    if proof is not None:
        status = "proved"
    elif chosen is not None and chosen.basis == "measured":
        status = "tested"
    more = f"Before a record takes part in more than {verdict.deployment.rounds:,} rounds in all."
    better = () if proof else (_BETTER,)
    year = f"{day.year + 1}-{day.month:02}-{min(day.day, 28):02}"
    return Statement(
        answer=" ".join(filter(None, (answer(verdict).headline, verdict.advice))),
        protection=None if verdict.protection is None else verdict.protection.describe(),
        basis=verdict.basis,
        threat_model=_threat_model(verdict, status),
        unit_of_privacy=_unit(proof, status),
        rounds_and_sampling=_rounds(verdict, proof, status),
        knowledge_granted=_knowledge(verdict, proof, status),
        success_rate=_success_rate(verdict, chosen),
        worst_client=_worst_client(chosen),
        differential_privacy=_privacy(proof),
        released_statistics=_released(verdict, proof, status),
        accuracy=_accuracy(verdict, chosen),
        games=tuple(_games(verdict, chosen)),
        limits=tuple(Claimed("not covered", each) for each in verdict.limits),
        not_measured=tuple(
            Claimed("not covered", each) for each in _not_measured(verdict, chosen, proof)
        ),
        deployment=verdict.deployment,
        data=Data(
            there.scenario, there.clients, there.records, there.records_per_update, there.data_hash
        ),
        code=verdict.versions,
        verdict_sha256=hashlib.sha256(text).hexdigest(),
        reproduce=verdict.reproduce,
        date=day.isoformat(),
        evaluate_again=Again((more, *_EVENTS, *better), None if proof else year),
        signed_by=signer,
    )


def _threat_model(verdict: Verdict, status: Status) -> ThreatModel:
    asked, helpers = verdict.request, verdict.deployment.helpers
    server, proved = asked.adversary is Adversary.SERVER, status == "proved"
    if not server:
        who, behaves = "A client that", ""
    elif proved:
        who, behaves = "Anyone who", ", whatever models the server sends"
    elif asked.server == "malicious":
        who, behaves = "A malicious server that", " and crafts the models that it sends"
    else:
        who, behaves = "A curious server that", " and keeps to the protocol"
    helped = f", helped by at most {words.count(helpers, 'client')}" if helpers else ""
    return ThreatModel(
        status,
        f"{who} reads {_read(verdict)}{helped}{behaves}.",
        adversary="server" if server else "client",
        reads=_reads(verdict),
        chooses_models=proved or asked.server == "malicious",
        helpers=helpers,
    )


def _reads(verdict: Verdict) -> Literal["messages", "sum", "nothing"]:
    """What the server reads of an update; messages where nothing is deployed."""
    return "messages" if verdict.protection is None else verdict.protection.transport.server_reads


def _read(verdict: Verdict) -> str:
    if verdict.request.adversary is Adversary.CLIENT:
        return "the mean of each round's updates"
    return _READS[_reads(verdict)]


def _unit(proof: Certificate | None, status: Status) -> Unit:
    if proof is not None and proof.level == "client":
        return Unit(status, "One client, with all its records.", "client", proof.person)
    person = 1 if proof is None else proof.person
    what = "One record" if person == 1 else f"Up to {person} records of one person"
    return Unit(status, f"{what}, used by the training.", "record", person)


def _rounds(verdict: Verdict, proof: Certificate | None, status: Status) -> Rounds:
    setting, claim = verdict.deployment, verdict.claim if proof is None else proof
    rate = setting.sampling_rate if proof is None else proof.sampling_rate
    seen = "One round that holds the record"
    if claim.rounds > 1:
        told = "is told" if claim.participation == "known" else "is not told"
        seen = f"All {claim.rounds:,} rounds; the attacker {told} which of them held the record"
    drawn = (
        "uses every record" if rate == 1 else f"draws a record at a rate of {words.number(rate)}"
    )
    sentence = (
        f"{seen}. A client that takes part in a round {drawn}. A round has {setting.cohort} of "
        f"{words.count(setting.clients, 'client')}, and ends with {setting.threshold} or more."
    )
    return Rounds(status, sentence, claim.rounds, rate, claim.participation)


def _knowledge(verdict: Verdict, proof: Certificate | None, status: Status) -> Knowledge:
    knows = verdict.request.knows if proof is None else "anyone"
    said = f"{KNOWS['nothing']}; {KNOWS[knows]}" if knows != "nothing" else KNOWS[knows]
    if knows == "anyone":
        said = "whatever there is to know, every other record too"
    return Knowledge(status, f"The attacker knows {said}.", knows)


def _success_rate(verdict: Verdict, chosen: Candidate | None) -> SuccessRate:
    claim, allowed = verdict.claim, verdict.largest_success_rate
    size, proof = claim.candidates, None if chosen is None else chosen.certificate
    if proof is not None:
        size = _CANDIDATES if proof.candidates is None else proof.candidates
        said = (
            f"Of {size:,} equally likely candidates the right one is guessed in at most "
            f"{words.at_most(proof.success[size])} attempts; a blind guess is right in "
            f"{words.hundred(1 / size)}. It is certain while the proof's conditions are kept."
        )
        found, others = proof.success[size], dict(proof.success)
        return SuccessRate("proved", said, size, 1 / size, allowed, found, others)
    if chosen is None or chosen.basis != "measured" or chosen.success is None:
        said = "Nothing is claimed." if chosen is None else f"{chosen.statement} {_KEY}"
        return SuccessRate("not covered", said, size, claim.kappa, allowed)
    rate, sure = chosen.success, verdict.request.confidence
    said = (
        f"Of {size:,} candidates the right one is guessed in at most {words.hundred(allowed)} "
        f"attempts, at confidence {words.number(100 * sure)} %: each attack passed a test. Of "
        f"{chosen.fresh} fresh games after it {chosen.fresh_right} were won, a rate of "
        f"{words.interval(rate)}. A blind guess is right in {words.hundred(claim.kappa)}."
    )
    return SuccessRate(
        *("tested", said, size, claim.kappa, allowed, allowed, None, rate),
        *(chosen.fresh_right, chosen.fresh, sure),
    )


def _worst_client(chosen: Candidate | None) -> WorstClient:
    proof = None if chosen is None else chosen.certificate
    if proof is not None:
        size = _CANDIDATES if proof.candidates is None else proof.candidates
        said = "The bound holds for every record of every client, the most exposed one too."
        return WorstClient("proved", said, at_most=proof.success[size])
    if chosen is None or chosen.worst_client is None:
        return WorstClient("not covered", "No limits of single clients were measured.")
    said = (
        f"Client {chosen.leakiest_client} leaks most: {words.interval(chosen.worst_client)}, from "
        f"0 (nothing learnt) to 1 (the record known). Too few games for limits of their own: "
        f"{words.count(chosen.pooled_clients, 'client')}."
    )
    found, client = chosen.worst_client, chosen.leakiest_client
    return WorstClient("tested", said, leakage=found, client=client)


def _privacy(proof: Certificate | None) -> Privacy:
    if proof is None:
        said = "Neither (ε, δ) nor a trade-off function follows from games."
        return Privacy("not covered", said)
    training = proof.training()
    missed = [
        1 - min(1.0, membership_bound(training, rate) + proof.remainder)
        for rate in _FALSE_POSITIVES
    ]
    said = (
        f"ε = {words.number(proof.epsilon)} at δ = {words.number(proof.delta)} for one "
        f"{proof.level} over all {words.count(proof.rounds, 'round')}, at a noise multiplier of "
        f"{words.number(proof.noise_multiplier)}; who wrongly accuses 1 % of the absent finds at "
        f"most {words.percent(proof.true_positive_rate)} of those that are there."
    )
    return Privacy(
        *("proved", said, proof.noise_multiplier, proof.epsilon, proof.delta),
        trade_off=tuple(zip(_FALSE_POSITIVES, missed, strict=True)),
        remainder=proof.remainder,
    )


def _released(verdict: Verdict, proof: Certificate | None, status: Status) -> Claimed:
    size = words.count(verdict.deployment.parameters, "number")
    of = "of clipped records, with noise, " if proof else ""
    models = "All models computed of these alone are covered, the last one too."
    said = (
        f"The attacker reads {_read(verdict)}, {of}{size} each. "
        f"{models if proof else 'It knows the models.'} Not covered is what else leaves a client "
        "(counts, losses, metrics); this pack itself holds accuracies and counts of games."
    )
    return Claimed(status, said)


def _accuracy(verdict: Verdict, chosen: Candidate | None) -> Accuracy:
    name, costs = verdict_metric(verdict), None if chosen is None else chosen.costs
    if costs is None:
        return Accuracy("not covered", "What the protection costs was not measured.", name)
    before, after, best = (
        costs.unprotected_metric, costs.protected_metric, costs.best_unprotected_metric
    )  # fmt: skip
    freely = ""
    if best is not None:
        freely = f" The best training without protection reaches {words.metric(best, name)}."
    said = (
        f"{name.capitalize()} {words.metric(before, name)} without protection, "
        f"{words.metric(after, name)} with it, over {costs.seeds} pairs of trainings.{freely}"
    )
    return Accuracy("tested", said, name, before, after, costs.utility_loss, best)


def _games(verdict: Verdict, chosen: Candidate | None) -> Iterator[Played]:
    shielded, drawn = "the protection", verdict.trade_off
    for test in final_tests(chosen) if chosen else ():
        said = f"{shielded}: {'passed' if test.passed else 'failed'}"
        yield Played(test.attack, said, test.units, test.recovered)
    for item in drawn.points[drawn.chosen].attackers if drawn else ():
        if item.units:
            who = f"who knows {ATTACKERS[item.knows]}"
            yield Played(who, shielded, item.units, item.recovered)
    for other in verdict.beside:
        if other.units:
            yield Played(other.who, shielded, other.units, other.recovered)
    for used in verdict.attacks:
        bare = "single rounds without protection"
        yield Played(used.name, bare, used.control_units, used.control_recovered)


def _not_measured(
    verdict: Verdict, chosen: Candidate | None, proof: Certificate | None
) -> Iterator[str]:
    if proof is not None:
        drawn = verdict.trade_off
        attackers = drawn.points[drawn.chosen].attackers if drawn else ()
        played = {item.knows for item in attackers if item.units} | {"anyone"}
        unseen = [said for knows, said in ATTACKERS.items() if knows not in played]
        if unseen:
            yield f"Games, at the proved noise, of attackers who know {words.listed(unseen)}."
    elif chosen is not None:
        above = [*KNOWS][[*KNOWS].index(verdict.request.knows) + 1 : -1]
        if above:
            said = words.listed([ATTACKERS[knows] for knows in above])
            yield f"Attackers who know more: {said}."
        yield "Attackers with other attacks than those that played."
    if chosen is not None and chosen.costs is None:
        yield "What the protection costs."
    yield from _NEVER_MEASURED
