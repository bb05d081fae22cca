"""From attacks to picks: each attack ends with ONE pick from the line-up of each game.

Success is that the pick is the tagged record, so that an attack that knows nothing succeeds in
exactly 1/N of all games.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.base import Attack, Reconstructions, View
from trilemma.beliefs.line_up import nearness, pick
from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.beliefs.line_up import Distance
    from trilemma.estimation.games import Game
    from trilemma.estimation.sights import Observer

__all__ = ["Picks", "play"]


@dataclass(frozen=True, eq=False)
class Picks:
    """What one attack made of some games.

    `chosen` [U] are its picks and `correct` [U] says which are right. A game whose attack broke
    down counts as won: an attack that diverged proves no privacy. `belief` [U, N] are log
    probabilities of an attack that owns the line-up. `shown` [U, *shape] is the reconstruction
    nearest to the pick, NaN where there is none.
    """

    chosen: torch.Tensor
    correct: torch.Tensor
    failed: torch.Tensor
    belief: torch.Tensor | None
    shown: torch.Tensor


def play(
    observer: Observer,
    games: Sequence[Game],
    views: Sequence[Sequence[View]],
    attack: Attack,
    *,
    restarts: int,
    seed: int,
) -> Picks:
    """Attack every view of every game together, then pick once a game.

    A reconstructing attack picks the candidate nearest to any reconstruction of any round; an
    attack with a belief the likeliest, its log probabilities added up over rounds; where no round
    holds the record, every attack guesses.
    """
    arena = observer.arena
    flat = [view for each in views for view in each]
    found = attack(flat, restarts=restarts, seed=seed) if flat else None
    picks, failed, beliefs, shown = [], [], [], []
    start = 0
    for game, each in zip(games, views, strict=True):
        rows = slice(start, start + len(each))
        start += len(each)
        draw = Seeded(seed).torch_generator("pick", attack.name, game.number)
        candidates = arena.pool.inputs[torch.from_numpy(game.line_up)]
        broken = found is not None and bool(found.failed[rows].any())
        scores, picture = torch.zeros(len(candidates)), torch.full_like(candidates[0], torch.nan)
        if found is not None and each and not broken:
            scores, picture = _scores(found, rows, candidates, arena.scenario.distance)
            broken = not bool(torch.isfinite(scores).any())
        picks.append(pick(scores, draw))
        failed.append(broken)
        beliefs.append(torch.log_softmax(scores, 0))
        shown.append(picture)
    tagged = torch.tensor([game.tagged for game in games])
    chosen, broken_down = torch.tensor(picks), torch.tensor(failed)
    believes = found is not None and found.log_probability is not None
    return Picks(
        chosen,
        (chosen == tagged) | broken_down,
        broken_down,
        torch.stack(beliefs) if believes else None,
        torch.stack(shown),
    )


def _scores(
    found: Reconstructions, rows: slice, candidates: torch.Tensor, distance: Distance | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much speaks for each candidate [N], and what the attack would show for its pick."""
    if found.log_probability is not None:
        scores = found.log_probability[rows].double().cpu().sum(0)
        return scores, candidates[int(torch.nan_to_num(scores, nan=-torch.inf).argmax())]
    made = found.inputs[rows].flatten(0, 1).cpu()
    scores, best = nearness(made, candidates, distance)
    return scores, made[best]
