"""Games counted: by attack, by client, the strongest attack deciding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.tuning.simulating import answered

from trilemma.execution.scheduler import Procedure
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.families.game_counts import (
    CONTROL,
    Counts,
    GameKey,
    GameResults,
    counted,
    pieces,
    recording,
)


def seen(client: list[int], failed: int = 0, **correct: list[bool]) -> GameResults:
    wins = {name: np.array(value) for name, value in correct.items()}
    after: dict[str, tuple[int, ...]] = {name: (0, int(win.sum())) for name, win in wins.items()}
    return GameResults(np.array(client), wins, failed, after)


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
    assert found.after == {"a": (0, 3), "b": (0, 1)}


def test_only_games_of_attacks_are_noted_and_none_of_the_control() -> None:
    job = AttackJob("s", "none", ("a", "b"), Adversary.SERVER, 1, 4, 2)
    control = replace(job, stream=CONTROL)

    def procedure() -> Procedure[list[str]]:
        found = yield [job, control, TrainJob("none", 0, 8)]
        return [*found, *(yield [replace(job, first=5)])]

    games: set[GameKey] = set()
    kinds = lambda jobs: [type(item).__name__ for item in jobs]  # noqa: E731
    found = answered(recording(procedure(), games), kinds)
    assert found == ["AttackJob", "AttackJob", "TrainJob", "AttackJob"]
    assert games == {("s", "none", attack, n) for attack in ("a", "b") for n in (4, 5, 6)}


def test_of_equals_the_first_decides() -> None:
    assert Counts(4, {"a": 2, "b": 2}, {}, 0).strongest == "a"


@pytest.mark.parametrize("most", [1, 4, 16])
def test_tasks_between_looks_are_even_and_stay_what_they_are_at_the_next_look(most: int) -> None:
    looks = (7, 15, 22, 62)
    found = pieces(looks, most)
    assert [n for first, count in found for n in range(first, first + count)] == [*range(62)]
    for start, end in pairwise((0, *looks)):
        sizes = [count for first, count in found if start <= first < end]
        assert sum(sizes) == end - start, "no task reaches over a look"
        assert max(sizes) <= most
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == -(-(end - start) // most), "no more of them than need be"
    assert pieces(looks[:2], most) == found[: len(pieces(looks[:2], most))]
