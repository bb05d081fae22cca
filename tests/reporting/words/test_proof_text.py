"""Certificates in words, against their own numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reporting import examples, training

from trilemma.reporting.words.proof_text import candidate_sets, conditions, proved, readings


def test_every_length_of_the_candidate_set_has_its_rate() -> None:
    proof = examples.certificate(
        success={100: 0.142, 2: 0.806, 1000: 0.0493}, known={2: 0.92, 100: 0.36, 1000: 0.21}
    )
    columns, rows = candidate_sets(proof)
    assert columns == ("candidates", "right in at most", "rounds known", "guessing")
    assert rows == (
        ("2", "81 of 100", "92 of 100", "50 of 100"),
        ("100", "15 of 100", "36 of 100", "1 of 100"),
        ("1,000", "5 of 100", "21 of 100", "0.1 of 100"),
    )
    for same in (replace(proof, known=None), replace(proof, participation="known")):
        columns, rows = candidate_sets(same)
        assert "rounds known" not in columns, "participation is known as it is"
        assert {len(columns), *map(len, rows)} == {3}


def test_the_readings_hold_the_numbers() -> None:
    supremum, privacy, membership = readings(examples.certificate())
    assert "at most 0.3," in supremum
    assert "N = 7" in supremum
    assert "ε = 10.4 at δ = 1e-5" in privacy
    assert "1 % of those" in membership
    assert "at most 15 of 100" in membership
    one = readings(examples.certificate(candidates=100))[0]
    assert (
        one == "For a candidate set of 100, the leakage is at most 0.3; longer ones may leak more."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "each record's gradient clipped to norm 0.5"),
        ({"clips_updates": True}, "the whole update clipped to norm 0.5"),
        ({"level": "client"}, "all records of a client"),
        ({"remainder": 1e-9}, "leaves 1e-9 unproved"),
        ({"server_decay": True}, "server step 8, falling to zero"),
        ({"chosen_on": 148, "reported_on": 149}, "148 public records; accuracy is that on 149"),
        ({"helpers": 0}, "no client helps the attacker"),
        ({"helpers": 2}, "2 clients may help the attacker"),
        ({"participation": "known"}, "the attacker knows which rounds used the record"),
        ({"participation": "secret"}, "the attacker does not know when"),
        ({"person": 3}, "up to 3 records of a person"),
    ],
)
def test_the_conditions_are_spelt_out(changes: dict[str, object], words: str) -> None:
    text = "; ".join(conditions(examples.certificate(**changes)).values())
    assert words in text


def test_what_says_the_same_stands_together() -> None:
    assert proved(examples.verdict().candidates) == ()
    (found,) = proved(training.over_rounds().candidates)
    assert list(found.conditions) == ["randomization+secret-sharing"]
    first, second, *others = examples.verdict().candidates
    other = examples.certificate(variance=0.0017, survivors=10)
    pair = [replace(first, certificate=examples.certificate()), replace(second, certificate=other)]
    (both,) = proved(pair)
    assert list(both.conditions) == [first.name, second.name]
    assert "variance 0.0017" in both.conditions[second.name]["noise"]
    pair[1] = replace(second, certificate=examples.certificate(leakage=0.2))
    assert len(proved([*pair, *others])) == 2


def test_an_endless_candidate_set_is_not_counted() -> None:
    reach = readings(examples.certificate(worst_candidates=1_025_000_557_375))[0]
    assert reach.endswith("at most 0.3, reached by ever longer ones.")
