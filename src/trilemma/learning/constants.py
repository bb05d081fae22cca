"""What a module holds besides what it trains, in the precision of the weights at hand."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["constants", "converted"]

_Copies = dict[torch.dtype, tuple[tuple[int, int], torch.Tensor]]
"""A copy of each type, with the place and the version of what it was made of."""

# Not in the task, which would take them along to every worker; gone with what they are made of.
_COPIES: MutableMapping[torch.Tensor, _Copies] = WeakTensorKeyDictionary()


def constants(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Buffers and frozen parameters by all their names, in modules that each are named once."""
    for path, part in module.named_modules():
        frozen = (
            (name, item)
            for name, item in part.named_parameters(recurse=False, remove_duplicate=False)
            if not item.requires_grad
        )
        buffers = part.named_buffers(recurse=False, remove_duplicate=False)
        for name, item in chain(frozen, buffers):
            yield f"{path}.{name}" if path else name, item


def converted(
    module: nn.Module, trained: torch.dtype, wanted: torch.dtype
) -> dict[str, torch.Tensor]:
    """Those constants by name that have the trained parameters' type, in the one that is wanted.

    What the module holds in another type on purpose stays as it is. Copies are made once: whoever
    records what is done with them finds the same tensors again, and nothing is copied on replay.
    """
    if trained == wanted:
        return {}
    return {name: _copy(item, wanted) for name, item in constants(module) if item.dtype == trained}


def _copy(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    copies = _COPIES.setdefault(tensor, {})
    state = tensor.data_ptr(), tensor._version
    if dtype not in copies or copies[dtype][0] != state:
        # A copy made under torch.func or a recorder would be theirs, and of no use to others; both
        # are of one thread.
        with ThreadPoolExecutor(1) as outside:
            copies[dtype] = state, outside.submit(_detached, tensor, dtype).result()
    return copies[dtype][1]


def _detached(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to(dtype)
