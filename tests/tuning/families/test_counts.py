"""Games counted: by attack, by client, the strongest attack deciding."""

from __future__ import annotations

import numpy as np

from trilemma.tuning.families.counts import Counts, Seen, counted


def seen(client: list[int], failed: int = 0, **correct: list[bool]) -> Seen:
    wins = {name: np.array(each) for name, each in correct.items()}
    return Seen(np.array(client), wins, failed)


def test_several_requests_are_counted_together() -> None:
    found = counted(
        [
            seen([0, 1, 0], a=[True, False, True], b=[False, False, True]),
            seen([1, 1], failed=1, a=[False, True], b=[False, False]),
        ]
    )
    assert (found.units, found.failed) == (5, 1)
    assert found.by_attack == {"a": 3, "b": 1}
    assert (found.strongest, found.successes) == ("a", 3)
    assert found.by_client == {0: (2, 2), 1: (3, 1)}, "of the strongest attack"


def test_of_equals_the_first_decides() -> None:
    assert Counts(4, {"a": 2, "b": 2}, {}, 0).strongest == "a"
