"""From a verdict to the statement of its pack."""

from __future__ import annotations

import hashlib
from datetime import date
from typing import TYPE_CHECKING, Final, Literal

from trilemma.accounting.trade_off import membership_bound
from trilemma.evidence.statement import (
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
from trilemma.reporting.words.answer import final_tests, verdict_metric
from trilemma.reporting.words.knowledge_text import KNOWS
from trilemma.reporting.words.numbers import (
    at_most,
    count,
    hundred,
    interval,
    listed,
    metric,
    number,
)
from trilemma.reporting.words.trade_off_text import ATTACKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilemma.evidence.manifest import Signer
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.certificate import Certificate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["state"]

_CANDIDATES: Final = 100  # quoted where a proof is for any number of them
_FALSE_POSITIVES: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99,
)  # fmt: skip
_READS: Final = {
    "messages": "every client's update by itself",
    "sum": "the sum of each round's updates",
    "nothing": "ciphertexts, without the key",
}
_KEY: Final = (
    "It rests on a key that the attacker does not hold and on a cryptographic assumption: nothing "
    "was proved of it here, and no game was played."
)
_NOTHING: Final = "No protection was shown to keep the budget, so that nothing is claimed."
_NEVER_MEASURED: Final = (
    "Whether what is deployed does what was evaluated: `trilemma deploy --check` compares them.",
    "Faults of its code: `trilemma canaries` looks for some in a training.",
    "How long clients take to answer, and what networks, logs and backups show.",
    "What the model's answers do to people who use it, and what it says of a whole group.",
    "The user's code of model, loss and data: its keyed hash stays in the run folder.",
)


def state(verdict: Verdict, text: bytes, day: date, signer: Signer | None) -> Statement:
    """The statement of a verdict whose file is `text`, made on a day by a signer."""
    chosen = verdict.choice
    proof = None if chosen is None else chosen.certificate
    status: Status = "tested"
    if proof is not None:
        status = "proved"
    elif chosen is None or chosen.basis == "cryptographic":
        status = "not covered"
    there = verdict.federation
    return Statement(
        answer=verdict.headline if chosen else f"{verdict.statement} {verdict.advice}".strip(),
        protection=None if verdict.protection is None else verdict.protection.describe(),
        basis=verdict.basis,
        threat_model=_threat_model(verdict, status),
        unit_of_privacy=_unit(proof, status),
        rounds_and_sampling=_rounds(verdict, proof, status),
        knowledge_granted=_knowledge(verdict, proof, status),
        success_rate=_success_rate(verdict, chosen, status),
        worst_client=_worst_client(chosen, status),
        differential_privacy=_privacy(proof),
        released_statistics=_released(verdict, proof, status),
        accuracy=_accuracy(verdict, chosen),
        games=tuple(_games(verdict, chosen)),
        limits=tuple(Claimed("not covered", sentence) for sentence in verdict.limits),
        not_measured=tuple(
            Claimed("not covered", sentence) for sentence in _not_measured(verdict, chosen)
        ),
        deployment=verdict.deployment,
        data=Data(
            there.scenario,
            there.clients,
            there.records,
            there.data_hash,
            "HMAC-SHA256 of all records. Whoever holds the run folder, with its key, and the data "
            "confirms it: the command in `reproduce` resumes there with the same data alone.",
        ),
        code=verdict.versions,
        verdict_sha256=hashlib.sha256(text).hexdigest(),
        reproduce=verdict.reproduce,
        date=day.isoformat(),
        evaluate_again=_again(verdict, status, day),
        signed_by=signer,
    )


def _threat_model(verdict: Verdict, status: Status) -> ThreatModel:
    asked, helpers = verdict.request, verdict.deployment.helpers
    server, proved = asked.adversary is Adversary.SERVER, status == "proved"
    if not server:
        who, behaves = "A client", ""
    elif proved:
        who, behaves = "Anyone", ", whatever models the server sends"
    else:
        who = f"A {asked.server} server"
        crafts = (
            "crafts the models that it sends"
            if asked.server == "malicious"
            else "keeps to the protocol"
        )
        behaves = f", which {crafts}"
    helped = f", helped by at most {count(helpers, 'client')}" if helpers else ""
    return ThreatModel(
        status=status,
        sentence=f"{who} who reads {_read(verdict)}{helped}{behaves}.",
        adversary="server" if server else "client",
        server="malicious" if proved else asked.server,
        reads=_reads(verdict),
        helpers=helpers,
    )


def _reads(verdict: Verdict) -> Literal["messages", "sum", "nothing"]:
    """What the server reads of an update; messages where nothing is deployed."""
    return "messages" if verdict.protection is None else verdict.protection.transport.server_reads


def _read(verdict: Verdict) -> str:
    if verdict.request.adversary is Adversary.CLIENT:
        return "the mean of each round alone"
    return _READS[_reads(verdict)]


def _unit(proof: Certificate | None, status: Status) -> Unit:
    level = "record" if proof is None else proof.level
    person = 1 if proof is None else proof.person
    what = "One record that the training uses"
    if level == "client":
        what = "One client with all its records"
    elif person > 1:
        what = f"Up to {person} records of one person, which the training uses"
    return Unit(status, f"{what}.", level, person)


def _rounds(verdict: Verdict, proof: Certificate | None, status: Status) -> Rounds:
    setting, claim = verdict.deployment, verdict.claim
    rounds = claim.rounds if proof is None else proof.rounds
    rate = setting.sampling_rate if proof is None else proof.sampling_rate
    participation = claim.participation if proof is None else proof.participation
    seen = "One round that holds the record" if rounds == 1 else f"All {rounds:,} rounds"
    drawn = "each uses every record" if rate == 1 else f"each draws a record at {number(rate)}"
    told = "is told" if participation == "known" else "is not told"
    sentence = (
        f"{seen}; {drawn}, and the attacker {told} which rounds held it. {setting.cohort} of "
        f"{count(setting.clients, 'client')} take part in a round, which ends with "
        f"{setting.threshold} or more."
    )
    return Rounds(status, sentence, rounds, rate, participation)


def _knowledge(verdict: Verdict, proof: Certificate | None, status: Status) -> Knowledge:
    knows = verdict.request.knows if proof is None else "anyone"
    if knows == "anyone":
        said = "Whatever there is to know, such as every other record"
    elif knows == "nothing":
        said = f"The attacker knows {KNOWS['nothing']}"
    else:
        said = f"The attacker knows {KNOWS['nothing']}, and {KNOWS[knows].replace(',', ':', 1)}"
    return Knowledge(status, f"{said}.", knows)


def _success_rate(verdict: Verdict, chosen: Candidate | None, status: Status) -> SuccessRate:
    claim, proof = verdict.claim, None if chosen is None else chosen.certificate
    size, allowed = claim.candidates, verdict.largest_success_rate
    if proof is not None:
        size = _CANDIDATES if proof.candidates is None else proof.candidates
        said = (
            f"Of {size:,} equally likely candidates the right one is guessed in at most "
            f"{at_most(proof.success[size])} attempts; a blind guess is right in "
            f"{hundred(1 / size)}."
        )
        bound, others = proof.success[size], dict(proof.success)
        return SuccessRate(status, said, size, 1 / size, allowed, bound, others)
    if chosen is None or chosen.success is None or status != "tested":
        said = _NOTHING if chosen is None else f"{chosen.statement} {_KEY}"
        return SuccessRate("not covered", said, size, claim.kappa, allowed)
    found, sure = chosen.success, verdict.request.confidence
    said = (
        f"Of {size:,} candidates the right one is guessed in at most {hundred(allowed)} attempts, "
        f"at confidence {number(sure)}: each attack passed its test. The leading one was right in "
        f"{chosen.fresh_right} of {chosen.fresh} fresh games: {interval(found)}. A blind guess is "
        f"right in {hundred(claim.kappa)}."
    )
    return SuccessRate(
        *(status, said, size, claim.kappa, allowed, allowed, None, found),
        right=chosen.fresh_right,
        games=chosen.fresh,
        confidence=sure,
    )


def _worst_client(chosen: Candidate | None, status: Status) -> WorstClient:
    proof = None if chosen is None else chosen.certificate
    if proof is not None:
        size = _CANDIDATES if proof.candidates is None else proof.candidates
        said = "The bound holds for every record of every client, the most exposed one too."
        return WorstClient(status, said, at_most=proof.success[size])
    if chosen is None or chosen.worst_client is None:
        return WorstClient("not covered", "No limits of single clients were measured.")
    few = chosen.pooled_clients
    rest = f" {count(few, 'client')} had too few games for limits of their own." if few else ""
    said = f"Client {chosen.leakiest_client} leaks most: leakage {interval(chosen.worst_client)}."
    found, client = chosen.worst_client, chosen.leakiest_client
    return WorstClient(status, said + rest, leakage=found, client=client)


def _privacy(proof: Certificate | None) -> Privacy:
    if proof is None:
        said = "Neither (ε, δ) nor a trade-off function: what was measured bounds these attacks."
        return Privacy("not covered", said)
    training = proof.training()
    missed = [
        1 - min(1.0, membership_bound(training, rate) + proof.remainder)
        for rate in _FALSE_POSITIVES
    ]
    said = (
        f"({number(proof.epsilon)}, {number(proof.delta)})-differential privacy for one "
        f"{proof.level} over the whole training, by a noise multiplier of "
        f"{number(proof.noise_multiplier)}; `trade_off` is the function of f-DP at some points."
    )
    return Privacy(
        *("proved", said, proof.noise_multiplier, proof.epsilon, proof.delta),
        trade_off=tuple(zip(_FALSE_POSITIVES, missed, strict=True)),
        remainder=proof.remainder,
    )


def _released(verdict: Verdict, proof: Certificate | None, status: Status) -> Claimed:
    setting = verdict.deployment
    noisy = ", of clipped records and with noise" if proof is not None else ""
    more = (
        "the models that are computed of these alone, the last one too, are covered"
        if proof is not None
        else "the models are known to the attacker"
    )
    said = (
        f"In each round {_read(verdict)}: {count(setting.parameters, 'number')}{noisy}; {more}. "
        "Other numbers that leave a client (counts, losses, metrics) are not covered; this pack "
        "holds some: accuracies, and counts of games."
    )
    return Claimed(status, said)


def _accuracy(verdict: Verdict, chosen: Candidate | None) -> Accuracy:
    name, costs = verdict_metric(verdict), None if chosen is None else chosen.costs
    if costs is None:
        return Accuracy("not covered", "What the protection costs was not measured.", name)
    before, after = costs.unprotected_metric, costs.protected_metric
    said = (
        f"{name.capitalize()} {metric(before, name)} without protection, {metric(after, name)} "
        f"with it, over {costs.seeds} pairs of trainings."
    )
    return Accuracy("tested", said, name, before, after, costs.utility_loss)


def _games(verdict: Verdict, chosen: Candidate | None) -> Iterator[Played]:
    for test in () if chosen is None else final_tests(chosen):
        passed = "test passed" if test.passed else "test failed"
        yield Played(test.attack, f"the protection, {passed}", test.units, test.recovered)
    if drawn := verdict.trade_off:
        for item in drawn.points[drawn.chosen].attackers:
            if item.units:
                who = f"who knows {ATTACKERS[item.knows]}"
                yield Played(who, "the protection", item.units, item.recovered)
    for other in verdict.beside:
        if other.units:
            yield Played(
                other.who, f"the protection: {other.statement}", other.units, other.recovered
            )
    for used in verdict.attacks:
        bare = "single rounds without protection"
        yield Played(used.name, bare, used.control_units, used.control_recovered)


def _not_measured(verdict: Verdict, chosen: Candidate | None) -> Iterator[str]:
    if chosen is not None and chosen.certificate is not None:
        drawn = verdict.trade_off
        point = None if drawn is None else drawn.points[drawn.chosen]
        played = {item.knows for item in point.attackers if item.units} if point else set()
        if not played:
            yield "Attacks on what is proved: no game was played."
        elif without := [ATTACKERS[each] for each in ATTACKERS if each not in {*played, "anyone"}]:
            yield f"Games at the proved noise of attackers who know {listed(without)}."
    elif chosen is not None:
        above = [*KNOWS][[*KNOWS].index(verdict.request.knows) + 1 :]
        if above:
            said = listed([ATTACKERS[each].removeprefix("proved: ") for each in above])
            yield f"Attackers with more knowledge: {said}."
    if chosen is not None and chosen.costs is None:
        yield "What the protection costs in accuracy and time."
    yield from _NEVER_MEASURED


def _again(verdict: Verdict, status: Status, day: date) -> Again:
    rounds = count(verdict.deployment.rounds, "round")
    events = [
        f"Before a record takes part in more than {rounds}, of this training or a later one.",
        "When a field of `deployment` changes: model, local training, clients, cohort, threshold.",
        "When the records change, or a person brings more of them than `unit_of_privacy` says.",
        "When a fault of the code named in `code` is published.",
    ]
    if status == "proved":
        return Again(tuple(events), None)
    events.append(
        "When a better attack is published: what was tested holds for the attacks played."
    )
    return Again(tuple(events), f"{day.year + 1}-{day.month:02}-{min(day.day, 28):02}")
