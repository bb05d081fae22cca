"""What became of a job's games, with pictures of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from trilemma.game.job_results import AttackResult, Pictures, Shown

if TYPE_CHECKING:
    from trilemma.attacks import View
    from trilemma.game.playing.games import Arena, Game
    from trilemma.game.playing.guesses import Guesses

__all__ = ["attack_result"]


def attack_result(
    arena: Arena,
    games: Sequence[Game],
    views: Sequence[Sequence[View]],
    found: Mapping[str, Guesses],
    *,
    pictures: int,
) -> AttackResult:
    """Clients, rounds seen and right guesses of games, with pictures of the first few."""
    shown = pictures and arena.scenario.show_records
    return AttackResult(
        client=[game.client for game in games],
        rounds=[len(view) for view in views],
        correct={name: value.correct.tolist() for name, value in found.items()},
        failed={name: int(value.failed.sum()) for name, value in found.items()},
        after={
            name: {int(t): right.tolist() for t, right in value.after.items()}
            for name, value in found.items()
        },
        pictures=_pictures(arena, games[:pictures], found) if shown else None,
    )


def _pictures(arena: Arena, games: Sequence[Game], found: Mapping[str, Guesses]) -> Pictures:
    scenario, pool = arena.scenario, arena.pool
    spec = scenario.input_spec

    def shown(inputs: torch.Tensor) -> list[Any]:
        if scenario.heads:
            truth = rows([game.sought for game in games])
            return [scenario.cells(*pair) for pair in zip(inputs, truth, strict=True)]
        return levels(inputs)

    def levels(inputs: torch.Tensor) -> list[list[int]]:
        there = inputs.nan_to_num(nan=spec.low, posinf=spec.high, neginf=spec.low)
        share = (there.clamp(spec.low, spec.high) - spec.low) / (spec.high - spec.low)
        whole: list[list[int]] = (255 * share).round().int().flatten(1).tolist()
        return whole

    def rows(places: Sequence[int]) -> torch.Tensor:
        return pool.inputs[torch.tensor(places)]

    return Pictures(
        target=shown(rows([game.sought for game in games])),
        attacks={
            name: Shown(
                made=shown(value.shown[: len(games)]),
                guessed=shown(
                    rows(
                        [
                            int(game.candidate_set[int(value.chosen[place])])
                            for place, game in enumerate(games)
                        ]
                    )
                ),
                correct=value.correct[: len(games)].tolist(),
            )
            for name, value in found.items()
        },
    )
