"""From attacks to picks: each attack ends with ONE pick from the line-up of each game.

Success is that the pick is the tagged record, so that an attack that knows nothing succeeds in
exactly 1/N of all games.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from trilemma.attacks.base import RUNGS, Attack, Reconstructions, View, links
from trilemma.beliefs.line_up import commonness, distances, pick, token_scores
from trilemma.entropy import Seeded
from trilemma.estimation.playing.kinds import find

if TYPE_CHECKING:
    from trilemma.beliefs.line_up import Distance
    from trilemma.estimation.playing.games import Game
    from trilemma.estimation.playing.sights import Observer

__all__ = ["Picks", "play"]


@dataclass(frozen=True, eq=False)
class Picks:
    """What one attack made of some games.

    `chosen` [U] are its picks and `correct` [U] says which are right. A game whose attack broke
    down counts as won: an attack that diverged proves no privacy. `after[t]` [U] says which picks
    would have been right after t rounds. `belief` [U, N] are the probabilities of an attack that
    owns the line-up. `shown` [U, *shape] is the reconstruction nearest to the pick, NaN where
    there is none.
    """

    chosen: torch.Tensor
    correct: torch.Tensor
    failed: torch.Tensor
    after: dict[int, torch.Tensor]
    belief: torch.Tensor | None
    shown: torch.Tensor

    def of(self, games: slice) -> Picks:
        """What it made of some of the games."""
        return Picks(
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
) -> Picks:
    """Attack every view of every game together, then pick once a game.

    A reconstructing attack picks the candidate that lies near a reconstruction of every round, or
    that fits best what was read of single inputs; an attack with a belief the likeliest, its log
    probabilities added up over rounds; where no round holds the record, every attack guesses.
    `checkpoints` are numbers of rounds after which a pick is made besides; an attack that links
    rounds is then run on those alone.
    """
    linked = links(attack)
    steps = (*checkpoints, None) if linked else (None,)
    parts = [
        (place, part)
        for place, own in enumerate(views)
        for part in {len(each): each for each in (_seen(own, step) for step in steps)}.values()
    ]
    flat = [
        replace(view, training=_beginning(games[place], part)) if linked else view
        for place, part in parts
        for view in part
    ]
    found = find(attack, flat, restarts=restarts, seed=seed).cpu() if flat else None
    made: list[dict[int, _Game]] = [{} for _ in games]
    ends = itertools.accumulate(len(part) for _, part in parts)
    for (place, part), end in zip(parts, ends, strict=True):
        rows = range(end - len(part), end)
        game = _Game(observer, games[place], part, rows, found, attack, seed)
        made[place][len(part)] = game
    whole = [each[len(own)] for each, own in zip(made, views, strict=True)]
    picks = [each.pick(None) for each in whole]
    chosen = torch.tensor([each.place for each in picks])
    failed = torch.tensor([each.broken for each in whole])
    tagged = torch.tensor([game.tagged for game in games])

    def right(places: torch.Tensor) -> torch.Tensor:
        return (places == tagged) | failed

    def after(rounds: int) -> torch.Tensor:
        then = (
            each.get(len(_seen(own, rounds)), each[len(own)])
            for each, own in zip(made, views, strict=True)
        )
        return right(torch.tensor([each.pick(rounds).place for each in then]))

    believes = found is not None and found.log_probability is not None
    return Picks(
        chosen,
        right(chosen),
        failed,
        {t: after(t) for t in checkpoints},
        torch.stack([torch.softmax(each.scores, 0) for each in picks]) if believes else None,
        torch.stack([each.picture for each in picks]),
    )


def _beginning(game: Game, views: Sequence[View]) -> int:
    """Each beginning of a training that is looked at is a training of its own, with a number."""
    return Seeded(game.number).integer("beginning", len(views))


def _seen(views: Sequence[View], rounds: int | None) -> list[View]:
    """Those of a game that stand before a round (None: all)."""
    return [view for view in views if rounds is None or view.round < rounds]


@dataclass(frozen=True, eq=False)
class _Pick:
    """The place picked, what spoke for each candidate [N], and what to show for the pick."""

    place: int
    scores: torch.Tensor
    picture: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Game:
    """One game's part of an attack's findings, `rows` of them."""

    observer: Observer
    game: Game
    views: Sequence[View]
    rows: range
    found: Reconstructions | None
    attack: Attack
    seed: int
    _picks: dict[int, _Pick] = field(default_factory=dict)  # by the number of views used

    @property
    def broken(self) -> bool:
        """Whether the attack broke down on a view of this game."""
        if self.found is None or not self.rows:
            return False
        failed = self.found.failed[self.rows.start : self.rows.stop]
        belief = self.found.log_probability
        odd = belief is not None and bool(torch.isnan(belief[list(self.rows)]).any())
        return odd or bool(failed.any())

    def pick(self, rounds: int | None) -> _Pick:
        """The pick after so many rounds (None: all)."""
        seen = [
            row
            for row, view in zip(self.rows, self.views, strict=True)
            if rounds is None or view.round < rounds
        ]
        if len(seen) not in self._picks:
            self._picks[len(seen)] = self._pick(seen)
        return self._picks[len(seen)]

    def _pick(self, seen: list[int]) -> _Pick:
        arena = self.observer.arena
        candidates = arena.pool.inputs[torch.from_numpy(self.game.line_up)]
        draw = Seeded(self.seed).torch_generator("pick", self.attack.name, self.game.number)
        scores, picture = torch.zeros(len(candidates)), _nothing(candidates[0])
        if self.found is not None and seen and not self.broken:
            known = RUNGS.index(self.attack.rung) >= RUNGS.index("public")
            others = arena.scenario.public_records.inputs if known else candidates
            scores, picture = _scores(self.found, seen, candidates, others, arena.scenario.measure)
        return _Pick(pick(scores, draw), scores, picture)


def _nothing(like: torch.Tensor) -> torch.Tensor:
    """What an attack shows that found nothing: no number, or no token."""
    return torch.full_like(like, torch.nan if like.is_floating_point() else -1)


def _scores(
    found: Reconstructions,
    rows: list[int],
    candidates: torch.Tensor,
    others: torch.Tensor,
    distance: Distance,
) -> tuple[torch.Tensor, torch.Tensor]:
    """How much speaks for each candidate [N], and what the attack would show for its pick."""
    if found.log_probability is not None:
        scores = found.log_probability[rows].double().sum(0)
        return scores, candidates[int(torch.nan_to_num(scores, nan=-torch.inf).argmax())]
    if found.tokens is not None:
        there = found.tokens[rows]
        scores = token_scores(there, candidates)
        best = candidates[int(torch.nan_to_num(scores, nan=-torch.inf).argmax())]
        # of its words, those that were found
        return scores, torch.where(there.amax(0)[best] > 0.5, best, -1)
    # The rounds share the record. Were each reconstruction off by Gaussian errors of a size that
    # is unknown, -log(squared distance) were its log likelihood: so a round that shows the record
    # clearly decides, and several that show it faintly add up.
    guesses = found.inputs if found.guesses is None else found.guesses
    tables = []
    for row in rows:
        made = guesses[row]
        table = distances(made, candidates, distance)
        if len(made) > 1:
            table = table / commonness(made, others, distance)[:, None]
            table = torch.where(torch.isnan(table), torch.inf, table)
        tables.append(table)
    near = torch.stack([table.amin(0) for table in tables])
    scores = -near.clamp(min=torch.finfo(near.dtype).tiny).log().sum(0)
    read = [found.readings[row] for row in rows] if found.readings is not None else []
    told = [each.log_likelihood(candidates).cpu() for each in read if each is not None]
    if told:  # nearness of a guess to all inputs would only blur what is exact
        scores = torch.stack(told).sum(0)
    place = int(scores.argmax())
    shown = int(torch.cat([table[:, place] for table in tables]).argmin())
    return scores, found.inputs[rows].flatten(0, 1)[shown]
