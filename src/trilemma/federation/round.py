"""One round of a federation: what its clients send, what is read of it, its mean, what it takes.

Trainings, games, recovered records and timings all run their rounds here. A training's round is
run by its messages, or by the same arithmetic without them. Rounds of federations that are
attacked side by side are drawn by their distribution: before a grid rounds them, and the noise of
a sum of which nobody reads more is drawn as one Gaussian (docs/benchmarks/rounds.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from trilemma.federation.cohort_updates import Sending
from trilemma.learning.precision import drawn_on
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.transforms.randomization import Randomization

if TYPE_CHECKING:
    from trilemma.entropy import Seeded
    from trilemma.learning import LocalTraining, Task
    from trilemma.observations import Adversary, Observation
    from trilemma.protection.protection import Protection
    from trilemma.protection.transcripts import RoundResult

__all__ = ["Answers", "Rounds"]


@dataclass(frozen=True, eq=False)
class Answers:
    """The clients that answer in a round, what each weighs in its mean, and where noise is drawn.

    `weights` are in the order of `info.participants`.
    """

    info: RoundInfo
    weights: Sequence[int]
    entropy: Seeded

    @classmethod
    def measured(cls, weights: Sequence[int], number: int, entropy: Seeded) -> Answers:
        """Clients 0, 1, ... of these weights in a round that is run to be attacked."""
        everyone, mask_seed = tuple(range(len(weights))), entropy.integer("mask")
        info = RoundInfo("measurement", number, everyone, len(everyone), mask_seed)
        return cls(info, weights, entropy)


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
        self, updates: Sequence[torch.Tensor], answers: Answers, **how: Any
    ) -> RoundResult:
        """The messages these updates take, their mean and seconds; `how` as in `run_round`."""
        given = self.protection, updates, answers.weights, answers.info
        return run_round(*given, entropy=answers.entropy, **how)

    def means(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        present: torch.Tensor | None,
        answers: Callable[[int], tuple[Answers, Sequence[int]]],
        *,
        shares: torch.Tensor,
        read: Mapping[int, Adversary],
        noise: Sequence[torch.Generator | None],
    ) -> tuple[torch.Tensor, dict[int, Observation], dict[int, torch.Tensor]]:
        """The means [U, m] of rounds of U federations at weights [U, m], and what is read of some.

        Besides, where noise is all that is added, what each of these shows without it [m].

        That is the message of the first client that answers, or the sum, where one of `read` reads
        it; a client that reads is the last that answers. `answers(u)` are the clients that do, and
        their places among the K that compute; `shares` [U, K] are the clients' parts where all do.
        Of a sum of which nobody reads more, the noise is drawn from `noise`; where that is None,
        the mean is not needed.
        """
        together = self._noise_alone is not None  # else clients' parts must be told apart
        places = range(len(weights))
        needed = [u for u in places if u in read or not (together or noise[u] is None)]
        if together and len(needed) < len(weights):
            means, updates = self._means_and_some(weights, rows, present, shares, needed)
        else:
            every = self.sending.updates(weights, rows, present)
            means, updates = torch.zeros_like(weights), [every[u] for u in needed]
        if together:
            self._add_noise(means, shares, noise)
        seen: dict[int, Observation] = {}
        bare: dict[int, torch.Tensor] = {}
        for u, own in zip(needed, updates, strict=True):
            who, order = answers(u)
            round = self._arithmetic([own[place] for place in order], who)
            if u in read:
                first = next(round.read_by(read[u], who.info.participants[-1]))
                seen[u] = replace(first, update=first.update.clone())  # not to hold all others
                if together and isinstance(first.weights, tuple):
                    behind = torch.stack([own[place] for place in order[: first.clients]])
                    bare[u] = behind.new_tensor(first.weights) @ behind
            if noise[u] is not None:
                means[u] = round.mean
        return means, seen, bare

    def _means_and_some(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        present: torch.Tensor | None,
        shares: torch.Tensor,
        some: list[int],
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """Means [U, m] of what is sent before protection, and some federations' updates [K, m]."""
        means = self.sending.means(weights, rows, shares, present)
        if means is None:
            every = self.sending.updates(weights, rows, present)
            return torch.einsum("uk,ukm->um", shares, every), [every[place] for place in some]
        if not some:
            return means, []
        here = None if present is None else present[some]
        return means, self.sending.updates(weights[some], rows[some], here).unbind()

    def _add_noise(
        self,
        means: torch.Tensor,
        shares: torch.Tensor,
        noise: Sequence[torch.Generator | None],
    ) -> None:
        """Adds to the means [U, m] the noise of all their clients, where that is all there is."""
        scales = ((self._noise_alone or 0.0) * shares.square().sum(1)).sqrt().tolist()
        for mean, scale, draw in zip(means, scales, noise, strict=True):
            if scale and draw is not None:
                own = torch.randn(mean.shape, generator=draw, dtype=mean.dtype, device=draw.device)
                mean.add_(own.to(mean.device), alpha=scale)

    @property
    def _noise_alone(self) -> float | None:
        """The variance of the noise where that is all a protection adds, 0 for none; else None."""
        match self.protection.transforms:
            case ():
                return 0.0
            case (Randomization(clip=None) as noise,):
                return noise.variance
        return None

    def _arithmetic(self, updates: Sequence[torch.Tensor], answers: Answers) -> Arithmetic:
        given = self.protection, updates, answers.weights, answers.info
        return Arithmetic(*given, answers.entropy)
