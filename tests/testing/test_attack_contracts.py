"""The contract that ships: our attacks keep it, and a cheat does not."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from trilemma.attacks import ATTACKS, View, get
from trilemma.testing import check_attack
from trilemma.testing.controls import Kind

HURRIED: dict[str, dict[str, object]] = {
    "inverting-gradients": {"iterations": 150},
    "tableak": {"iterations": 80, "starts": 2, "polish": 60},
    "map": {"message_levels": ((1e-2, 40), (1e-4, 80))},
}


OF_KINDS: dict[str, Kind] = {"tableak": "table", "tokens": "text", "dager": "sentences"}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_every_attack_keeps_the_contract(name: str) -> None:
    kind = OF_KINDS.get(name, "numbers")
    units = 4 if kind == "table" else 12
    check_attack(get(name, **HURRIED.get(name, {})), records=kind, units=units)


@pytest.mark.parametrize("kind", ["table", "text"])
def test_a_list_of_candidates_tells_records_of_any_kind(kind: Kind) -> None:
    check_attack(get("gaussian-posterior"), records=kind)


def test_a_cheat_fails_the_contract() -> None:
    class Lazy:
        name = "lazy"
        knows = "nothing"

        def __call__(self, views: object, *, restarts: int, seed: int) -> object:
            found = get("analytic")(views, restarts=1, seed=0)  # type: ignore[arg-type]
            return dataclasses.replace(found, inputs=torch.full_like(found.inputs, 0.5))

    class Peeking:
        name = "peeking"
        knows = "public"

        def __call__(self, views: list[View], *, restarts: int, seed: int) -> object:
            found = get("analytic")(views, restarts=1, seed=0)
            candidate_set = views[0].knowledge.candidate_set
            inputs = found.inputs if candidate_set is None else candidate_set.inputs[:, None]
            return dataclasses.replace(found, inputs=inputs)

    class Unranked(Lazy):
        knows = "everything"

    for cheat, why in (
        (Lazy(), "weakness as privacy"),
        (Peeking(), "'public' must not read what only higher kinds of knowledge know"),
        (Unranked(), "knowledge must be one of nothing, public, candidates, rest"),
    ):
        with pytest.raises(AssertionError, match=why):
            check_attack(cheat)  # type: ignore[arg-type]
