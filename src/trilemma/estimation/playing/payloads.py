"""What a task tells of its games, as it goes into a run's journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from trilemma.attacks import View
    from trilemma.estimation.playing.games import Arena, Game
    from trilemma.estimation.playing.picks import Picks

__all__ = ["payload_of"]


def payload_of(
    arena: Arena,
    games: Sequence[Game],
    views: Sequence[Sequence[View]],
    found: Mapping[str, Picks],
    *,
    pictures: int,
) -> dict[str, Any]:
    """Clients, rounds seen and right picks of a task's games, with pictures of the first few."""
    told: dict[str, Any] = {
        "client": [game.client for game in games],
        "rounds": [len(each) for each in views],
        "correct": {name: each.correct.tolist() for name, each in found.items()},
        "failed": {name: int(each.failed.sum()) for name, each in found.items()},
        "after": {
            name: {str(t): right.tolist() for t, right in each.after.items()}
            for name, each in found.items()
        },
    }
    if pictures and arena.scenario.show_records:
        told["pictures"] = _pictures(arena, games[:pictures], found)
    return told


def _pictures(arena: Arena, games: Sequence[Game], found: Mapping[str, Picks]) -> dict[str, Any]:
    """The tagged records, each attack's reconstruction and its pick.

    Images in levels 0 .. 255; tables and texts as cells, which say if they are the tagged one's.
    """
    scenario, pool = arena.scenario, arena.pool
    spec = scenario.input_spec

    def shown(inputs: torch.Tensor) -> list[Any]:
        if scenario.heads:
            truth = rows([game.sought for game in games])
            return [scenario.cells(*each) for each in zip(inputs, truth, strict=True)]
        return levels(inputs)

    def levels(inputs: torch.Tensor) -> list[list[int]]:
        there = inputs.nan_to_num(nan=spec.low, posinf=spec.high, neginf=spec.low)
        share = (there.clamp(spec.low, spec.high) - spec.low) / (spec.high - spec.low)
        whole: list[list[int]] = (255 * share).round().int().flatten(1).tolist()
        return whole

    def rows(places: Sequence[int]) -> torch.Tensor:
        return pool.inputs[torch.tensor(places)]

    return {
        "tagged": shown(rows([game.sought for game in games])),
        "attacks": {
            name: {
                "made": shown(each.shown[: len(games)]),
                "picked": shown(
                    rows(
                        [
                            int(game.line_up[int(each.chosen[place])])
                            for place, game in enumerate(games)
                        ]
                    )
                ),
                "correct": each.correct[: len(games)].tolist(),
            }
            for name, each in found.items()
        },
    }
