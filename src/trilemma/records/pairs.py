"""Records given as a pair (inputs, labels): tensors, numpy arrays or frames of numbers."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import torch

from trilemma.errors import InvalidInput

__all__ = ["is_pair", "pair_of", "tensor_of"]


def is_pair(data: Any) -> TypeGuard[tuple[Any, Any]]:
    """Whether this is a pair of arrays, and not a dataset of two records.

    >>> is_pair((torch.rand(9, 4), np.zeros(9))), is_pair([(torch.rand(4), 0), (torch.rand(4), 1)])
    (True, False)
    """
    return isinstance(data, tuple) and len(data) == 2 and all(hasattr(e, "shape") for e in data)


def pair_of(data: tuple[Any, Any], whose: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [n, *shape] and labels [n, ...]; real numbers keep their kind, floats are single."""
    inputs, labels = tensor_of(data[0], "inputs", whose), tensor_of(data[1], "labels", whose)
    if inputs.ndim == 1 == labels.ndim and len(inputs) == len(labels):
        raise InvalidInput(
            f"the inputs of {whose} have the shape {tuple(inputs.shape)}: one number a record, "
            f"without an axis for its columns; give inputs.reshape(-1, 1)."
        )
    if inputs.ndim < 2 or labels.ndim < 1 or len(inputs) != len(labels):
        raise InvalidInput(
            f"{whose} is given as a pair of inputs [n, ...] and labels [n], got the shapes "
            f"{tuple(inputs.shape)} and {tuple(labels.shape)}; give one label for each row."
        )
    if labels.ndim == 2 and labels.shape[1] == 1 and not labels.is_floating_point():
        labels = labels[:, 0]  # a frame of one column
    return inputs, labels


def tensor_of(values: Any, what: str, whose: str) -> torch.Tensor:
    """Numbers of a tensor, an array or a frame; `what` of `whose` they are is named in errors."""
    if isinstance(values, torch.Tensor):
        return values.detach()
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"the {what} of {whose} hold {_odd(values, array)}, but numbers are needed; write "
            f"each category as a number, or as columns of 0 and 1."
        )
    if array.dtype.kind == "f":
        array = array.astype(np.float32)
    return torch.from_numpy(np.array(array))  # a copy: what is handed over may change


def _odd(values: Any, array: np.ndarray) -> str:
    """What is no number: a frame's column by its name, else the kind of all values."""
    for name in getattr(values, "columns", ()):
        column = np.asarray(values[name])
        if column.dtype.kind not in "biuf":
            return f"{column[0]!r:.40} in column {name!r}" if len(column) else f"column {name!r}"
    return f"values of the kind {array.dtype}"
