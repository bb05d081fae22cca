"""The exact attacker that knows a pool of candidate records and the law of the mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch.func import vmap

from trilemma.attacks.base import Reconstructions, Rung, View
from trilemma.attacks.matching import Units, explained_update
from trilemma.errors import InvalidInput

__all__ = ["Pool"]

_BLOCK = 256  # candidates whose updates are held at once


@dataclass(frozen=True)
class Pool:
    """Which record of a pool (inputs [P, *shape], labels [P] or None) it was, by Bayes.

    Under Gaussian noise of deviation s on the known coordinates the posterior under a uniform
    prior is softmax_j(-‖G - g_j‖² / 2s²); under uniform noise it is even over the candidates
    within its half-width everywhere; without noise it is the nearest candidate. Without labels
    the class is summed out. Several records are found one position at a time, from the best
    greedy choice, until no exchange brings the sum nearer.
    """

    pool: tuple[torch.Tensor, torch.Tensor | None] = field(repr=False)

    def __post_init__(self) -> None:
        inputs, labels = self.pool
        if inputs.shape[0] < 1 or (labels is not None and labels.shape[0] != inputs.shape[0]):
            raise InvalidInput("a pool needs at least one record, and one label a record.")

    @property
    def name(self) -> str:
        return "pool"

    @property
    def rung(self) -> Rung:
        return "candidates"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = Units.of(views, "auto")
        view = units.view
        inputs: torch.Tensor
        labels: torch.Tensor | None
        if view.records == 1:
            belief = self.log_posterior(views)
            chosen = belief.argmax(1, keepdim=True)
            inputs, labels = self.pool
            loss = -belief.amax(1)
        else:
            inputs, labels = self._candidates(units)
            found = [self._exchange(units, index) for index in range(len(units))]
            chosen = torch.stack([rows for rows, _ in found])
            loss = torch.stack([distance for _, distance in found])
        dtype = view.observation.update.dtype
        picked = inputs[chosen].to(dtype).clamp(view.input_spec.low, view.input_spec.high)
        return Reconstructions(
            picked,
            None if labels is None else labels[chosen],
            loss.to(dtype),
            torch.isnan(loss),
        )

    def log_posterior(self, views: Sequence[View]) -> torch.Tensor:
        """Log posterior [U, P] over the pool for units of one record each."""
        units = Units.of(views, "auto")
        if units.view.records != 1:
            raise InvalidInput(
                f"the exact posterior is over single records, but each unit holds "
                f"{units.view.records}; attack them with a call instead."
            )
        rows = []
        for index, view in enumerate(views):
            squared, largest = self._distances(units, index)
            noise = view.observation.noise
            if noise is None or noise.scale == 0:
                # the limit s -> 0: all mass on the nearest
                scores = _even(squared == squared.min(), squared)
            elif noise.kind == "gaussian":
                scores = -squared / (2 * noise.scale**2)
            else:
                within = largest <= noise.scale * (1 + 1e-6)
                nearest = largest == largest.min()  # rounding may leave no candidate within
                scores = _even(within if bool(within.any()) else nearest, squared)
            if self.pool[1] is None:
                scores = torch.logsumexp(scores.reshape(self.pool[0].shape[0], -1), 1)
            rows.append(torch.log_softmax(scores, 0))
        return torch.stack(rows)

    def _candidates(self, units: Units) -> tuple[torch.Tensor, torch.Tensor]:
        """Records and labels; every class of each record where labels are not known."""
        inputs, labels = self.pool
        task = units.view.task
        if tuple(inputs.shape[1:]) != units.view.input_spec.shape:
            raise InvalidInput(
                f"the pool's records have shape {tuple(inputs.shape[1:])}, "
                f"but the task takes {units.view.input_spec.shape}."
            )
        inputs = inputs.to(units.weights)
        if labels is not None:
            return inputs, labels.to(inputs.device)
        if task.classes is None:
            raise InvalidInput("a pool without labels needs a classification task; give labels.")
        classes = torch.arange(task.classes, device=inputs.device)
        return inputs.repeat_interleave(task.classes, 0), classes.repeat(inputs.shape[0])

    def _updates(
        self, units: Units, index: int, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """What a client with that single record sends [n, m], on the known coordinates."""
        view = units.view
        one = units.client_weights.new_ones(1)
        repeated = view.local_training.unit_size

        def update(record: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
            return explained_update(
                view.task,
                units.weights[index],
                record.expand(repeated, *record.shape),
                label.expand(repeated, *label.shape),
                view.local_training,
                one,
                view.observation.clip,
            )

        return units.known[index] * vmap(update)(inputs, labels)

    def _distances(self, units: Units, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared and largest distance of each candidate's update to the observed one."""
        inputs, labels = self._candidates(units)
        squared, largest = [], []
        scale = units.client_weights[index, 0]
        for block, names in _blocks(inputs, labels):
            gap = scale * self._updates(units, index, block, names) - units.update[index]
            squared.append((gap**2).sum(1))
            largest.append(gap.abs().amax(1))
        return torch.cat(squared), torch.cat(largest)

    def _exchange(self, units: Units, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The records [S] whose updates add up nearest to the observed one, by exchanges."""
        view = units.view
        size = view.local_training.unit_size
        if size > 1 and (view.local_training.algorithm != "fedsgd" or view.observation.clip):
            raise InvalidInput(
                "the pool attack adds up single records' updates, which several records of a "
                "clipped or fedavg client do not; use 'dlg' there."
            )
        inputs, labels = self._candidates(units)
        blocks = _blocks(inputs, labels)
        updates = torch.cat([self._updates(units, index, *block) for block in blocks])
        squares = updates**2
        shares = units.client_weights[index] / size
        shares = shares.reshape(shares.shape[0], -1).expand(-1, updates.shape[1])
        shares = shares.repeat_interleave(size, 0)
        chosen = torch.full((view.records,), -1, device=inputs.device)
        rest = units.update[index].clone()
        for _ in range(10 * view.records):  # each pass lowers the distance, so it ends earlier
            before = chosen.clone()
            for position, share in enumerate(shares):
                old = int(chosen[position])
                if old >= 0:
                    rest = rest + share * updates[old]
                new = int((squares @ share**2 - 2 * (updates @ (share * rest))).argmin())
                chosen[position] = new
                rest = rest - share * updates[new]
            if torch.equal(before, chosen):
                break
        return chosen, (rest**2).sum()


def _blocks(
    inputs: torch.Tensor, labels: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return zip(torch.split(inputs, _BLOCK), torch.split(labels, _BLOCK), strict=True)


def _even(possible: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Log weights 0 for what is possible, -∞ for the rest."""
    return torch.zeros_like(like).masked_fill(~possible, -torch.inf)
