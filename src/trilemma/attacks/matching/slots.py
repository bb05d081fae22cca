"""A round of L-BFGS in every slot: trial points are judged, and the next ones set.

It is some hundred operations on a few numbers each. They ask the tensors nothing, and change them
in place: a GPU can do them as a part of one graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trilemma.attacks.matching.lbfgs_history import Memory

__all__ = ["Slots"]

_ARMIJO = 1e-4
_SHORTENINGS = 12  # of one line search, before the memory is dropped and then the job ends
_STALL = 20  # accepted steps in a row without visible progress before a job ends


@dataclass(eq=False)
class Slots:
    """Where each slot's search stands, all [A, ...]; changed in place.

    `seen` [A, 3, d] are its last step, the gradient, and how that has changed. It ends at a loss
    of `tolerance`, after `iterations`, or when it has long gained less than `resolution` a step;
    it is `busy` until its end is booked.
    """

    memory: Memory
    point: torch.Tensor
    trial: torch.Tensor
    direction: torch.Tensor
    seen: torch.Tensor
    loss: torch.Tensor
    step: torch.Tensor
    gradient: torch.Tensor
    tolerance: torch.Tensor
    resolution: torch.Tensor
    iterations: torch.Tensor
    shortened: torch.Tensor
    stalled: torch.Tensor
    spent: torch.Tensor
    busy: torch.Tensor
    ended: torch.Tensor

    @classmethod
    def idle(cls, width: int, history: int, like: torch.Tensor, iterations: int) -> Slots:
        """So many without a search, for vectors like this one."""
        size, memory = like.shape[-1], Memory.empty(width, history, like)
        none = memory.count
        tensors = (
            *(like.new_zeros(width, size) for _ in range(3)),
            like.new_zeros(width, 3, size),
            *(like.new_zeros(width) for _ in range(5)),
            torch.full_like(none, iterations),
            *(torch.zeros_like(none) for _ in range(3)),
            *(torch.zeros_like(none, dtype=torch.bool) for _ in range(2)),
        )
        return cls(memory, *tensors)

    def begin(
        self,
        slots: torch.Tensor,
        starts: torch.Tensor,
        tolerance: torch.Tensor,
        resolution: torch.Tensor,
    ) -> None:
        """Have `slots` [B], their places, begin searches at `starts` [B, d]."""
        self.busy[slots], self.trial[slots] = True, starts
        self.tolerance[slots], self.resolution[slots] = tolerance, resolution
        self.loss[slots], self.step[slots], self.gradient[slots] = torch.inf, 1, 0
        for counter in (self.shortened, self.stalled, self.spent):
            counter[slots] = 0
        self.memory.clear(torch.zeros_like(self.busy).index_fill(0, slots, True))

    def keep(self, slots: torch.Tensor) -> None:
        """Drop all but these."""
        for name, tensor in vars(self).items():
            if name != "memory":
                setattr(self, name, tensor[slots])
        self.memory.keep(slots)

    def advance(self, loss: torch.Tensor, gradient: torch.Tensor) -> None:
        """Judge every trial point, note which slots ended, and set the next of the others."""
        lost = self._judged(loss, gradient)
        if lost.is_cuda or bool(lost.any()):  # of a GPU they are taken for granted
            self._descend(lost)

    def _judged(self, loss: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """All of a round but steepest descents; which slots [A] need one."""
        going = ~self.ended
        self.spent += going
        fresh = self.loss == torch.inf
        total = gradient.sum(1)
        finite = loss - loss == total - total
        loss = loss.masked_fill(~finite, torch.inf)
        gain = self.loss - loss
        accepted = (loss <= self.loss + _ARMIJO * self.step * self.gradient) & finite & going
        progress = (gain > torch.maximum(1e-7 * loss, self.resolution)) | fresh
        self.stalled += accepted
        self.stalled.masked_fill_(accepted & progress, 0)
        self.shortened += 1
        self.shortened.masked_fill_(accepted, 0)
        self._shorten_step(gain)
        self.step.masked_fill_(accepted, 1)

        moved = accepted.unsqueeze(1)
        steps, known, changes = self.seen.unbind(1)
        torch.sub(self.trial, self.point, out=steps)
        torch.sub(gradient, known, out=changes)
        curved = (steps * changes).sum(1) > 1e-10 * (changes * changes).sum(1)
        torch.where(accepted, loss, self.loss, out=self.loss)
        torch.where(moved, self.trial, self.point, out=self.point)
        torch.where(moved, gradient, known, out=known)
        quasi = self.memory.update(accepted & ~fresh & curved, self.seen)
        gradient = (quasi * known).sum(1)
        torch.where(accepted, gradient, self.gradient, out=self.gradient)
        torch.where(moved, quasi, self.direction, out=self.direction)
        torch.addcmul(self.point, self.step.unsqueeze(1), self.direction, out=self.trial)

        remembered = self.memory.count > 0
        descent = (gradient.nan_to_num(0, 0, 0) < 0) & remembered
        stuck = self.shortened > _SHORTENINGS
        self.ended |= self.busy & (
            (self.loss <= self.tolerance)
            | (self.spent >= self.iterations)
            | (self.stalled >= _STALL)
            | stuck & ~remembered
            | fresh & ~finite
        )
        return accepted & ~descent | stuck & remembered

    def _shorten_step(self, gain: torch.Tensor) -> None:
        """The minimum of the parabola by both values and the gradient, kept in [t/10, t/2]."""
        fall = gain + self.step * self.gradient
        parabola = self.gradient * self.step.square() / (fall + fall)
        parabola = parabola.nan_to_num(0, 0, 0)
        torch.clamp(parabola, 0.1 * self.step, 0.5 * self.step, out=self.step)

    def _descend(self, slots: torch.Tensor) -> None:
        """Drop the memory of `slots` [A], a mask, and try steepest descent."""
        gradient = self.seen[:, 1]
        self.memory.clear(slots)
        self.shortened.masked_fill_(slots, 0)
        first = 1 / gradient.abs().sum(1).clamp(min=1.0)
        torch.where(slots, first, self.step, out=self.step)
        torch.where(slots, -(gradient * gradient).sum(1), self.gradient, out=self.gradient)
        torch.where(slots[:, None], -gradient, self.direction, out=self.direction)
        torch.addcmul(self.point, self.step[:, None], self.direction, out=self.trial)
