"""L-BFGS on many small problems at once, each with its own line search.

Every round evaluates one trial point of every slot; a slot whose trial is accepted updates its
memory and gets a new direction, the others shorten their step. So no slot ever waits for
another's line search, and a slot that ends takes the next job of the queue. A round asks the
tensors nothing, so that a GPU can do it as one graph; whether slots have ended is asked now and
then, and those that have stay as they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from trilemma.attacks.matching.slots import Slots
from trilemma.learning.recording.capturing import Repeated

__all__ = ["Evaluate", "Minima", "Search", "StaticEvaluation", "minimise"]

Evaluate = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

_ROUNDS = 8  # between questions to a GPU, which answers when all before is done


@dataclass(frozen=True)
class StaticEvaluation:
    """An evaluation that reads no number of a tensor, and none that will not stay in its place."""

    evaluate: Evaluate

    def __call__(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.evaluate(points)


@dataclass(frozen=True, eq=False)
class Minima:
    """points [U, d], loss [U], restart [U] that found it, evaluations [U] spent on each unit."""

    points: torch.Tensor
    loss: torch.Tensor
    restart: torch.Tensor
    evaluations: torch.Tensor


def minimise(
    bind: Callable[[torch.Tensor], Evaluate],
    starts: torch.Tensor,
    tolerance: torch.Tensor,
    *,
    solved: torch.Tensor,
    resolution: torch.Tensor,
    iterations: int,
    history: int,
    slots: int,
) -> Minima:
    """Minimise U independent functions from up to R starts each, `starts` [U, R, d].

    `bind(units [A])` returns a function points [A, d] -> (loss [A], gradient [A, d]) for those
    units. A job ends at a loss of `tolerance` [U], after `iterations` evaluations, or when it has
    long gained less than `resolution` [U] a step; a unit whose loss is at most `solved` [U]
    spends no further start. The result is the best point of all starts by loss.
    """
    limits = _Limits(tolerance, solved, resolution, iterations)
    return Search(bind, starts, limits, history, slots).run()


@dataclass(frozen=True, eq=False)
class _Limits:
    tolerance: torch.Tensor
    solved: torch.Tensor
    resolution: torch.Tensor
    iterations: int


class Search:
    """Jobs, a unit from a start each, in the slots of one search; the best of each unit so far."""

    def __init__(
        self,
        bind: Callable[[torch.Tensor], Evaluate],
        starts: torch.Tensor,
        limits: _Limits,
        history: int,
        slots: int,
    ) -> None:
        units = starts.shape[0]
        width = min(slots, units)
        self.bind, self.starts, self.limits = bind, starts, limits
        self.queue: deque[tuple[int, int]] = deque((unit, 0) for unit in range(units))
        self.slots = Slots.idle(width, history, starts[0], limits.iterations)
        self.unit = torch.zeros(width, dtype=torch.long, device=starts.device)
        self.restart = torch.zeros_like(self.unit)
        self.best = Minima(
            starts[:, 0].clone(),
            starts.new_full((units,), torch.inf),
            torch.zeros(units, dtype=torch.long, device=starts.device),
            torch.zeros(units, dtype=torch.long, device=starts.device),
        )

    def run(self) -> Minima:
        self._fill(torch.arange(self.unit.shape[0], device=self.unit.device))
        evaluate = self.bind(self.unit.clone())
        advance, rounds = self._rounds(evaluate)
        while True:
            for _ in range(rounds):
                advance()
            if not bool(self.slots.ended.any()):
                continue
            changed = self._retire()
            if not bool(self.slots.busy.any()):
                return self.best
            if changed:
                before, evaluate = evaluate, self.bind(self.unit.clone())
                if evaluate is not before:
                    advance, rounds = self._rounds(evaluate)

    def _rounds(self, evaluate: Evaluate) -> tuple[Callable[[], None], int]:
        """A function that does one round with all slots, and how often to do it unasked."""

        def advance() -> None:
            self.slots.advance(*evaluate(self.slots.trial))

        if isinstance(evaluate, StaticEvaluation) and self.unit.is_cuda:
            return Repeated(advance), _ROUNDS
        return advance, 1

    def _retire(self) -> bool:
        """Book finished jobs, queue further starts of unsolved units, refill or drop slots.

        Whether slots have other units now.
        """
        slots = torch.nonzero(self.slots.ended)[:, 0]
        units, loss = self.unit[slots], self.slots.loss[slots]
        self.best.evaluations.index_add_(0, units, self.slots.spent[slots])
        better = loss < self.best.loss[units]
        won = units[better]
        self.best.points[won] = self.slots.point[slots][better]
        self.best.loss[won] = loss[better]
        self.best.restart[won] = self.restart[slots][better]
        solved = (loss <= self.limits.solved[units]).tolist()
        for unit, restart, done in zip(
            units.tolist(), self.restart[slots].tolist(), solved, strict=True
        ):
            if not done and restart + 1 < self.starts.shape[1]:
                self.queue.append((unit, restart + 1))
        changed = self._fill(slots)
        busy = int(self.slots.busy.sum())
        width = self.unit.shape[0]
        # an evaluation is prepared for one width, so only a few widths should occur
        while 0 < busy <= width // 4:
            width //= 4
        if width < self.unit.shape[0]:
            self._narrow(width)
            changed = True
        return changed

    def _fill(self, slots: torch.Tensor) -> bool:
        """Give each of `slots` the next job of the queue, if there is one; else it is idle."""
        jobs = [self.queue.popleft() for _ in range(min(len(self.queue), slots.shape[0]))]
        self.slots.busy[slots], self.slots.ended[slots] = False, False
        if not jobs:
            return False
        slots = slots[: len(jobs)]
        units, restarts = torch.tensor(jobs, device=slots.device).unbind(1)
        self.unit[slots], self.restart[slots] = units, restarts
        self.slots.begin(
            slots,
            self.starts[units, restarts],
            self.limits.tolerance[units],
            self.limits.resolution[units],
        )
        return True

    def _narrow(self, width: int) -> None:
        """Keep `width` slots, the busy ones first."""
        keep = torch.argsort((~self.slots.busy).to(torch.int8), stable=True)[:width]
        self.slots.keep(keep)
        self.unit, self.restart = self.unit[keep], self.restart[keep]
