"""One round of a federation: what its clients send, what is read of it, its mean, what it takes.

Trainings, games, recovered records and timings all run their rounds here. A training's round is
run by its messages, or by the same arithmetic without them. Rounds of federations that are
attacked side by side are drawn by their law: before a grid rounds them, and the noise of a sum of
which nobody reads more is drawn as one Gaussian (docs/benchmarks/rounds.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from trilemma.federation.cohort_updates import Sending
from trilemma.learning.precision import drawn_on
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.session_rounds import run_round
from trilemma.protection.transforms.randomization import Randomization

if TYPE_CHECKING:
    from trilemma.entropy import Seeded
    from trilemma.learning import LocalTraining, Task
    from trilemma.observations import Adversary, Observation
    from trilemma.protection.protection import Protection
    from trilemma.protection.round_info import RoundInfo
    from trilemma.protection.transcripts import RoundResult

__all__ = ["Answers", "Rounds", "Side"]


@dataclass(frozen=True, eq=False)
class Answers:
    """The clients that answer in a round, what each weighs in its mean, and where noise is drawn.

    `weights` are in the order of `info.participants`.
    """

    info: RoundInfo
    weights: Sequence[int]
    entropy: Seeded


@dataclass(frozen=True, eq=False)
class Side:
    """One of the federations whose rounds run side by side.

    `draw` gives who answers, and their places among the clients that compute; it is asked where
    noise is drawn client by client. `adversary` reads the round (None: nobody does); a client that
    reads is the last that answers. `noise` is the stream for a sum of which nobody reads more
    (None: the mean is not needed).
    """

    draw: Callable[[], tuple[Answers, Sequence[int]]]
    adversary: Adversary | None = None
    noise: torch.Generator | None = None

    @cached_property
    def answers(self) -> tuple[Answers, Sequence[int]]:
        """Who answers, and their places."""
        return self.draw()


class Rounds:
    """Rounds of clients that train on records of one pool (inputs, labels) under a protection."""

    def __init__(
        self,
        task: Task,
        training: LocalTraining,
        pool: tuple[torch.Tensor, torch.Tensor],
        protection: Protection,
        *,
        often: bool = True,
    ) -> None:
        self.sending = Sending(task, training, *pool, often=often)
        self.protection = protection

    def mean(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        present: torch.Tensor | None,
        answers: Answers,
        *,
        messages: bool,
        secret: Any = None,
    ) -> torch.Tensor:
        """The mean [m] of what clients at weights [m] send of rows [K, B], to the bit.

        With `messages` every session is run, for which Paillier takes the clients' `secret` key.
        """
        updates = self.sending.updates(weights, rows, present)
        # Brought to where noise is drawn at once: a GPU would be handed a dozen operations a
        # client, each too small for it.
        here = updates.to(drawn_on(updates.device, updates.shape[1])).unbind()
        if messages:
            mean = self.exchanged(here, answers, secret=secret).mean
        else:
            mean = self._arithmetic(here, answers).exact_mean()
        return mean.to(weights.device)

    def exchanged(
        self,
        updates: Sequence[torch.Tensor],
        answers: Answers,
        *,
        secret: Any = None,
        drops: Mapping[int, int] | None = None,
    ) -> RoundResult:
        """The messages that these updates take, their mean and their seconds (`run_round`)."""
        return run_round(
            self.protection,
            updates,
            answers.weights,
            answers.info,
            entropy=answers.entropy,
            secret=secret,
            drops=drops,
        )

    def read(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        present: torch.Tensor | None,
        sides: Sequence[Side],
    ) -> list[Observation]:
        """What is read first of a round at each of the weights [U, m], by clients' rows [U, K, B].

        That is the message of the first client that answers, or the sum.
        """
        updates = self.sending.updates(weights, rows, present)
        pairs = zip(sides, updates, strict=True)
        return [self._first_read(side, self._answered(side, own)) for side, own in pairs]

    def means(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        present: torch.Tensor | None,
        shares: torch.Tensor,
        sides: Sequence[Side],
    ) -> tuple[torch.Tensor, dict[int, Observation]]:
        """The means [U, m] of rounds at weights [U, m], and what is read where somebody reads.

        `shares` [U, K] are the clients' parts in a mean in which all answer.
        """
        together = self._noise_alone is not None  # else clients' parts must be told apart
        needed = [
            place
            for place, side in enumerate(sides)
            if (side.adversary if together else side.noise) is not None
        ]
        means, every = None, len(needed) == len(sides)
        if together and not every:
            means = self.sending.means(weights, rows, shares, present)
        if means is None:
            updates = self.sending.updates(weights, rows, present)
            means = torch.zeros_like(weights)
            if not every:
                means, updates = torch.einsum("uk,ukm->um", shares, updates), updates[needed]
        elif needed:
            here = None if present is None else present[needed]
            updates = self.sending.updates(weights[needed], rows[needed], here)
        else:
            updates = weights[:0]
        self._add_noise(means, shares, sides)
        read = {}
        for place, own in zip(needed, updates, strict=True):
            arithmetic = self._answered(sides[place], own)
            if sides[place].adversary is not None:
                read[place] = self._first_read(sides[place], arithmetic)
            means[place] = arithmetic.mean
        return means, read

    def _add_noise(self, means: torch.Tensor, shares: torch.Tensor, sides: Sequence[Side]) -> None:
        """Adds to the means [U, m] the noise of all their clients, where that is all there is."""
        if not (variance := self._noise_alone):
            return
        scales = (variance * shares.square().sum(1)).sqrt().tolist()
        for mean, scale, side in zip(means, scales, sides, strict=True):
            if (draw := side.noise) is not None:
                noise = torch.randn(
                    mean.shape, generator=draw, dtype=mean.dtype, device=draw.device
                )
                mean.add_(noise.to(mean.device), alpha=scale)

    @property
    def _noise_alone(self) -> float | None:
        """The variance of the noise where that is all a protection adds, 0 for none; else None."""
        match self.protection.transforms:
            case ():
                return 0.0
            case (Randomization(clip=None) as noise,):
                return noise.variance
        return None

    def _answered(self, side: Side, updates: torch.Tensor) -> Arithmetic:
        """The round of those among clients with updates [K, m] that answer."""
        answers, places = side.answers
        return self._arithmetic([updates[place] for place in places], answers)

    def _arithmetic(self, updates: Sequence[torch.Tensor], answers: Answers) -> Arithmetic:
        given = self.protection, updates, answers.weights, answers.info
        return Arithmetic(*given, answers.entropy)

    def _first_read(self, side: Side, arithmetic: Arithmetic) -> Observation:
        assert side.adversary is not None
        read = next(arithmetic.read_by(side.adversary, arithmetic.round.participants[-1]))
        return replace(read, update=read.update.clone())  # not to hold all others' updates
