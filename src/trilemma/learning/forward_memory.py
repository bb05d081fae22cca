"""How much memory forward passes hold for backward: what decides how many records go at once.

Adapters are few numbers, and the body behind them holds much; so does a table of many words.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = [
    "HELD_AT_ONCE", "RECORDED_AT_MOST", "held_at_most", "held_by_record", "held_for_backward",
]  # fmt: skip

HELD_AT_ONCE: Final = 1 << 26  # bytes that forward passes leave for backward, of all records
_HELD_ON_GPU: Final = 1 << 32
RECORDED_AT_MOST: Final = 1 << 28  # what is recorded is held whole meanwhile
_HELD: OrderedDict[tuple[int, Hashable], tuple[Task, int]] = OrderedDict()
_KEPT: Final = 32


def held_at_most(like: torch.Tensor) -> int:
    """Bytes that forward passes may hold at once where this tensor is."""
    return _HELD_ON_GPU if like.is_cuda else HELD_AT_ONCE


def held_by_record(
    task: Task, weights: torch.Tensor, record: torch.Tensor, label: torch.Tensor
) -> int:
    """Bytes that one record's forward pass holds for backward, besides what the model itself has.

    Half of what two hold: BatchNorm takes no single one.
    """
    # Copies: the storage of a view is that of all records.
    inputs, labels = (torch.stack([item.detach()] * 2) for item in (record, label))

    def loss(at: torch.Tensor) -> torch.Tensor:
        return task.mean_loss(at, inputs, labels)

    return max(1, held_for_backward(task, record.shape, weights, loss) // 2)


def held_for_backward(
    task: Task,
    key: Hashable,
    weights: torch.Tensor,
    loss: Callable[[torch.Tensor], torch.Tensor],
) -> int:
    """Bytes that `loss` of weights [m] holds for backward, besides what the model itself has.

    Measured once for a task and a `key`.
    """
    place = id(task), (key, weights.dtype)
    if place not in _HELD:
        own = {weights.untyped_storage().data_ptr()}
        for parameter in (*task.model.parameters(), *task.model.buffers()):
            own.add(parameter.untyped_storage().data_ptr())
        found: dict[int, int] = {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                found[storage.data_ptr()] = storage.nbytes()
            return tensor

        start = weights.detach().requires_grad_()
        hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
        with torch.enable_grad(), hooks, sdpa_kernel(SDPBackend.MATH):
            loss(start)
        _HELD[place] = task, max(1, sum(found.values()))  # holding the task keeps its id
        if len(_HELD) > _KEPT:
            _HELD.popitem(last=False)
    return _HELD[place][1]
