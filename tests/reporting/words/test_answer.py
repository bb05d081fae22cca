"""The first screen in sentences."""

from __future__ import annotations

from dataclasses import replace

from tests.reporting import examples

from trilemma.game.estimates import Estimate
from trilemma.observations import Adversary
from trilemma.reporting.words.answer import (
    answer,
    earlier_tests,
    final_tests,
    not_needed,
    paper_leakage,
)
from trilemma.tuning.request import Request


def test_the_headline_names_who_is_held_off_and_how_often_it_is_right() -> None:
    first = answer(examples.verdict())
    for words in ("38 candidates", "150 rounds", "knows which", "26 of 100", "a blind guess: 2.6"):
        assert words in first.headline
    assert first.use == "Use noise of variance 0.00127 inside secret sharing."
    assert first.proof == "tested with fresh games"


def test_nothing_is_claimed_where_nothing_was_shown() -> None:
    none = answer(replace(examples.verdict(), chosen=None, advice="Try more clients."))
    assert "at most" not in none.headline
    assert none.lede.startswith("Asked for: A server that")
    assert none.lede.endswith("Try more clients.")


def test_a_broken_cap_is_not_told_as_a_failure_to_protect() -> None:
    verdict = examples.verdict()
    capped = tuple(
        replace(candidate, feasible=False, rank=None) for candidate in verdict.candidates
    )
    first = answer(replace(verdict, chosen=None, candidates=capped))
    assert first.headline.startswith("Protections hold this attacker off, but none of them")
    assert first.use == "Nothing keeps the caps and the budget of 0.3."


def test_leaks_and_costs_say_what_was_counted() -> None:
    first = answer(examples.verdict())
    assert first.leaks.figure == "guessed right in 18 of 100 games"
    assert "Allowed: 26 of 100; a blind guess: 2.6 of 100." in first.leaks.reading
    accuracy, speed = first.costs
    assert (accuracy.title, accuracy.figure) == ("Accuracy", "93.6 % → 93.2 %")
    assert speed.figure == "the same bits, 1.1 times the CPU seconds"


def test_a_metric_that_is_no_accuracy_is_not_called_one() -> None:
    base = examples.verdict()
    chosen = base.candidates[0]
    assert chosen.costs is not None
    costs = replace(
        chosen.costs, unprotected_metric=-0.2, protected_metric=-0.25,
        utility_loss=Estimate(0.05, 0.04, 0.06),
    )  # fmt: skip
    shown = replace(base, candidates=(replace(chosen, costs=costs), *base.candidates[1:]))
    card = answer(shown).costs[0]
    assert (card.title, card.figure) == ("Minus the loss", "-0.2 → -0.25")
    assert "It falls by 0.05 [0.04, 0.06]" in card.reading


def test_a_certified_choice_says_at_most() -> None:
    base = examples.verdict()
    chosen = replace(
        base.candidates[0], basis="certified", certificate=examples.certificate(),
        leakage=Estimate(0.2994, 0.0, 0.2994), statement="Proved.",
    )  # fmt: skip
    first = answer(replace(base, basis="certified", candidates=(chosen, *base.candidates[1:])))
    assert first.leaks.figure == "leakage at most 0.299, budget 0.3"
    assert first.use.endswith("inside secret sharing, each record's gradient clipped to norm 0.5.")
    assert first.proof == "proved for every attacker"


def test_a_curious_client_is_named() -> None:
    asked = Request(adversary=Adversary.CLIENT)
    assert (
        "one of them is curious and tries to tell from the sums"
        in answer(examples.verdict(request=asked)).lede
    )


def test_tests_at_the_strength_found_are_kept_apart_from_those_on_the_way() -> None:
    chosen = examples.verdict().candidates[0]
    assert [test.attack for test in final_tests(chosen)] == list(examples.ATTACKS)
    assert earlier_tests(chosen) == (
        "Failed on the way, so that the search went on: map guessed right in 24 of 60 games at "
        "noise variance 0.000635."
    )
    assert earlier_tests(replace(chosen, tests=final_tests(chosen))) == ""


def test_not_needed_is_said_only_where_the_bare_sum_was_shown_to_do() -> None:
    base = examples.verdict()
    noise = base.candidates[0]
    assert not_needed(base, noise) == "", "the bare sum leaks too much here"
    able = tuple(
        replace(candidate, feasible=True) if candidate.name == "secret-sharing" else candidate
        for candidate in base.candidates
    )
    sentence = "Not needed: secret sharing alone is within the budget."
    assert not_needed(replace(base, candidates=able), noise) == sentence
    paillier = base.candidates[1]
    assert not_needed(base, paillier) == "", "a key that hides all is another matter"
    assert not_needed(base, base.candidates[2]) == ""


def test_the_papers_leakage_is_said_where_it_was_computed() -> None:
    assert paper_leakage(examples.verdict()) == (
        "The paper's leakage, computed from what attackers believe: gaussian-posterior 0.194 "
        "(most exposed client 0.331). It is no rate of right guesses: a firm belief counts "
        "where it "
        "is wrong, too."
    )
    assert paper_leakage(examples.verdict(beliefs=())) == ""
