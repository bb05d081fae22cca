"""What clients send in a round before protection: each client's update, or the mean alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Final, cast

import torch
from torch.utils.flop_counter import FlopCounterMode

from trilemma.learning import Task, client_update, clipped_sums, traced
from trilemma.learning.forward_memory import RECORDED_AT_MOST, held_at_most, held_by_record
from trilemma.learning.modules import copied, scores

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining

__all__ = ["Sending", "forward_flops"]

# Beyond so many flops a CPU is busy with one client's step, and per-client weights in one pass
# only cost it cache: measured, the two ways meet between 2 (vmapped wins) and 4.5 Mflop.
_BUSY_FLOPS: Final = 3_000_000
_FEW: Final = 6  # below so many clients the tracing of a pass costs a CPU more than it saves
_WIDEST: Final = 1 << 25  # coordinates of all the updates that one pass makes
_SMALL: Final = 100_000  # parameters: of a larger model the work counts, not its bookkeeping
_WRITTEN: Final = 1 << 19  # coordinates of a round's gradients, record by record, written out
_Function = Callable[..., torch.Tensor]


class Sending:
    """What clients compute of records in one pool, at weights [m] or at [U, m] for U rounds.

    What a small model computes in every round alike is recorded, if it is asked for `often`.
    Recordings are kept here by their shapes alone: nothing changes the model's constants
    meanwhile, for which `traced` would look, a tenth of a round's time.
    """

    def __init__(
        self,
        task: Task,
        training: LocalTraining,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        *,
        often: bool = True,
    ) -> None:
        self.task, self.training, self.inputs, self.labels = task, training, inputs, labels
        self.one_by_one: str | None = None  # why clients do not compute in one pass
        self._often = often and task.layout.size <= _SMALL
        self._model = copied(task.model)
        self._recorded: dict[tuple[str, torch.Size], _Function] = {}
        self._looped = task.way.kind == "looped"

    def updates(
        self, weights: torch.Tensor, rows: torch.Tensor, present: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What K clients send of their rows [..., K, B] of the pool: [..., K, m].

        `present` [..., K, B] or [..., K, steps, B] is as in `client_update`.
        """
        if weights.ndim == 2:
            return self._side_by_side(weights, rows, present)
        by_record = self.training.by_record or present is not None
        self.one_by_one = self._why_one_by_one(len(rows))
        if self.one_by_one and not by_record:
            units = zip(*self._records(rows), strict=True)
            return torch.stack([self._on_module(weights, *unit) for unit in units])
        if self._clips_many(rows):
            self.one_by_one = self.task.way.reason if self._looped else None
            return self._clipped(weights, rows, self._shares(rows, present))
        gradients = rows.shape[1] if by_record else 1  # of a client
        width = min(_WIDEST // (gradients * weights.numel()), self._room // rows.shape[1])
        chunk = 1 if self.one_by_one else max(1, width)
        given, places = self._given(rows, present)
        every = self.task.way.vmap(self._send, places, chunk_size=chunk)
        # Poisson batches differ in size: recorded once each, they would be recorded for ever
        often = chunk >= len(rows) and present is None
        return self._run("updates", every, weights, *given, often=often)

    def _side_by_side(
        self, weights: torch.Tensor, rows: torch.Tensor, present: torch.Tensor | None
    ) -> torch.Tensor:
        """`updates` of U rounds at weights [U, m]: in one pass, or round by round."""
        if self._looped or self._clips_many(rows) or rows.numel() > self._room:
            masks: Iterable[torch.Tensor | None] = repeat(None) if present is None else present
            every = zip(weights, rows, masks, strict=False)
            return torch.stack([self.updates(*given) for given in every])
        given, places = self._given(rows, present)
        vmap = self.task.way.vmap
        send = vmap(vmap(self._send, places))
        return self._run("updates", send, weights, *given, often=present is None)

    def _given(
        self, rows: torch.Tensor, present: torch.Tensor | None
    ) -> tuple[tuple[torch.Tensor, ...], tuple[int | None, ...]]:
        """What `_send` takes behind the weights, and the axes along which clients lie."""
        given = (*self._records(rows), *(() if present is None else (present,)))
        return given, (None, *[0] * len(given))

    def means(
        self,
        weights: torch.Tensor,
        rows: torch.Tensor,
        shares: torch.Tensor,
        present: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """Σ_k share_k · update_k [U, m] of each round, shares [U, K], as one gradient; else None.

        It takes no client's gradient by itself, but must be all that the clients compute.
        """
        if self.training.algorithm != "fedsgd":
            return None
        if not self._clips and rows.numel() > self._room and len(rows) > 1:
            every = zip(weights, rows, shares, strict=True)
            parts = [self.means(at[None], r[None], share[None]) for at, r, share in every]
            return None if parts[0] is None else torch.cat([p for p in parts if p is not None])
        if self._clips_many(rows):
            own = (shares[..., None] * self._shares(rows, present)).flatten(1)
            every = zip(weights, rows.flatten(1), own, strict=True)
            return torch.cat([self._clipped(at, r[None], share[None]) for at, r, share in every])
        if self.training.by_record or present is not None:
            return None

        def mean(
            w: torch.Tensor, x: torch.Tensor, y: torch.Tensor, share: torch.Tensor
        ) -> torch.Tensor:
            def loss(at: torch.Tensor) -> torch.Tensor:
                losses: torch.Tensor = way.vmap(self.task.mean_loss, (None, 0, 0))(at, x, y)
                return (share * losses).sum()

            return cast("torch.Tensor", way.grad(loss)(w))

        way = self.task.way
        return self._run("means", way.vmap(mean), weights, *self._records(rows), shares)

    def alone(
        self, weights: torch.Tensor, rows: torch.Tensor, present: torch.Tensor | None
    ) -> torch.Tensor:
        """The update [m] of one client's rows [1, B], computed as on a machine of its own."""
        records = self._records(rows[0])
        if not self.training.by_record:
            return self._on_module(weights, *records)
        with torch.no_grad():
            return self._send(weights, *records, None if present is None else present[0])

    def _send(
        self,
        weights: torch.Tensor,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        present: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return client_update(self.task, weights, inputs, labels, self.training, present)

    def _clipped(
        self, weights: torch.Tensor, rows: torch.Tensor, shares: torch.Tensor
    ) -> torch.Tensor:
        """Sums [K, m] of the clipped gradients of rows [K, B], by shares [K, B]."""
        clip = self.training.record_clip or math.inf

        def sums(*given: torch.Tensor) -> torch.Tensor:
            at, x, y, share = given
            return clipped_sums(self.task, at, x, y, share, clip)

        given = weights, *self._records(rows), shares.to(weights)
        often = self.training.sampling != "poisson" and not weights.is_cuda  # there it is within
        often = often and rows.numel() * self._held <= RECORDED_AT_MOST
        if often and ("clipped", given[1].shape) not in self._recorded:
            with torch.no_grad():  # what is found out at the first call cannot be recorded
                sums(weights, *(item[:1, :1] for item in given[1:]))
        return self._run("clipped", sums, *given, often=often)

    def _clips_many(self, rows: torch.Tensor) -> bool:
        """Whether a round's gradients, clipped one by one, are too many to be written out."""
        if not self._clips:
            return False
        count = math.prod(rows.shape[-2:])
        return count * self.task.layout.size > _WRITTEN or count > self._room

    @property
    def _clips(self) -> bool:
        return self.training.algorithm == "fedsgd" and self.training.record_clip is not None

    def _shares(self, rows: torch.Tensor, present: torch.Tensor | None) -> torch.Tensor:
        """What each record's gradient is multiplied with, [..., K, B]."""
        there = torch.ones(rows.shape, device=rows.device) if present is None else present
        return there / self.training.batch

    def _run(
        self, name: str, function: _Function, *given: torch.Tensor, often: bool = True
    ) -> torch.Tensor:
        """The function of what is given, recorded where that pays."""
        with torch.no_grad():
            if not (often and self._often):
                return function(*given)
            key = name, given[1].shape  # of the inputs, by which all other shapes go
            if key not in self._recorded:
                self._recorded[key] = traced((name, self.training), self.task, function, given)
            return self._recorded[key](*given)

    def _records(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels [*rows.shape, ...], in a quarter of the time of inputs[rows]."""
        inputs, labels = (
            value.index_select(0, rows.flatten()).view(*rows.shape, *value.shape[1:])
            for value in (self.inputs, self.labels)
        )
        return inputs, labels

    def _on_module(
        self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """`client_update` on a module of its own (a test compares the two).

        Nothing is traced, which halves the time of a small model.
        """
        layout, setting = self.task.layout, self.training
        named = dict(self._model.named_parameters())
        own: list[torch.Tensor] = [named[name] for name in layout.names]
        given = list(layout.unflatten(weights).values())
        with torch.no_grad():
            torch._foreach_copy_(own, given)
        size = inputs.shape[0]
        for step in range(setting.steps):
            start = step * setting.batch % size
            if start + setting.batch <= size:
                rows: slice | torch.Tensor = slice(start, start + setting.batch)
            else:
                rows = torch.arange(start, start + setting.batch, device=inputs.device) % size
            loss = self.task.loss_of(scores(self._model(inputs[rows])), labels[rows])
            grads = torch.autograd.grad(loss, own, allow_unused=True, materialize_grads=True)
            if setting.algorithm == "fedsgd":
                return torch.cat([grad.reshape(-1) for grad in grads])
            with torch.no_grad():
                torch._foreach_add_(own, grads, alpha=-setting.lr)
        with torch.no_grad():
            return weights - torch.cat([item.reshape(-1) for item in own])

    def _why_one_by_one(self, clients: int) -> str | None:
        """Why clients are computed one after the other, if they are."""
        if self._looped:
            return self.task.way.reason
        if self.inputs.device.type != "cpu":
            return None
        if clients < _FEW:
            return f"fewer than {_FEW} clients are quicker so on a CPU"
        if self._flops <= _BUSY_FLOPS:
            return None
        return f"a step of {self._flops / 1e6:.0f} Mflop keeps a CPU busy with one client"

    @cached_property
    def _room(self) -> int:
        """Records whose forward passes may be held at once."""
        return held_at_most(self.inputs) // self._held

    @cached_property
    def _held(self) -> int:
        """Bytes that one record's forward pass holds."""
        start = self.task.layout.flatten(dict(self.task.model.named_parameters())).detach()
        return held_by_record(self.task, start, self.inputs[0], self.labels[0])

    @cached_property
    def _flops(self) -> int:
        return forward_flops(self.task, self.inputs[: self.training.batch])


def forward_flops(task: Task, inputs: torch.Tensor) -> int:
    """Multiplications and additions of matrix products and convolutions on the way forward."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        start = task.layout.flatten(dict(task.model.named_parameters()))
        task.outputs(start.detach(), inputs)
    return int(counter.get_total_flops())
