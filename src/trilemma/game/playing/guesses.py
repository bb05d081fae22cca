"""From attacks to guesses: each attack ends a game with one guess from its candidate set.

Success is that the guess is the target record, so that an attack that knows nothing succeeds in
exactly 1/N of all games.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.base import KNOWLEDGE_LEVELS, Attack, Reconstructions, View, links
from trilemma.beliefs.candidate_set import guess, relative_distances, token_scores
from trilemma.entropy import Seeded
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
    down counts as won: an attack that diverged proves no privacy. `after[t]` [U] says which
    guesses would have been right after t rounds. `belief` [U, N] are the probabilities of an
    attack that owns the candidate set. `shown` [U, *shape] is the reconstruction nearest to the
    guess, NaN where there is none.
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
    """Attack every view of every game together, then guess once a game.

    A reconstructing attack guesses the candidate that lies near a reconstruction of every round,
    or that fits best what was read of single inputs; an attack with a belief the likeliest, its
    log probabilities added up over rounds; before the first round that holds the record, every
    attack guesses. Where participation is secret, rounds are added up as if each held the record
    by itself with probability q. That at least one of them does takes (1 - q)ᴿ off the product of
    the likelihood ratios of every candidate alike, so that the likeliest stays the likeliest.
    `checkpoints` are numbers of rounds after which a guess is made besides; an attack that links
    rounds is then run on those alone.
    """
    beginnings = [_beginnings(own, checkpoints if links(attack) else ()) for own in views]
    findings = _attacked(observer.arena, games, beginnings, attack, restarts, seed)
    trials = _trials(observer.arena, games, beginnings, findings, Seeded(seed), attack.name)
    whole = [own[len(seen)] for own, seen in zip(trials, views, strict=True)]
    guesses = [trial.guess(len(trial.rows)) for trial in whole]
    chosen = torch.tensor([item.place for item in guesses])
    failed = torch.tensor([trial.broken for trial in whole])
    target = torch.tensor([game.target for game in games])

    def after(rounds: int) -> torch.Tensor:
        counts = [len(_seen(own, rounds)) for own in views]
        then = zip(trials, whole, counts, strict=True)
        places = [own.get(count, last).guess(count).place for own, last, count in then]
        return (torch.tensor(places) == target) | failed

    believes = findings is not None and findings.made.log_probability is not None
    return Guesses(
        chosen,
        (chosen == target) | failed,
        failed,
        {rounds: after(rounds) for rounds in checkpoints},
        torch.stack([torch.softmax(item.scores, 0) for item in guesses]) if believes else None,
        torch.stack([item.picture for item in guesses]),
    )


_Beginnings = dict[int, Sequence[View]]


def _beginnings(views: Sequence[View], steps: Sequence[int]) -> _Beginnings:
    """By their number a game's views up to each of the steps, and all of them."""
    parts = (*(_seen(views, step) for step in steps), views)
    return {len(part): part for part in parts}


def _seen(views: Sequence[View], rounds: int) -> list[View]:
    """Those of a game, in the order of rounds, that stand before a round."""
    return [view for view in views if view.round < rounds]


def _attacked(
    arena: Arena,
    games: Sequence[Game],
    beginnings: Sequence[_Beginnings],
    attack: Attack,
    restarts: int,
    seed: int,
) -> _Findings | None:
    """What the attack makes of all beginnings in one call; None where no game shows a view.

    To an attack that links views each beginning is a training of its own, with a number.
    """
    flat: list[View] = []
    candidate_sets = []
    for game, own in zip(games, beginnings, strict=True):
        for count, part in own.items():
            number = Seeded(game.number).integer("beginning", count)
            flat += [replace(view, training=number) for view in part] if links(attack) else part
            candidate_sets += [game.candidate_set] * count
    if not flat:
        return None
    found = find(attack, flat, restarts=restarts, seed=seed)
    return _Findings.of(attack, found, arena, candidate_sets)


def _trials(
    arena: Arena,
    games: Sequence[Game],
    beginnings: Sequence[_Beginnings],
    findings: _Findings | None,
    draws: Seeded,
    name: str,
) -> list[dict[int, _Trial]]:
    """By game and number of views the trial of a beginning."""
    trials, start = [], 0
    for game, own in zip(games, beginnings, strict=True):
        draw = partial(draws.torch_generator, "pick", name, game.number)
        trials.append(dict[int, _Trial]())
        for count in own:
            rows = range(start, start + count)
            trials[-1][count] = _Trial(arena, game, rows, findings, draw)
            start += count
    return trials


@dataclass(frozen=True, eq=False)
class _Guess:
    """The place guessed, what speaks for each candidate [N], and what to show for the guess."""

    place: int
    scores: torch.Tensor
    picture: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Findings:
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
    ) -> _Findings:
        """Of views with these candidates."""
        here, tables = made.cpu(), list[torch.Tensor]()
        broken = here.failed
        if here.log_probability is not None:
            broken = broken | torch.isnan(here.log_probability).any(1)
        elif here.tokens is None:
            known = KNOWLEDGE_LEVELS.index(attack.knows) >= KNOWLEDGE_LEVELS.index("public")
            public = arena.scenario.public_records.inputs if known else None
            guesses = here.inputs if here.guesses is None else here.guesses
            measure, pool = arena.scenario.measure, arena.pool.inputs
            tables = [
                relative_distances(item, pool[torch.from_numpy(places)], public, measure)
                for item, places in zip(guesses, candidate_sets, strict=True)
            ]
        return cls(here, broken.tolist(), tables)

    def scores(
        self, candidates: torch.Tensor, rows: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What some views say of candidates [N, *shape]: scores [N], and what to show."""
        if self.made.log_probability is not None:
            scores = self.made.log_probability[rows].double().sum(0)
            return scores, candidates[_likeliest(scores)]
        if self.made.tokens is not None:
            there = self.made.tokens[rows]
            scores = token_scores(there, candidates)
            best = candidates[_likeliest(scores)]
            # of its words, those that were found
            return scores, torch.where(there.amax(0)[best] > 0.5, best, -1)
        return self._nearness(candidates, rows)

    def _nearness(
        self, candidates: torch.Tensor, rows: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same by distances, or by what was read of single inputs.

        The rounds share the record. Were each reconstruction off by Gaussian errors of a size that
        is unknown, -log(squared distance) were its log likelihood: so a round that shows the
        record clearly decides, and several that show it faintly add up.
        """
        tables = torch.stack([self.tables[row] for row in rows])
        near = tables.amin(1)
        scores = -near.clamp(min=torch.finfo(near.dtype).tiny).log().sum(0)
        read = [] if self.made.readings is None else [self.made.readings[row] for row in rows]
        exact = [item.log_likelihood(candidates).cpu() for item in read if item is not None]
        if exact:  # nearness of a guess to all inputs would only blur it
            scores = torch.stack(exact).sum(0)
        row, which = divmod(int(tables[:, :, int(scores.argmax())].argmin()), tables.shape[1])
        return scores, self.made.inputs[rows[row], which]


@dataclass(frozen=True, eq=False)
class _Trial:
    """An attack on a game, or on its beginning: `rows` of the findings, in the order of rounds."""

    arena: Arena
    game: Game
    rows: range
    findings: _Findings | None
    draw: Callable[[], torch.Generator]
    _guesses: dict[int, _Guess] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether the attack broke down on a view of this game."""
        return self.findings is not None and any(self.findings.broken[row] for row in self.rows)

    def guess(self, count: int) -> _Guess:
        """The guess after the first `count` views; by chance where nothing was seen."""
        if count not in self._guesses:
            self._guesses[count] = self._guess(count)
        return self._guesses[count]

    def _guess(self, count: int) -> _Guess:
        pool = self.arena.pool.inputs
        scores, picture = torch.zeros(len(self.game.candidate_set)), _nothing(pool[0])
        if self.findings is not None and count and not self.broken:
            candidates = pool[torch.from_numpy(self.game.candidate_set)]
            scores, picture = self.findings.scores(candidates, self.rows[:count])
        return _Guess(guess(scores, self.draw()), scores, picture)


def _likeliest(scores: torch.Tensor) -> int:
    """The place of the largest score [N] that is a number."""
    return int(torch.nan_to_num(scores, nan=-torch.inf).argmax())


def _nothing(like: torch.Tensor) -> torch.Tensor:
    """What an attack shows that found nothing: no number, or no token."""
    return torch.full_like(like, torch.nan if like.is_floating_point() else -1)
