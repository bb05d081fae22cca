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

from trilemma.attacks.matching.memory import Memory
from trilemma.learning.recording.capturing import Repeated

__all__ = ["Evaluate", "Minima", "Still", "minimise"]

Evaluate = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

_ARMIJO = 1e-4
_SHORTENINGS = 12  # of one line search, before the memory is dropped and then the job ends
_STALL = 20  # accepted steps in a row without visible progress before a job ends

_ROUNDS = 8  # between questions to a GPU, which answers when all before is done

# What a round changes, and what else is one a slot.
_CHANGED = (
    *("point", "trial", "gradient", "direction", "loss", "step", "slope"),
    *("shortened", "stalled", "spent", "ended"),
)
_SLOT_STATE = ("unit", "restart", "idle", *_CHANGED)


@dataclass(frozen=True)
class Still:
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
    return _Run(bind, starts, limits, history, slots).run()


@dataclass(frozen=True, eq=False)
class _Limits:
    tolerance: torch.Tensor
    solved: torch.Tensor
    resolution: torch.Tensor
    iterations: int


class _Run:
    def __init__(
        self,
        bind: Callable[[torch.Tensor], Evaluate],
        starts: torch.Tensor,
        limits: _Limits,
        history: int,
        slots: int,
    ) -> None:
        units, _, size = starts.shape
        width = min(slots, units)
        self.bind, self.starts, self.limits = bind, starts, limits
        self.queue: deque[tuple[int, int]] = deque((unit, 0) for unit in range(units))
        self.memory = Memory(width, history, starts[0])
        self.unit = torch.zeros(width, dtype=torch.long, device=starts.device)
        self.idle = torch.zeros_like(self.unit, dtype=torch.bool)
        self.ended = torch.zeros_like(self.idle)
        self.restart = torch.zeros_like(self.unit)
        self.point = starts.new_zeros(width, size)
        self.trial = torch.zeros_like(self.point)
        self.gradient = torch.zeros_like(self.point)
        self.direction = torch.zeros_like(self.point)
        self.loss = starts.new_full((width,), torch.inf)
        self.step = starts.new_ones(width)
        self.slope = starts.new_zeros(width)
        self.shortened = torch.zeros_like(self.unit)
        self.stalled = torch.zeros_like(self.unit)
        self.spent = torch.zeros_like(self.unit)
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
            if not bool(self.ended.any()):
                continue
            changed = self._retire()
            if bool(self.idle.all()):
                return self.best
            if changed:
                before, evaluate = evaluate, self.bind(self.unit.clone())
                if evaluate is not before:
                    advance, rounds = self._rounds(evaluate)

    def _rounds(self, evaluate: Evaluate) -> tuple[Callable[[], None], int]:
        """A function that does one round with all slots, and how often to do it unasked."""
        if not (isinstance(evaluate, Still) and self.point.is_cuda):
            return lambda: self._advance(*evaluate(self.trial)), 1

        def advance() -> None:
            before = {name: getattr(self, name) for name in _CHANGED}
            self._advance(*evaluate(self.trial))
            for name, tensor in before.items():  # where the graph finds it the next time
                setattr(self, name, tensor.copy_(getattr(self, name)))

        return Repeated(advance), _ROUNDS

    def _advance(self, loss: torch.Tensor, gradient: torch.Tensor) -> None:
        """Judge every trial point, note which slots ended, and set the next of the others."""
        going = ~self.ended
        self.spent = self.spent + going
        fresh = self.loss == torch.inf
        loss = torch.where(torch.isfinite(loss) & torch.isfinite(gradient.sum(1)), loss, torch.inf)
        broken = fresh & (loss == torch.inf)
        accepted = (fresh | (loss <= self.loss + _ARMIJO * self.step * self.slope)) & ~broken
        accepted = accepted & going
        progress = (self.loss - loss) > torch.maximum(
            1e-7 * loss, self.limits.resolution[self.unit]
        )
        self.stalled = torch.where(accepted & ~progress & ~fresh, self.stalled + 1, self.stalled)
        self.stalled = torch.where(accepted & progress, 0, self.stalled)

        steps = self.trial - self.point
        changes = gradient - self.gradient
        curved = (steps * changes).sum(1) > 1e-10 * (changes * changes).sum(1)
        shorter = self._shorter_step(loss)
        self._accept(accepted, loss, gradient)
        quasi = self.memory.update(accepted & ~fresh & curved, steps, changes, self.gradient)
        self._redirect(accepted, quasi)

        self.step = torch.where(accepted, self.step, shorter)
        self.shortened = torch.where(accepted, 0, self.shortened + 1)
        stuck = self.shortened > _SHORTENINGS
        hopeless = stuck & (self.memory.count == 0)
        if _perhaps(stuck & ~hopeless):
            self._forget(stuck & ~hopeless)
        self.trial = torch.addcmul(self.point, self.step[:, None], self.direction)
        self.ended = self.ended | ~self.idle & (
            (self.loss <= self.limits.tolerance[self.unit])
            | (self.spent >= self.limits.iterations)
            | (self.stalled >= _STALL)
            | hopeless
            | broken
        )

    def _shorter_step(self, loss: torch.Tensor) -> torch.Tensor:
        """The minimum of the parabola through both values and the slope, kept in [t/10, t/2]."""
        rise = loss - self.loss - self.step * self.slope
        parabola = -self.slope * self.step**2 / (2 * rise)
        parabola = torch.where(torch.isfinite(parabola), parabola, 0.0)
        return torch.clamp(parabola, 0.1 * self.step, 0.5 * self.step)

    def _accept(self, accepted: torch.Tensor, loss: torch.Tensor, gradient: torch.Tensor) -> None:
        self.point = torch.where(accepted[:, None], self.trial, self.point)
        self.gradient = torch.where(accepted[:, None], gradient, self.gradient)
        self.loss = torch.where(accepted, loss, self.loss)

    def _redirect(self, accepted: torch.Tensor, quasi: torch.Tensor) -> None:
        """Give accepted slots their quasi-Newton direction, or steepest descent if none."""
        slope = (quasi * self.gradient).sum(1)
        descent = (slope < 0) & torch.isfinite(slope) & (self.memory.count > 0)
        lost = accepted & ~descent & (self.memory.count > 0)
        if _perhaps(lost):
            self.memory.clear(lost)
        direction = torch.where(descent[:, None], quasi, -self.gradient)
        first = 1 / self.gradient.abs().sum(1).clamp(min=1.0)
        step = torch.where(descent, torch.ones_like(first), first)
        self.direction = torch.where(accepted[:, None], direction, self.direction)
        self.slope = torch.where(accepted, (direction * self.gradient).sum(1), self.slope)
        self.step = torch.where(accepted, step, self.step)

    def _forget(self, stuck: torch.Tensor) -> None:
        """A line search that found nothing: drop the memory and try steepest descent."""
        self.memory.clear(stuck)
        self.shortened = torch.where(stuck, 0, self.shortened)
        self._redirect(stuck, -self.gradient)

    def _retire(self) -> bool:
        """Book finished jobs, queue further starts of unsolved units, refill or drop slots.

        Whether slots have other units now.
        """
        slots = torch.nonzero(self.ended)[:, 0]
        units, loss = self.unit[slots], self.loss[slots]
        self.best.evaluations.index_add_(0, units, self.spent[slots])
        better = loss < self.best.loss[units]
        won = units[better]
        self.best.points[won] = self.point[slots][better]
        self.best.loss[won] = loss[better]
        self.best.restart[won] = self.restart[slots][better]
        solved = (loss <= self.limits.solved[units]).tolist()
        for unit, restart, done in zip(
            units.tolist(), self.restart[slots].tolist(), solved, strict=True
        ):
            if not done and restart + 1 < self.starts.shape[1]:
                self.queue.append((unit, restart + 1))
        changed = self._fill(slots)
        busy = int((~self.idle).sum())
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
        self.idle[slots], self.ended[slots] = True, False
        if not jobs:
            return False
        slots = slots[: len(jobs)]
        table = torch.tensor(jobs, device=slots.device)
        self.idle[slots] = False
        self.unit[slots] = table[:, 0]
        self.restart[slots] = table[:, 1]
        self.trial[slots] = self.starts[table[:, 0], table[:, 1]]
        self.loss[slots] = torch.inf
        for counter in (self.shortened, self.stalled, self.spent):
            counter[slots] = 0
        self.memory.clear(torch.zeros_like(self.idle).index_fill(0, slots, True))
        return True

    def _narrow(self, width: int) -> None:
        """Keep `width` slots, the busy ones first."""
        keep = torch.argsort(self.idle.to(torch.int8), stable=True)[:width]
        self.memory.keep(keep)
        for name in _SLOT_STATE:
            setattr(self, name, getattr(self, name)[keep])


def _perhaps(slots: torch.Tensor) -> bool:
    """Whether there are such slots [A]; of a GPU they are taken for granted, which is quicker."""
    return slots.is_cuda or bool(slots.any())
