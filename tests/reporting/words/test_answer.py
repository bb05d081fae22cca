"""The answer in sentences, against the facts of the verdicts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tests.reporting import examples, training

from trilemma.game.estimates import Estimate
from trilemma.reporting.words.answer import (
    answer,
    cost_facts,
    earlier_tests,
    final_tests,
    not_needed,
    summary,
)
from trilemma.tuning.choice.advice import headline
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.verdict import Verdict


def chosen(verdict: Verdict) -> Candidate:
    assert verdict.choice is not None
    return verdict.choice


def changed(verdict: Verdict, **changes: Any) -> Verdict:
    """The verdict with another choice."""
    first, *others = verdict.candidates
    return replace(verdict, candidates=(replace(first, **changes), *others))


def proved() -> Verdict:
    base = changed(
        examples.verdict(), basis="certified", certificate=examples.certificate(),
        leakage=Estimate(0.2994, 0.0, 0.2994),
    )  # fmt: skip
    said = headline(base.request, base.claim, base.largest_success_rate, chosen(base))
    return replace(base, basis="certified", headline=said)


def fact(verdict: Verdict, name: str) -> str:
    return dict(answer(verdict).facts)[name]


def test_a_proof_is_a_plain_yes_with_its_rate() -> None:
    first = answer(proved())
    assert (first.kind, first.badge) == ("certified", "proved")
    assert first.headline.startswith("Yes, within the limit you set: someone who holds 100 ")
    # A rate of .142 is no more than 15 of 100, and 1 of 100 is guessed.
    assert "at most 15 of 100 attempts; guessing gives 1. Proved." in first.headline
    assert "gradient clipped" in dict(first.facts)["protection"]
    assert "for every size, whatever else is known" in dict(first.facts)["your limit"]


def test_tests_are_not_called_a_proof_and_their_rate_is_the_limit() -> None:
    first = answer(examples.verdict())
    assert (first.kind, first.badge) == ("measured", "tested, not proved")
    assert first.headline.startswith("Tested, not proved, within the limit you set: a server")
    assert round(100 * examples.P_MAX) == 26
    for words in ("38 candidates", "150 rounds", "26 of 100", "guessing gives 2.6"):
        assert words in first.headline
    assert "26 of 100 attempts among 38 records" in fact(examples.verdict(), "your limit")


def test_a_limit_that_was_given_as_a_rate_is_told_as_one() -> None:
    asked = examples.verdict(request=Request(at_most=1 / 6))
    assert "at most 1 in 6" in fact(asked, "your limit")


def test_nothing_shown_is_a_plain_no_with_what_helps() -> None:
    lost = tuple(replace(item, costs=None) for item in examples.verdict().candidates)
    none = examples.verdict(chosen=None, advice="Try more clients.", candidates=lost)
    assert answer(none).headline.startswith(f"No: of {len(lost)} protections that were tried")
    assert answer(none).kind == "nothing"
    assert fact(none, "what helps") == "Try more clients."
    assert fact(none, "asked for") == none.headline
    assert "to deploy" not in dict(answer(none).facts)


def test_a_broken_cap_is_not_called_a_failure_to_protect() -> None:
    capped = tuple(replace(item, feasible=False) for item in examples.verdict().candidates)
    said = answer(examples.verdict(chosen=None, candidates=capped)).headline
    assert said.startswith("No: some protections keep the limit you set")


def test_a_key_is_named_as_what_it_rests_on() -> None:
    first = answer(examples.verdict(chosen="paillier", basis="cryptographic", leakage=None))
    assert first.headline.startswith("Yes, while the server does not hold the key: ")
    assert first.badge == "rests on the key"
    client = examples.verdict(request=Request(adversary="client"), chosen="paillier")
    assert "while a curious client does not" in answer(client).headline


CROSSED = tuple(replace(point, crossed=True) for point in training.after_rounds())
WEAK = tuple(replace(each, control_recovered=11) for each in examples.verdict().attacks)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (examples.verdict(rounds=CROSSED), "results contradict one another"),
        (examples.verdict(attacks=WEAK), "the attacks fail without protection, too"),
        (
            examples.verdict(federation=replace(examples.verdict().federation, baseline=0.9362)),
            "learns nothing",
        ),
        (
            changed(examples.verdict(), worst_client=Estimate(0.46, 0.3, 0.7), leakiest_client=3),
            "client 3 exceeds it (a leakage of 0.46)",
        ),
    ],
    ids=["contradictions", "weak attacks", "nothing learnt", "one client"],
)
def test_what_forbids_to_rely_on_it_is_in_the_first_line(verdict: Verdict, words: str) -> None:
    found = answer(verdict)
    assert found.kind == "warning"
    assert words in found.badge
    assert words in found.headline.split(":")[0]


def test_nothing_warns_without_a_reason() -> None:
    half = tuple(replace(each, control_recovered=12) for each in WEAK)
    learnt = replace(examples.verdict().federation, baseline=0.936)
    assert answer(examples.verdict(attacks=half, federation=learnt)).kind == "measured"


def test_accuracy_before_and_after_and_what_is_lost() -> None:
    said = fact(examples.verdict(), "accuracy")
    assert said.startswith("94 % without protection, 93 % with it: 0.4 points lost")
    costs = chosen(examples.verdict()).costs
    assert costs is not None
    gained = replace(costs, utility_loss=Estimate(-0.031, -0.05, 0.01))
    said = fact(changed(examples.verdict(), costs=gained), "accuracy")
    assert "3.1 points gained (between 5.0 gained and 1.0 lost)" in said
    assert "-" not in said
    other = replace(costs, best_unprotected_metric=0.97)
    assert "97 %" in fact(changed(examples.verdict(), costs=other), "accuracy")


def test_a_metric_that_is_no_accuracy_is_not_called_one() -> None:
    base = examples.verdict()
    costs = chosen(base).costs
    assert costs is not None
    costs = replace(
        costs, unprotected_metric=-0.2, protected_metric=-0.25,
        utility_loss=Estimate(0.05, 0.04, 0.06),
    )  # fmt: skip
    said = fact(changed(base, costs=costs), "minus the loss")
    assert said.startswith("-0.2 without protection, -0.25 with it: 0.05 lost")


def test_costs_hold_both_trainings() -> None:
    verdict = examples.verdict()
    costs = chosen(verdict).costs
    assert costs is not None
    found = dict(cost_facts(verdict))
    assert found["bits of a round"].count("155 kbit") == 2
    assert found["length of a round"].startswith("1.01 times as long (between 0.997 and 1.03)")
    assert "constant answer" not in found
    known = replace(verdict, federation=replace(verdict.federation, baseline=0.1246))
    assert dict(cost_facts(known))["constant answer"] == "12 % accuracy"
    assert not dict(cost_facts(replace(verdict, chosen=None)))


def test_the_best_attack_stands_beside_one_without_protection() -> None:
    said = fact(examples.verdict(), "attacked")
    assert "right in 18 % of games (between 11 % and 27 %)" in said  # 16 of 90
    assert "gaussian-posterior is right in 24 of 24 single rounds" in said


def test_a_limit_is_said_in_its_first_sentence() -> None:
    shown = examples.verdict(
        limits=("A person with 2.5 records. Take more noise.", "See `x`. `--knows rest` tells.")
    )
    assert answer(shown).not_covered == ("A person with 2.5 records.", "See `x`.")


@pytest.mark.parametrize(
    "verdict",
    [
        proved(),
        examples.verdict(),
        examples.verdict(chosen=None),
        examples.verdict(limits=("Clients that " + "leak and leak and " * 90 + "leak.",)),
    ],
    ids=["proved", "measured", "nothing", "long limits"],
)
def test_a_summary_holds_the_answer_within_a_screen(verdict: Verdict) -> None:
    text = summary(verdict)
    lines = text.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    flat = re.sub(r"\s+", " ", text)
    first = answer(verdict)
    assert flat.startswith(first.headline)
    for name, said in first.facts:
        assert f"{name[0].upper()}{name[1:]} {said}" in flat
    left_out = "[more: " in text
    assert left_out == (" ".join(first.not_covered) not in flat)
    assert verdict.summary() == text


def test_tests_at_the_strength_found_are_kept_apart_from_those_on_the_way() -> None:
    item = examples.verdict().candidates[0]
    assert [test.attack for test in final_tests(item)] == list(examples.ATTACKS)
    assert earlier_tests(item) == (
        "Failed on the way, so that the search went on: map guessed right in 24 of 60 games at "
        "noise variance 0.000635."
    )
    assert earlier_tests(replace(item, tests=final_tests(item))) == ""


def test_noise_is_called_needless_only_where_the_bare_sum_was_shown_to_do() -> None:
    base = examples.verdict()
    noise = base.candidates[0]
    assert not_needed(base, noise) == "", "the bare sum leaks too much here"
    able = tuple(
        replace(candidate, feasible=True) if candidate.name == "secret-sharing" else candidate
        for candidate in base.candidates
    )
    assert not_needed(replace(base, candidates=able), noise).startswith("Secret sharing alone is ")
    paillier = base.candidates[1]
    assert not_needed(base, paillier) == "", "a key that hides all is another matter"
    assert not_needed(base, base.candidates[2]) == ""
