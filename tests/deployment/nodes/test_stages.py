from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trilemma.deployment.nodes.stages import Stage
from trilemma.errors import ProtocolViolation

STAGE = Stage(7, "train", "0" * 32, 3, (5, 9, 2**64 - 1), 10, "terms")


def test_both_sides_build_the_same_round_and_keys_are_bound_to_all_of_it() -> None:
    assert STAGE.round("update", 2) == replace(STAGE, blobs={"update": b"x"}).round("update", 2)
    changes: list[dict[str, Any]] = [
        {"run": 8},
        {"kind": "evaluate"},
        {"session": "1" * 32},
        {"number": 4},
        {"cohort": (5, 9, 11)},
    ]
    digests = {replace(STAGE, **change).round("update", 2).digest() for change in changes}
    digests |= {STAGE.round("update", 2).digest(), STAGE.round("metrics", 2).digest()}
    assert len(digests) == len(changes) + 2
    seeds = {replace(STAGE, **change).round("update", 2).mask_seed for change in changes}
    assert len(seeds) == len(changes)


def test_a_seat_is_a_place_in_the_cohort() -> None:
    assert [STAGE.seat(node) for node in STAGE.cohort] == [0, 1, 2]
    with pytest.raises(ProtocolViolation, match="node 6 takes no part in round 3"):
        STAGE.seat(6)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "query"},
        {"session": "0"},
        {"session": b"0" * 32},
        {"cohort": ()},
        {"cohort": (1, 2.0)},
        {"cohort": (3, 3, 40)},
        {"cohort": (9, 5)},
        {"session": "0 1 2 3 4 5 6 7 8 9 a b c d e f "},
        {"number": -1},
        {"number": "3"},
        {"size": True},
        {"run": 1 << 64},
        {"terms": None},
        {"version": 1.5},
        {"blobs": {"updates": b""}},
    ],
)
def test_an_altered_header_is_refused_by_the_name_of_its_field(change: dict[str, Any]) -> None:
    name = next(iter(change))
    with pytest.raises(ProtocolViolation, match=f"^{name} of a stage is .* altered, or of"):
        replace(STAGE, **change)
