"""The ladder in words: no gap, nothing called tested that was not, and the next rung's price."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reporting import examples, training

from trilemma.estimation.leakage import Estimate
from trilemma.reporting.words.ladder import Ladder, ladder, next_rung
from trilemma.tuning.request import KNOWLEDGE, Request
from trilemma.tuning.results.verdict import Rung, Verdict


def made(verdict: Verdict) -> Ladder:
    found = ladder(verdict)
    assert found is not None
    return found


def test_every_rung_has_every_family_and_something_to_say() -> None:
    found = made(examples.verdict())
    assert found.rungs == KNOWLEDGE
    assert len(found.steps) == 5 * 6
    for knows in KNOWLEDGE:
        assert [each.family for each in found.on(knows)] == list(found.families)
    for each in found.steps:
        assert each.metric is not None or each.note, each
    assert found.metric == "accuracy"


def test_only_the_chosen_rung_is_tested() -> None:
    found = made(examples.verdict())
    marks = {(each.knows, each.family): each.mark for each in found.steps}
    assert {place for place, mark in marks.items() if mark == "tested"} == {
        ("candidates", name)
        for name in ("randomization", "randomization+secret-sharing", "randomization+paillier")
    }
    assert marks["candidates", "compression"] == "one round"
    assert marks["candidates", "secret-sharing"] == "fails"
    assert marks["rest", "secret-sharing"] == "fails", "its estimate is above the budget"
    assert marks["nothing", "secret-sharing"] == "estimate"
    assert {marks[knows, "paillier"] for knows in KNOWLEDGE} == {"key"}
    assert marks["anyone", "randomization"] == "none"


def test_what_was_measured_for_one_round_is_no_price_of_a_training() -> None:
    found = made(examples.verdict())
    thin = found.at("nothing", "compression")
    assert thin.once
    assert not thin.holds
    assert thin.marked == "estimate, one round only"
    one = replace(examples.verdict(), claim=replace(examples.CLAIM, rounds=1))
    assert made(one).at("nothing", "compression").holds


def test_the_price_of_the_next_rung() -> None:
    assert next_rung(examples.verdict()) == (
        "One rung up, against an attacker that knows every other record: noise inside secret "
        "sharing at variance 0.0127, accuracy 92.4 %, rounds 1.01 × as long (an estimate), "
        "instead of variance 0.00127 and 93.2 %."
    )


def test_an_estimate_below_what_was_tested_is_no_price() -> None:
    base = examples.verdict()
    easier = tuple(
        replace(each, strength=1e-6)
        if (each.knows, each.family) == ("rest", base.chosen)
        else each
        for each in base.ladder
    )
    assert next_rung(replace(base, ladder=easier)) == (
        "One rung up, against an attacker that knows every other record: by an estimate, "
        "variance 0.00127 is enough there too."
    )


def spoiled(verdict: Verdict, knows: str, names: tuple[str, ...]) -> Verdict:
    """Some families leak everything on a rung."""
    all_of_it = Estimate(0.9, 0.8, 0.95)

    def change(each: Rung) -> Rung:
        if each.knows == knows and each.family in names:
            return replace(each, leakage=all_of_it)
        return each

    return replace(verdict, ladder=tuple(map(change, verdict.ladder)))


def test_where_the_family_fails_the_cheapest_other_one_is_named() -> None:
    base = examples.verdict()
    inside = ("randomization+secret-sharing", "randomization+paillier")
    found = next_rung(spoiled(base, "rest", inside[:1]))
    assert "noise inside Paillier at variance 0.0127" in found
    found = next_rung(spoiled(base, "rest", inside))
    assert "noise at variance 3.1, accuracy 39.6 %" in found
    found = next_rung(spoiled(base, "rest", (*inside, "randomization")))
    assert found.endswith("against an attacker that knows every other record, nothing that was "
                          "tried is enough.")  # fmt: skip


def test_where_nothing_holds_the_nearest_lower_rung_is_named() -> None:
    base = replace(examples.verdict(), chosen=None)
    assert next_rung(base).startswith(
        "Lower on the ladder, against an attacker that owns public records: secret sharing alone"
    )


def test_at_the_top_there_is_no_next_rung() -> None:
    base = examples.verdict()
    proved = tuple(
        replace(each, knows="anyone") if each.knows == "candidates" else each
        for each in base.ladder
    )
    top = replace(base, request=Request(knows="anyone"), ladder=proved)
    assert next_rung(top) == ""
    assert made(top).at("anyone", "randomization").mark == "proved"
    two = tuple(each for each in proved if each.knows in ("anyone", "rest"))
    assert made(replace(top, ladder=two)).rungs == ("rest", "anyone"), "others are left out"
    one = tuple(each for each in proved if each.knows == "anyone")
    assert ladder(replace(top, ladder=one)) is None, "a single rung is no ladder"


def test_a_certificate_beside_a_measurement_fills_the_top_rung() -> None:
    step = made(training.over_rounds()).at("anyone", "randomization+secret-sharing")
    assert step.mark == "proved"
    assert step.strength == "variance 0.000832"
    assert "at most 0.299 at every N" in step.note


@pytest.mark.parametrize("verdict", [examples.surrogate(), examples.verdict(ladder=())])
def test_without_a_ladder_there_is_none(verdict: Verdict) -> None:
    assert ladder(verdict) is None
    assert next_rung(verdict) == ""
