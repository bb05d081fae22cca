"""A module's tensors: those that it does not train in another precision, and others in place."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

__all__ = ["constants", "converted", "holding"]

_Copies = dict[torch.dtype, tuple[tuple[int, int], torch.Tensor]]
"""A copy of each type, with the place and the version of what it was made of."""

# Not in the task, which would take them along to every worker; gone with what they are copies of.
_COPIES: MutableMapping[torch.Tensor, _Copies] = WeakTensorKeyDictionary()
_HOLDING: MutableMapping[nn.Module, nn.Module] = WeakKeyDictionary()


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

    What the module holds in another type on purpose stays as it is. Copies are made once: a
    recorder of what is done with them finds the same tensors again, and nothing is copied on
    replay.
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


def holding(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> nn.Module:
    """A copy of the module with tensors, by name, in the place of its own; until the next call.

    So a block that is checkpointed, and run once more in backward, meets the same tensors there.
    Buffers are new each time: what forward() leaves in them is seen by no other call.
    """
    if module not in _HOLDING:
        own = {
            id(parameter): parameter for parameter in chain(module.parameters(), module.buffers())
        }
        _HOLDING[module] = copy.deepcopy(module, own)
    held = _HOLDING[module]
    for mine, copied in zip(module.modules(), held.modules(), strict=True):
        copied.training = mine.training
    buffers = {name: item.clone() for name, item in module.named_buffers(remove_duplicate=False)}
    for name, tensor in {**buffers, **tensors}.items():
        path, _, own_name = name.rpartition(".")
        owner = held.get_submodule(path)
        if isinstance(getattr(owner, own_name), nn.Parameter):
            delattr(owner, own_name)  # no parameter may be the result of something else
        setattr(owner, own_name, tensor)
    return held
