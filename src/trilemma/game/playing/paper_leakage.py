"""The paper's leakage, computed: how far an attacker's belief moves, candidates and record fixed.

With the candidate set and the true record fixed, the posterior averaged over draws of everything
else (batches, models, the mechanism) is the paper's f^A, and uniform is its f^B. √(JS / ln 2)
between the two, then the mean over candidate sets, is a client's leakage. Averaging over orders of
the candidate set first would give the uniform distribution, and a leakage of 0, whatever the
attacker learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from trilemma.beliefs.belief import leakage
from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.game.playing.guesses import play

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.attacks.base import Attack
    from trilemma.game.playing.games import Game
    from trilemma.game.playing.observer import Observer

__all__ = ["paper_leakage"]


def paper_leakage(
    observer: Observer, games: Sequence[Game], attacks: Sequence[Attack], *, draws: int
) -> dict[str, NDArray[np.float64]]:
    """By attack the leakage of each game [U], from `draws` independent observations of each."""
    if draws < 1:
        raise InvalidInput(f"draws (observations of each game) must be at least 1, got {draws}.")
    candidates = observer.arena.claim.candidates
    beliefs: dict[str, list[torch.Tensor]] = {attack.name: [] for attack in attacks}
    for draw in range(draws):
        seed = Seeded(observer.seed).integer("belief", draw)
        seen = replace(observer, seed=seed)
        views = seen.views(games)
        for attack in attacks:
            found = play(seen, games, views, attack, restarts=1, seed=seed)
            if found.belief is None:
                raise InvalidInput(
                    f"the attack {attack.name!r} gives no belief over the candidate set; use "
                    "one of "
                    f"the kinds of knowledge 'candidates' and 'rest'."
                )
            beliefs[attack.name].append(found.belief.double())
    uniform = np.full(candidates, 1 / candidates)
    means = {name: torch.stack(item).mean(0).numpy() for name, item in beliefs.items()}
    return {
        name: np.array([leakage(row / row.sum(), uniform) for row in mean])
        for name, mean in means.items()
    }
