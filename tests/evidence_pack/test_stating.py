"""What a statement claims of a verdict, and that it claims no more."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from scipy.stats import norm
from tests.evidence_pack.packs import DAY, proof, proved, stated
from tests.reporting import examples

from trilemma.evidence_pack.reading_guide import reading_guide
from trilemma.evidence_pack.statement import Statement
from trilemma.federation.deployment_terms import Deployment
from trilemma.game.estimates import Estimate
from trilemma.observations import Adversary
from trilemma.tuning.results.success_by_noise import AttackerRate, TradeOff, TradeOffPoint
from trilemma.tuning.results.verdict import Verdict

ROOT = Path(__file__).parents[2]
CLAIMS = (
    "threat_model", "unit_of_privacy", "rounds_and_sampling", "knowledge_granted", "success_rate",
    "worst_client", "released_statistics",
)  # fmt: skip


def marks(verdict: Verdict) -> set[str]:
    found = stated(verdict)
    return {getattr(found, name).status for name in CLAIMS}


def chose(name: str | None) -> Verdict:
    """The verdict of another choice among its candidates; None: of none."""
    found = examples.verdict()
    item = next((each for each in found.candidates if each.name == name), None)
    basis = "measured" if item is None else item.basis
    return replace(found, chosen=name, basis=basis)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "statement.schema.json").read_text())
    assert published == Statement.schema(), (
        "write Statement.schema() to docs/statement.schema.json"
    )


@pytest.mark.parametrize("verdict", [examples.verdict(), proved(), chose(None), chose("paillier")])
def test_every_statement_keeps_the_schema_and_is_read_back(
    verdict: Verdict, tmp_path: Path
) -> None:
    found = stated(verdict)
    document = found.as_json()
    assert next(iter(document)) == "statement_version"
    jsonschema.validate(json.loads(json.dumps(document, allow_nan=False)), Statement.schema())
    found.save(tmp_path / "statement.json")
    assert Statement.load(tmp_path / "statement.json") == found


def test_a_proof_is_proved_games_are_tested_and_the_rest_is_not_covered() -> None:
    assert marks(proved()) == {"proved"}
    assert marks(examples.verdict()) == {"tested"}
    assert marks(chose(None)) == marks(chose("paillier")) == {"not covered"}
    assert stated(proved()).differential_privacy.status == "proved"
    assert stated(examples.verdict()).differential_privacy.status == "not covered"
    for verdict in (proved(), examples.verdict(), chose(None)):
        found = stated(verdict)
        assert {each.status for each in (*found.limits, *found.not_measured)} == {"not covered"}
        assert [each.sentence for each in found.limits] == list(verdict.limits)


def test_the_trade_off_curve_is_that_of_the_gaussian_with_full_batches() -> None:
    """f(α) = Φ(Φ⁻¹(1 - α) - √R/z), less what fixed point leaves unproved."""
    for remainder in (0.0, 0.01):
        item = replace(examples.candidate("randomization", 1, 0.31, "randomization:variance=0.31"))
        sure = replace(item, basis="certified", certificate=proof(remainder=remainder))
        verdict = proved(candidates=(sure,), chosen="randomization")
        found = stated(verdict).differential_privacy
        assert len(found.trade_off) > 10
        for wrong, missed in found.trade_off:
            expected = norm.cdf(norm.isf(wrong) - 150**0.5 / 13.5) - remainder
            assert missed == pytest.approx(max(0.0, expected), abs=2e-4)
            assert missed <= expected + 1e-9 or missed == 0, "never more than is proved"
        assert found.epsilon == proof().epsilon
        assert (found.delta, found.noise_multiplier) == (1e-5, 13.5)


def test_a_proof_holds_for_anyone_and_a_test_for_who_was_played() -> None:
    sure, tried = stated(proved()), stated(examples.verdict())
    assert sure.knowledge_granted.knows == "anyone"
    assert sure.threat_model.chooses_models
    assert not tried.threat_model.chooses_models
    assert tried.knowledge_granted.knows == "candidates"
    assert "the candidate set" in tried.knowledge_granted.sentence
    assert sure.success_rate.candidates == 100
    assert sure.success_rate.at_most == proof().success[100] == sure.worst_client.at_most
    assert sure.success_rate.by_candidates == proof().success
    assert tried.success_rate.at_most == examples.P_MAX
    estimate = tried.success_rate.estimate
    assert estimate is not None
    assert estimate.low < 16 / 90 < estimate.high
    assert "26 of 100 attempts" in tried.success_rate.sentence
    assert "7.8 of 100" in sure.success_rate.sentence
    assert any("know more: all other records" in each.sentence for each in tried.not_measured)
    assert any("attackers who know" in each.sentence for each in sure.not_measured)


def test_a_rate_of_some_candidates_is_stated_of_these() -> None:
    item = proved().candidates[0]
    sure = replace(item, certificate=proof(candidates=38))
    found = stated(proved(candidates=(sure,))).success_rate
    assert (found.candidates, found.at_most) == (38, proof().success[38])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"adversary": Adversary.CLIENT}, "A client that reads the mean of each round's updates."),
        ({"server": "malicious"}, "and crafts the models"),
        ({}, "A curious server that reads the sum of each round's updates alone and keeps"),
    ],
)
def test_who_attacks(changes: dict[str, Any], said: str) -> None:
    asked = examples.REQUEST.model_copy(update=changes)
    found = stated(examples.verdict(request=asked)).threat_model
    assert said in found.sentence
    assert found.reads == "sum"
    assert found.chooses_models is ("server" in changes)


def test_units_and_rounds() -> None:
    whole = replace(proved().candidates[0], certificate=proof(level="client"))
    several = replace(whole, certificate=proof(person=3, rounds=7))
    assert stated(proved(candidates=(whole,))).unit_of_privacy.level == "client"
    found = stated(proved(candidates=(several,)))
    assert found.unit_of_privacy.records_of_person == 3
    assert "Up to 3 records of one person" in found.unit_of_privacy.sentence
    assert found.rounds_and_sampling.rounds == 7
    assert "uses every record" in found.rounds_and_sampling.sentence
    tried = stated(examples.verdict()).rounds_and_sampling
    assert (tried.rounds, tried.sampling_rate) == (150, 4 / 150)
    assert "All 150 rounds; the attacker is told" in tried.sentence
    once = replace(examples.CLAIM, rounds=1)
    assert (
        "One round that holds" in stated(examples.verdict(claim=once)).rounds_and_sampling.sentence
    )


def test_games_are_those_at_the_protection_and_without_one() -> None:
    found = stated(examples.verdict()).games
    assert next(each for each in found if each.attacker == "map").right == 12
    assert sum(each.against == "single rounds without protection" for each in found) == 6
    assert [each.games for each in found if each.attacker == "a curious client"] == [16]
    cells = (
        AttackerRate("candidates", 8, 1, 0.0, 0.5, 0.1),
        AttackerRate("rest", 16, 3, 0.0, 0.5, 0.2),
        AttackerRate("public", 0, 0, 0.0, 0.5, 0.1),
    )
    point = TradeOffPoint(13.5, 1.0, Estimate(0.9, 0.8, 1.0), 0.0, None, 0.3, cells)
    drawn = TradeOff(38, "known", 150, 7, 6, 5, 0, 0.25, 0.95, (point,))
    played = stated(proved(trade_off=drawn))
    assert [(each.attacker, each.right, each.games) for each in played.games[:2]] == [
        ("who knows the candidates", 1, 8),
        ("who knows all other records", 3, 16),
    ]
    unseen = played.not_measured[0].sentence
    assert "public records and nothing" in unseen
    assert "candidates" not in unseen


def test_a_test_grows_old_and_a_proof_does_not() -> None:
    tried, sure = stated(examples.verdict()).evaluate_again, stated(proved()).evaluate_again
    assert (tried.by, sure.by) == ("2029-02-28", None)
    assert len(tried.events) == len(sure.events) + 1
    assert "150 rounds" in sure.events[0]
    assert stated(proved()).date == DAY.isoformat()
    assert stated(proved()).verdict_sha256 == hashlib.sha256(b"the file").hexdigest()


def test_what_costs_were_not_measured_is_said() -> None:
    item = replace(examples.verdict().candidates[0], costs=None)
    found = stated(examples.verdict(candidates=(item,)))
    assert found.accuracy.status == "not covered"
    assert found.accuracy.unprotected is None
    assert "What the protection costs." in [each.sentence for each in found.not_measured]


@pytest.mark.parametrize("verdict", [examples.verdict(), proved(), chose(None), chose("paillier")])
def test_the_text_answers_each_question_in_80_columns(verdict: Verdict) -> None:
    found = stated(verdict)
    text = reading_guide(found)
    whole = " ".join(text.split())
    for name in (*CLAIMS, "accuracy", "differential_privacy"):
        item = getattr(found, name)
        assert item.sentence in whole
        assert f"[{item.status}]" in text
    for each in (*found.limits, *found.not_measured):
        assert each.sentence in whole
    assert "This pack is not signed" in whole
    long = [line for line in text.splitlines() if len(line) > 80 and " " in line.strip()]
    assert not long
    assert isinstance(found.deployment, Deployment)
