"""Sentences: who is held off, what is not covered, and what would help."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.tuning.priced_candidates import candidate
from tests.tuning.small_families import SETTING

from trilemma.game.playing.claims import Claim
from trilemma.game.playing.suite import Suite
from trilemma.learning import LocalTraining
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.tuning.choice.advice import advice, headline, limits, untried, weak
from trilemma.tuning.plan import Plan
from trilemma.tuning.request import KNOWLEDGE, Request
from trilemma.tuning.results.candidate import Candidate

SUITE = Suite("candidates", ("gaussian-posterior", "analytic"))
TRAINING = Claim(150, 38)


def not_covered(
    chosen: Candidate | None,
    request: Request | None = None,
    claim: Claim = TRAINING,
    suite: Suite = SUITE,
    parameters: int = 2410,
) -> tuple[str, ...]:
    scenario = SimpleNamespace(local_training=LocalTraining(), per_round=10)
    plan = SimpleNamespace(
        suite=suite,
        request=request or Request(basis="measured"),
        claim=claim,
        scenario=scenario,
        unprovable="",
        deployment=SimpleNamespace(parameters=parameters),
        setting=SETTING,
    )
    return limits(cast(Plan, plan), chosen)


def test_how_many_records_are_used_stands_beside_a_claim_about_those_that_are() -> None:
    said = [item for item in not_covered(None) if item.startswith("Records that the training")]
    (sentence,) = said
    assert sentence.startswith("Records that the training leaves out. It uses 98 % of them")
    assert not [
        item
        for item in not_covered(None, claim=Claim(1, 100))
        if item.startswith("Records that the training")
    ]


def test_the_headline_of_one_round() -> None:
    said = headline(Request(claim="one-round"), Claim(1, 100), 0.212)
    assert said == (
        "A server that holds the 100 candidates and sees one round that used the record singles "
        "it out of 100 records in at most 21 of 100 attempts; guessing gives 1. At 95 % "
        "confidence."
    )


def test_the_headline_of_a_training() -> None:
    said = headline(Request(adversary="client"), TRAINING, 0.258)
    assert said.startswith("A curious client that holds the 38 candidates, sees all 150 rounds")
    assert "and knows which of them used the record singles it out" in said
    assert "at most 26 of 100 attempts; guessing gives 2.6. At 95 % confidence." in said
    told = headline(Request(), replace(TRAINING, participation="secret"), 0.258)
    assert "does not know which of them used the record" in told
    quick = headline(Request(preset="quick", confidence=0.9), TRAINING, 0.258)
    assert quick.endswith("A quick look, at 90 % confidence.")


@pytest.mark.parametrize("knows", KNOWLEDGE)
def test_every_rung_has_words_of_its_own(knows: str) -> None:
    said = headline(Request(knows=knows), TRAINING, 0.258)
    others = {headline(Request(knows=item), TRAINING, 0.258) for item in KNOWLEDGE}
    assert said in others
    assert len(others) == len(KNOWLEDGE)
    assert said.count(". ") <= 1
    assert "{" not in said


def test_limits_of_a_measurement_name_the_attackers() -> None:
    found = not_covered(candidate("a", 0.1))
    assert not any(item.startswith("Several rounds") for item in found)
    assert any("gaussian-posterior, analytic" in item for item in found)
    assert any("may leak more than the average" in item for item in found)
    assert not_covered(None) == found
    assert all(item.endswith(".") for item in found)


def test_attacks_that_are_lost_in_sums_are_named() -> None:
    chosen = candidate("randomization", 0.1)
    assert not any("Not tried" in said for said in not_covered(chosen))
    suite = replace(SUITE, lost=frozenset({"analytic"}))
    (said,) = [item for item in not_covered(chosen, suite=suite) if "Not tried" in item]
    assert said.startswith("Not tried on sums of 10 clients")
    assert said.endswith(": analytic.")


def test_limits_of_a_key_name_no_attacker() -> None:
    key = replace(candidate("paillier", 0.1), basis="cryptographic")
    found = " ".join(not_covered(key))
    assert "gaussian-posterior" not in found
    assert "deviate from the protocol" in found


def test_costs_that_were_scaled_from_a_part_are_said_to_be() -> None:
    key = replace(candidate("paillier", 0.1), basis="cryptographic", protection="paillier")
    part = Paillier().alike
    assert not any("scaled" in item for item in not_covered(key, parameters=part))
    (said,) = [item for item in not_covered(key, parameters=93_252) if "scaled" in item]
    assert f"{part:,} of the update's 93,252 coordinates" in said
    thinned = replace(key, protection="compression:keep=0.5+paillier")
    assert not any("scaled" in item for item in not_covered(thinned, parameters=93_252))
    noise = replace(key, protection="randomization:variance=0.1+secret-sharing")
    assert not any("scaled" in item for item in not_covered(noise, parameters=93_252))


def test_limits_of_one_round_and_of_inserted_records() -> None:
    found = not_covered(None, Request(), Claim(1, 23, inserted=True))
    assert found[0].startswith("Several rounds")
    assert any("inserted in place of one of the client's" in item for item in found)


@pytest.mark.parametrize(("adversary", "other"), [("server", "client"), ("client", "server")])
def test_the_last_limit_is_about_the_other_adversary(adversary: str, other: str) -> None:
    last = not_covered(None, Request(adversary=adversary))[-1]
    assert other in last.split(".")[0]
    assert last.endswith(f"{adversary} gets.")


def failed(name: str, **changes: Any) -> Candidate:
    bare = replace(candidate(name, 0.1), feasible=False, costs=None, objective=None)
    return replace(bare, **changes)


def test_advice_names_the_smallest_leakage_and_what_helps() -> None:
    tried = [failed("a", smallest_leakage=0.5), failed("b", smallest_leakage=0.4)]
    said = advice(tried, Request(), SETTING)
    assert "0.4, by b" in said
    for help_ in ("more clients", "larger batches", "randomization+secret-sharing", "paillier"):
        assert help_ in said


def test_advice_does_not_name_what_was_tried_or_cannot_be() -> None:
    tried = [failed("paillier"), failed("randomization+secret-sharing")]
    said = advice(tried, Request(), SETTING)
    assert "paillier" not in said
    assert "combined" not in said
    assert said.startswith("Nothing was measured below the budget of 0.3")
    alone = advice([], Request(), replace(SETTING, clients=1, records=(150,)))
    assert "paillier" not in alone
    assert "more clients" in alone
    many = advice([], Request(), replace(SETTING, clients=20, records=(150,) * 20))
    assert "more clients" not in many
    assert "paillier" not in advice([], Request(adversary="client"), SETTING)


def test_advice_where_a_cap_is_the_reason() -> None:
    capped = replace(candidate("a", 0.1), feasible=False)
    assert "but not the caps" in advice([capped], Request(max_cost=0.1), SETTING)


def test_a_quick_look_names_the_attacks_that_it_left_out() -> None:
    won = {"gaussian-posterior": 0, "dlg": 0, "analytic": 2}
    suite = Suite("candidates", tuple(won))

    def said(**settings: object) -> tuple[str, ...]:
        request = Request(**settings)
        plan = SimpleNamespace(
            suite=suite,
            request=request,
            families=("x",),
            proves=lambda _: request.knows == "anyone",
        )
        return untried(cast(Plan, plan), won, 16)

    (sentence,) = said(preset="quick")
    assert "none of 16 unprotected rounds was tested no further (dlg)" in sentence
    assert said() == said(preset="quick", knows="anyone") == ()


def test_attackers_that_fail_without_protection_are_called_weak() -> None:
    chosen = candidate("secret-sharing", 0.1)
    (sentence,) = weak(chosen, {"gaussian-posterior": 3, "inverting-gradients": 5}, 16)
    assert "the best of them (inverting-gradients) is right in 5 of 16 single rounds" in sentence
    assert weak(chosen, {"gaussian-posterior": 8, "dlg": 0}, 16) == ()
    assert weak(None, {"dlg": 0}, 16) == ()
    assert weak(replace(chosen, basis="cryptographic"), {"dlg": 0}, 16) == ()
