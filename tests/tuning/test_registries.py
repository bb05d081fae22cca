"""What third parties bring runs like our own: named module:object, with several workers."""

from __future__ import annotations

import pytest
from tests.cli.own_scenario import small

from trilemma.attacks import get
from trilemma.errors import InvalidInput
from trilemma.protection.specs import parse_protection
from trilemma.tuning.tuning_run import tune

NOISE = "tests.tuning.own_parts:Laplace"
ATTACK = "tests.tuning.own_parts:Twice"


def test_a_mechanism_and_an_attack_of_others_are_tuned_with_two_workers() -> None:
    verdict = tune(
        small,
        budget=0.5,
        families=[NOISE, f"{NOISE}+secret-sharing"],
        attacks=[ATTACK],
        claim="one-round",
        rounds=2,
        seeds=2,
        strengths=0,
        workers=2,
    )
    assert [attack.name for attack in verdict.attacks] == [ATTACK]
    names = {candidate.name for candidate in verdict.candidates}
    assert names == {NOISE, f"{NOISE}+secret-sharing"}
    found = next(candidate for candidate in verdict.candidates if candidate.name == NOISE)
    assert found.symbol == "scale of the Laplace noise"
    assert found.feasible
    assert found.protection is not None
    assert parse_protection(found.protection).describe() == found.protection
    assert {test.attack for test in found.tests} == {ATTACK}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tests.tuning.own_parts:Nothing", "has no object 'Nothing'"),
        ("no_such_module:Attack", "cannot be imported"),
        ("math:floor", "must be an attack with a name and a knowledge"),
    ],
)
def test_what_is_no_attack_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        get(name)
