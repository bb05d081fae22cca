"""From attacks to picks: each attack ends with one guess from the candidate set of each game.

Success is that the pick is the target record, so that an attack that knows nothing succeeds in
exactly 1/N of all games.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.base import KNOWLEDGE_LEVELS, Attack, Reconstructions, View, links
from trilemma.beliefs.candidate_set import guess, token_scores
from trilemma.entropy import Seeded
from trilemma.game.playing.candidate_distances import tables_of
from trilemma.game.playing.view_kinds import find

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trilemma.game.playing.games import Arena, Game
    from trilemma.game.playing.observer import Observer

__all__ = ["Guesses", "play"]


@dataclass(frozen=True, eq=False)
class Guesses:
    """What one attack made of some games.

    `chosen` [U] are its guesses and `correct` [U] says which are right. A game whose attack broke
    down counts as won: an attack that diverged proves no privacy. `after[t]` [U] says which picks
    would have been right after t rounds. `belief` [U, N] are the probabilities of an attack that
    owns the candidate set. `shown` [U, *shape] is the reconstruction nearest to the pick, NaN
    where there is none.
    """

    chosen: torch.Tensor
    correct: torch.Tensor
    failed: torch.Tensor
    after: dict[int, torch.Tensor]
    belief: torch.Tensor | None
    shown: torch.Tensor

    def of(self, games: slice) -> Guesses:
        """What it made of some of the games."""
        return Guesses(
            self.chosen[games],
            self.correct[games],
            self.failed[games],
            {rounds: right[games] for rounds, right in self.after.items()},
            None if self.belief is None else self.belief[games],
            self.shown[games],
        )


def play(
    observer: Observer,
    games: Sequence[Game],
    views: Sequence[Sequence[View]],
    attack: Attack,
    *,
    restarts: int,
    seed: int,
    checkpoints: Sequence[int] = (),
) -> Guesses:
    """Attack every view of every game together, then pick once a game.

    A reconstructing attack picks the candidate that lies near a reconstruction of every round, or
    that fits best what was read of single inputs; an attack with a belief the likeliest, its log
    probabilities added up over rounds; before the first round that holds the record, every attack
    guesses. Where participation is secret, rounds are added up as if each held the record by
    itself with probability q. That at least one of them does takes (1 - q)ᴿ off the product of
    the likelihood ratios of every candidate alike, so that the likeliest stays the likeliest.
    `checkpoints` are numbers of rounds after which a guess is made besides; an attack that links
    rounds is then run on those alone.
    """
    linked = links(attack)
    steps = (*checkpoints, None) if linked else (None,)
    parts = [
        (place, part)
        for place, own in enumerate(views)
        for part in {len(item): item for item in (_seen(own, step) for step in steps)}.values()
    ]
    flat = [
        replace(view, training=_beginning(games[place], part)) if linked else view
        for place, part in parts
        for view in part
    ]
    found = None
    if flat:
        candidate_sets = [games[place].candidate_set for place, part in parts for _ in part]
        everything = find(attack, flat, restarts=restarts, seed=seed)
        found = _Found.of(attack, everything, observer.arena, candidate_sets)
    made: list[dict[int, _Game]] = [{} for _ in games]
    draws = Seeded(seed)
    ends = itertools.accumulate(len(part) for _, part in parts)
    for (place, part), end in zip(parts, ends, strict=True):
        rows = range(end - len(part), end)
        draw = partial(draws.torch_generator, "pick", attack.name, games[place].number)
        made[place][len(part)] = _Game(observer.arena, games[place], part, rows, found, draw)
    whole = [item[len(own)] for item, own in zip(made, views, strict=True)]
    guesses = [item.guess(None) for item in whole]
    chosen = torch.tensor([item.place for item in guesses])
    failed = torch.tensor([item.broken for item in whole])
    target = torch.tensor([game.target for game in games])

    def right(places: torch.Tensor) -> torch.Tensor:
        return (places == target) | failed

    def after(rounds: int) -> torch.Tensor:
        then = (
            item.get(len(_seen(own, rounds)), item[len(own)])
            for item, own in zip(made, views, strict=True)
        )
        return right(torch.tensor([item.guess(rounds).place for item in then]))

    believes = found is not None and found.made.log_probability is not None
    return Guesses(
        chosen,
        right(chosen),
        failed,
        {t: after(t) for t in checkpoints},
        torch.stack([torch.softmax(item.scores, 0) for item in guesses]) if believes else None,
        torch.stack([item.picture for item in guesses]),
    )


def _beginning(game: Game, views: Sequence[View]) -> int:
    """Each beginning of a training that is looked at is a training of its own, with a number."""
    return Seeded(game.number).integer("beginning", len(views))


def _seen(views: Sequence[View], rounds: int | None) -> list[View]:
    """Those of a game that stand before a round (None: all)."""
    return [view for view in views if rounds is None or view.round < rounds]


@dataclass(frozen=True, eq=False)
class _Found:
    """What an attack made of all views, on the host, and on which of them it broke down.

    `tables` are the distances [R, N] of each view's reconstructions from its game's candidates,
    where those are what decides.
    """

    made: Reconstructions
    broken: list[bool]
    tables: list[torch.Tensor]

    @classmethod
    def of(
        cls,
        attack: Attack,
        made: Reconstructions,
        arena: Arena,
        candidate_sets: Sequence[NDArray[np.int64]],
    ) -> _Found:
        """Of views with these candidates; distances are found where the reconstructions lie."""
        here, tables = made.cpu(), list[torch.Tensor]()
        broken = here.failed
        if here.log_probability is not None:
            broken = broken | torch.isnan(here.log_probability).any(1)
        elif here.tokens is None:
            known = KNOWLEDGE_LEVELS.index(attack.knows) >= KNOWLEDGE_LEVELS.index("public")
            public = arena.scenario.public_records.inputs if known else None
            guesses = made.inputs if made.guesses is None else made.guesses
            tables = tables_of(arena, guesses, candidate_sets, public)
        return cls(here, broken.tolist(), tables)


@dataclass(frozen=True, eq=False)
class _Guess:
    """The place picked, what spoke for each candidate [N], and what to show for the pick."""

    place: int
    scores: torch.Tensor
    picture: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Game:
    """One game's part of an attack's findings, `rows` of them."""

    arena: Arena
    game: Game
    views: Sequence[View]
    rows: range
    found: _Found | None
    draw: Callable[[], torch.Generator]
    _guesses: dict[int, _Guess] = field(default_factory=dict)  # by the number of views used

    @property
    def broken(self) -> bool:
        """Whether the attack broke down on a view of this game."""
        return self.found is not None and any(self.found.broken[row] for row in self.rows)

    def guess(self, rounds: int | None) -> _Guess:
        """The pick after so many rounds (None: all)."""
        seen = [
            row
            for row, view in zip(self.rows, self.views, strict=True)
            if rounds is None or view.round < rounds
        ]
        if len(seen) not in self._guesses:
            self._guesses[len(seen)] = self._guess(seen)
        return self._guesses[len(seen)]

    def _guess(self, seen: list[int]) -> _Guess:
        scores, picture = (
            torch.zeros(len(self.game.candidate_set)),
            _nothing(self.arena.pool.inputs[0]),
        )
        if self.found is not None and seen and not self.broken:
            scores, picture = self._scores(self.found, seen)
        return _Guess(guess(scores, self.draw()), scores, picture)

    def _scores(self, found: _Found, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """How much speaks for each candidate [N], and what the attack would show for its guess."""
        made, pool = found.made, self.arena.pool.inputs
        if made.log_probability is not None:
            scores = made.log_probability[rows].double().sum(0)
            return scores, pool[self.game.candidate_set[_likeliest(scores)]]
        candidates = torch.from_numpy(self.game.candidate_set)
        if made.tokens is not None:
            there = made.tokens[rows]
            scores = token_scores(there, pool[candidates])
            best = pool[self.game.candidate_set[_likeliest(scores)]]
            # of its words, those that were found
            return scores, torch.where(there.amax(0)[best] > 0.5, best, -1)
        # The rounds share the record. Were each reconstruction off by Gaussian errors of a size
        # that is unknown, -log(squared distance) were its log likelihood: so a round that shows
        # the record clearly decides, and several that show it faintly add up.
        tables = torch.stack([found.tables[row] for row in rows])
        near = tables.amin(1)
        scores = -near.clamp(min=torch.finfo(near.dtype).tiny).log().sum(0)
        read = [made.readings[row] for row in rows] if made.readings is not None else []
        if any(item is not None for item in read):
            # nearness of a guess to all inputs would only blur what is exact
            inputs = pool[candidates]
            told = [item.log_likelihood(inputs).cpu() for item in read if item is not None]
            scores = torch.stack(told).sum(0)
        row, which = divmod(int(tables[:, :, int(scores.argmax())].argmin()), tables.shape[1])
        return scores, made.inputs[rows[row], which]


def _likeliest(scores: torch.Tensor) -> int:
    """The place of the largest score [N] that is a number."""
    return int(torch.nan_to_num(scores, nan=-torch.inf).argmax())


def _nothing(like: torch.Tensor) -> torch.Tensor:
    """What an attack shows that found nothing: no number, or no token."""
    return torch.full_like(like, torch.nan if like.is_floating_point() else -1)
