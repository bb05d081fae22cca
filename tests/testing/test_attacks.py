"""The contract that ships: our attacks keep it, and a cheat does not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from trilemma.attacks import ATTACKS, get
from trilemma.testing import check_attack


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_keeps_the_contract(name: str) -> None:
    effort = {"iterations": 150} if name == "inverting-gradients" else {}
    check_attack(get(name, **effort))


def test_a_cheat_fails_the_contract() -> None:
    class Lazy:
        name = "lazy"

        def __call__(self, views: object, *, restarts: int, seed: int) -> object:
            found = get("analytic")(views, restarts=1, seed=0)  # type: ignore[arg-type]
            return dataclasses.replace(found, inputs=torch.full_like(found.inputs, 0.5))

    with pytest.raises(AssertionError, match="weakness as privacy"):
        check_attack(Lazy())  # type: ignore[arg-type]
