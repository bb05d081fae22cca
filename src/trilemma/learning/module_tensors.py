"""A module that computes with given tensors, in forward and in backward."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from itertools import chain
from weakref import WeakKeyDictionary

import torch
from torch import nn

__all__ = ["holding"]

# Not in the task, which would take them along to every worker; gone with what they are copies of.
_COPIES: MutableMapping[nn.Module, nn.Module] = WeakKeyDictionary()


def holding(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> nn.Module:
    """A copy of the module with tensors, by name, in the place of its own; until the next call.

    So a block that is checkpointed, and run once more in backward, meets the same tensors there.
    Buffers are new each time: what forward() leaves in them is seen by no other call.
    """
    if module not in _COPIES:
        own = {
            id(parameter): parameter for parameter in chain(module.parameters(), module.buffers())
        }
        _COPIES[module] = copy.deepcopy(module, own)
    held = _COPIES[module]
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
