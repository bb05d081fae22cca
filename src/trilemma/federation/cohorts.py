"""The clients' side of training in one process: who takes part, on which records, what comes out.

Everything is drawn from paths of one seed that name the round and the client, so that runs with
and without protection meet the same cohorts and the same batches.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, Protocol

import torch
from torch.utils.flop_counter import FlopCounterMode

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining, Task, client_update, draw_rows, stack_rows, traced
from trilemma.learning.modules import scores

__all__ = ["Cohorts", "Federated", "Labelled", "drawn_cohort", "pooled"]

# Beyond so many flops a CPU is busy with one client's step, and per-client weights in one pass
# only cost it cache: measured, the two ways meet between 2 (vmapped wins) and 4.5 Mflop.
_BUSY_FLOPS: Final = 3_000_000
_FEW: Final = 6  # below so many clients the tracing of a pass costs a CPU more than it saves
_WIDEST: Final = 1 << 25  # coordinates of all the updates that one pass makes
_FEW_ROWS: Final = 10_000  # of a round, up to which they are kept
_SMALL: Final = 100_000  # parameters: of a larger model the work counts, not its bookkeeping


class Labelled(Protocol):
    """Records as two tensors: inputs [n, *shape] and labels [n, ...]."""

    @property
    def inputs(self) -> torch.Tensor: ...

    @property
    def labels(self) -> torch.Tensor: ...


class Federated(Protocol):
    """What can be trained: every `estimation.Scenario` is one."""

    @property
    def task(self) -> Task: ...

    @property
    def records(self) -> Sequence[Labelled]: ...

    @property
    def test_records(self) -> Labelled: ...

    @property
    def local_training(self) -> LocalTraining: ...

    @property
    def device(self) -> str: ...


class Cohorts:
    """Samples clients and computes their updates, all in one vmapped pass where that pays."""

    def __init__(self, federated: Federated, per_round: int, seed: int) -> None:
        self.task, self.local_training = federated.task, federated.local_training
        self.per_round, self.draws = per_round, Seeded(seed)
        self.sizes = [each.inputs.shape[0] for each in federated.records]
        self.starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)
        shapes = sorted({tuple(each.inputs.shape[1:]) for each in federated.records})
        if len(shapes) > 1:
            raise InvalidInput(
                f"all clients must train the same model, but their inputs have shapes {shapes}."
            )
        self.inputs, self.labels = pooled(federated)
        self.one_by_one = self._why_not_together()
        self._model = copy.deepcopy(self.task.model)
        # Nothing changes the model's constants during a training, for which `traced` would look.
        self._recorded: dict[torch.Size, Callable[..., torch.Tensor]] = {}

    def sample(self, number: int) -> tuple[int, ...]:
        """The clients of a round, in rising order."""
        return drawn_cohort(self.draws, len(self.sizes), self.per_round, number)

    def updates(
        self, weights: torch.Tensor, number: int, clients: Sequence[int]
    ) -> Sequence[torch.Tensor]:
        """The clients' updates [m] at `weights` [m] for the batches of this round."""
        rows, present = self._rows(number, clients)
        inputs, labels = self.inputs[rows], self.labels[rows]
        by_record = self.local_training.by_record
        if self.one_by_one is None or by_record:
            return self._together(weights, inputs, labels, present)
        return [self._alone(weights, *each) for each in zip(inputs, labels, strict=True)]

    def update(self, weights: torch.Tensor, number: int, client: int) -> torch.Tensor:
        """One client's update [m], computed by itself as on a machine of its own."""
        rows, present = self._rows(number, [client])
        inputs, labels = self.inputs[rows[0]], self.labels[rows[0]]
        if not self.local_training.by_record:
            return self._alone(weights, inputs, labels)
        here = None if present is None else present[0]
        with torch.no_grad():
            return client_update(self.task, weights, inputs, labels, self.local_training, here)

    def _rows(
        self, number: int, clients: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The records [K, B] of the clients' units, as rows of the pool, and who takes part."""
        sizes = tuple(self.sizes[client] for client in clients)
        # A client alone may be timed, which a draw from memory would spoil.
        few = len(clients) * self.local_training.unit_size <= _FEW_ROWS
        draw = _drawn if few and len(clients) > 1 else _drawn.__wrapped__
        own, here = draw(self.draws, number, tuple(clients), sizes, self.local_training)
        rows, device = own + self.starts[list(clients), None], self.inputs.device
        return rows.to(device), None if here is None else here.to(device)

    def _together(
        self,
        weights: torch.Tensor,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        present: torch.Tensor | None,
    ) -> Sequence[torch.Tensor]:
        training, by_record = self.local_training, self.local_training.by_record

        def one(
            at: torch.Tensor, x: torch.Tensor, y: torch.Tensor, here: torch.Tensor | None = None
        ) -> torch.Tensor:
            return client_update(self.task, at, x, y, training, here)

        made = inputs.shape[1] if by_record else 1  # gradients of a client
        chunk = max(1, _WIDEST // (made * weights.numel())) if self.one_by_one is None else 1
        masks = () if present is None else (present,)
        places = (None, *[0] * (2 + len(masks)))
        every: Callable[..., torch.Tensor] = self.task.way.vmap(one, places, chunk_size=chunk)
        example = (weights, inputs, labels, *masks)
        with torch.no_grad():
            # Poisson batches differ in size: recorded once each, they would be recorded for ever
            if not masks and chunk >= len(inputs) and weights.numel() <= _SMALL:
                if inputs.shape not in self._recorded:
                    recorded = traced(("cohort", training), self.task, every, example)
                    self._recorded[inputs.shape] = recorded
                every = self._recorded[inputs.shape]
            return every(*example).unbind()

    def _alone(
        self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """`client_update` on a module of its own (a test compares the two).

        Nothing is traced, which halves the time of a small model.
        """
        layout, setting = self.task.layout, self.local_training
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
                return torch.cat([each.reshape(-1) for each in grads])
            with torch.no_grad():
                torch._foreach_add_(own, grads, alpha=-setting.lr)
        with torch.no_grad():
            return weights - torch.cat([each.reshape(-1) for each in own])

    def _why_not_together(self) -> str | None:
        if self.task.way.kind == "looped":
            return self.task.way.reason
        if self.inputs.device.type != "cpu":
            return None
        if self.per_round < _FEW:
            return f"fewer than {_FEW} clients are quicker so on a CPU"
        weights = self.task.layout.flatten(dict(self.task.model.named_parameters())).detach()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            self.task.outputs(weights, self.inputs[: self.local_training.batch])
        flops = counter.get_total_flops()
        if flops <= _BUSY_FLOPS:
            return None
        return f"a step of {flops / 1e6:.0f} Mflop keeps a CPU busy with one client"


def pooled(federated: Federated) -> tuple[torch.Tensor, torch.Tensor]:
    """All clients' inputs and labels on the device; not to be changed.

    Kept on a GPU for the next who asks: there they must be brought, here they lie already.
    """
    here = torch.device(federated.device).type == "cpu"
    return (_pooled.__wrapped__ if here else _pooled)(_Same(federated))


class _Same:
    """A federation as itself: it need not be hashable, nor comparable with another."""

    def __init__(self, federated: Federated) -> None:
        self.federated = federated

    def __hash__(self) -> int:
        return id(self.federated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.federated is self.federated


@lru_cache(maxsize=1)
def _pooled(same: _Same) -> tuple[torch.Tensor, torch.Tensor]:
    federated = same.federated
    inputs = torch.cat([each.inputs for each in federated.records]).to(federated.device)
    labels = torch.cat([each.labels for each in federated.records]).to(federated.device)
    return inputs, labels


def drawn_cohort(draws: Seeded, everyone: int, per_round: int, number: int) -> tuple[int, ...]:
    """The clients of a round, in rising order."""
    if per_round == everyone:
        return tuple(range(everyone))
    draw = draws.generator("cohort", number)
    return tuple(sorted(draw.choice(everyone, per_round, replace=False).tolist()))


@lru_cache(maxsize=512)
def _drawn(
    draws: Seeded,
    number: int,
    clients: tuple[int, ...],
    sizes: tuple[int, ...],
    training: LocalTraining,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The places [K, B] that clients of these sizes draw in a round, and who takes part.

    Kept, because trainings under other protections draw the same: not to be changed.
    """
    each = zip(clients, sizes, strict=True)
    return stack_rows(
        [draw_rows(training, n, draws.generator("batch", number, k)) for k, n in each]
    )
