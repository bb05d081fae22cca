"""Which families can be proved, and why the others cannot."""

from __future__ import annotations

import re

import pytest

from trilemma.errors import InvalidInput
from trilemma.tuning.families.provable import CERTIFIED, certified_families


def test_families_that_can_be_proved() -> None:
    assert certified_families(None, clients=5) == CERTIFIED
    assert certified_families(None, clients=1) == ("randomization",)
    assert certified_families(["randomization"], clients=5) == ("randomization",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("compression", "without Gaussian noise"),
        ("secret-sharing", "without Gaussian noise"),
        ("paillier", "without Gaussian noise"),
        ("own.module:Noise", "without Gaussian noise"),
        ("compression+randomization", "error feedback"),
    ],
)
def test_other_families_are_refused_with_a_reason(name: str, why: str) -> None:
    sentence = rf"proved of {re.escape(name)}.*{why}.*choose from randomization"
    with pytest.raises(InvalidInput, match=sentence):
        certified_families(["randomization", name], clients=5)
