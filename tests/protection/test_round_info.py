"""Rounds that cannot be, and seeds that never repeat."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": ""}, "run"),
        ({"number": -1}, "number"),
        ({"participants": ()}, "participants"),
        ({"participants": (1, 1)}, "distinct"),
        ({"participants": (2, 1)}, "rising"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": 4}, "threshold"),
        ({"mask_seed": -1}, "mask_seed"),
    ],
)
def test_impossible_rounds_are_refused(change: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {
        "run": "r",
        "number": 0,
        "participants": (0, 1, 5),
        "threshold": 2,
        "mask_seed": 3,
    }
    RoundInfo(**good)
    with pytest.raises(InvalidInput, match=why):
        RoundInfo(**{**good, **change})


def test_a_new_round_has_a_new_mask_seed() -> None:
    seeds = {RoundInfo.new(range(3), Seeded(1), number=n).mask_seed for n in range(50)}
    assert len(seeds) == 50
    assert RoundInfo.new(range(3), System()) != RoundInfo.new(range(3), System())


def test_a_digest_is_of_the_whole_round_and_the_label() -> None:
    made = RoundInfo("r", 4, (0, 1, 5), 2, 3)
    for label in (b"", b"a", b"", b"b"):
        whole = b"trilemma round('r', 4, (0, 1, 5), 2, 3)\0" + label
        assert made.digest(label) == hashlib.sha256(whole).digest()[:16]


def test_a_clients_own_round_is_one_that_could_be_made() -> None:
    made = RoundInfo("r", 4, (0, 1, 5), 2, 3)
    assert made.digest(), "what is kept of one is not of the other"
    own = made.of_client(5)
    anew = replace(made, mask_seed=own.mask_seed)
    assert own == anew != made
    assert hash(own) == hash(anew)
    assert own.digest() == anew.digest() != made.digest()
    assert own.mask_seed != made.of_client(1).mask_seed
    assert pickle.loads(pickle.dumps(own)) == own


def test_seats_are_places_among_the_participants() -> None:
    made = RoundInfo("r", 4, (0, 1, 5), 2, 3)
    assert made.seats == {0: 0, 1: 1, 5: 2}
    made.require_participant(5)
    with pytest.raises(InvalidInput, match="client 2 takes no part in round 4"):
        made.require_participant(2)


class _Looked(tuple[int, ...]):
    """Counts how often all of it is looked at."""

    looks = 0

    def _look(self, name: str, *given: Any) -> Any:
        _Looked.looks += 1
        return getattr(tuple, name)(self, *given)

    def __iter__(self) -> Iterator[int]:
        return cast("Iterator[int]", self._look("__iter__"))

    def __repr__(self) -> str:
        return str(self._look("__repr__"))

    def __hash__(self) -> int:
        return int(self._look("__hash__"))

    def __contains__(self, each: object) -> bool:
        return bool(self._look("__contains__", each))


@pytest.mark.parametrize("spec", ["none", "randomization:variance=0.01", "compression:keep=0.5"])
def test_a_round_does_not_look_at_everyone_for_each_client(spec: str) -> None:
    looks = []
    for clients in (20, 40):
        info = RoundInfo("r", 0, _Looked(range(clients)), 2, 3)
        _Looked.looks = 0
        run_round(parse_protection(spec), torch.ones(clients, 8), None, info, entropy=Seeded(1))
        looks.append(_Looked.looks)
    assert looks[0] == looks[1]
