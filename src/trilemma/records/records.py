"""Records as tensors, read from any sized dataset of pairs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from trilemma.errors import InvalidInput
from trilemma.records.pairs import is_pair, pair_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Dataset", "Records"]


class Dataset(Protocol):
    """Any sized collection of (input, label): a TensorDataset, a list of pairs."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Records as two tensors: inputs [n, *shape] and labels [n] (or targets [n, ...]).

    Inputs are real numbers, or int64: the tokens of texts.
    """

    inputs: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, dataset: Dataset | Records, whose: str) -> Records:
        """A pair of arrays, or a dataset of (input, label) stacked; `whose` names it in errors."""
        if isinstance(dataset, Records):
            return dataset
        if _is_empty(dataset):
            raise InvalidInput(f"{whose} has no records; leave it out, or give it some.")
        if is_pair(dataset):
            return cls._checked(*pair_of(dataset, whose), whose)
        if isinstance(dataset, tuple) and len(dataset) == 2 and _are_arrays(*dataset):
            _refuse_several(dataset[0], whose)
        try:
            size = len(dataset)
            pairs = [dataset[index] for index in range(size)]
            if pairs and isinstance(pairs[0][0], tuple | list | dict):
                _refuse_several(pairs[0][0], whose)
            inputs = torch.stack([torch.as_tensor(pair[0]) for pair in pairs])
            labels = torch.stack([torch.as_tensor(pair[1]) for pair in pairs])
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
            raise InvalidInput(
                f"{whose} must be a sized dataset of (input, label) tensors of one shape, or a "
                f"pair of arrays (inputs, labels), not empty ({type(error).__name__}: {error})."
            ) from error
        return cls._checked(inputs, labels, whose)

    @classmethod
    def _checked(cls, inputs: torch.Tensor, labels: torch.Tensor, whose: str) -> Records:
        if inputs.dtype not in (torch.int32, torch.int64) and not inputs.is_floating_point():
            raise InvalidInput(
                f"the inputs of {whose} are {inputs.dtype}, but an attack reconstructs real "
                f"numbers or int64 tokens; convert them to float, for images to 0 .. 1."
            )
        if not inputs.is_floating_point():
            if int(inputs.min()) < 0:
                raise InvalidInput(
                    f"the inputs of {whose} are tokens, as they are {inputs.dtype}, but contain "
                    f"{int(inputs.min())}; number tokens from 0, or convert numbers to float."
                )
            inputs = inputs.long()
        elif not torch.isfinite(inputs).all():
            raise InvalidInput(
                f"the inputs of {whose} contain NaN or infinity; remove those records."
            )
        else:
            inputs = inputs.to(torch.get_default_dtype())
        return cls(inputs, labels if labels.is_floating_point() else labels.long())

    def __repr__(self) -> str:
        """Shapes alone: no record is ever part of a message or a log."""
        return f"Records(inputs={list(self.inputs.shape)}, labels={list(self.labels.shape)})"

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, rows: torch.Tensor) -> Records:
        return Records(self.inputs[rows], self.labels[rows])

    def to(self, device: str) -> Records:
        return Records(self.inputs.to(device), self.labels.to(device))

    def kinds(self) -> NDArray[np.int64]:
        """A number for each record [n]; records that are equal in input and label share theirs."""
        columns = [self.inputs.flatten(1), self.labels.reshape(len(self), -1)]
        inputs, labels = (column.cpu().numpy() + 0 for column in columns)  # -0 is 0
        seen: dict[bytes, int] = {}  # by digest: sorting whole rows takes many times as long
        rows = (
            hashlib.blake2b(x.tobytes() + y.tobytes(), digest_size=16).digest()
            for x, y in zip(inputs, labels, strict=True)
        )
        return np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.int64)


def _is_empty(dataset: Any) -> bool:
    """Whether there is no record: no pair, or a pair of arrays without rows."""
    held = dataset[0] if is_pair(dataset) else dataset
    shape = getattr(held, "shape", None)
    return shape[:1] == (0,) if shape is not None else hasattr(held, "__len__") and not len(held)


def _are_arrays(parts: Any, labels: Any) -> bool:
    """Whether several arrays are given, each with as many rows as there are labels."""
    if not isinstance(parts, tuple | list | dict) or not hasattr(labels, "shape"):
        return False
    values = parts.values() if isinstance(parts, dict) else parts
    return all(getattr(each, "shape", ())[:1] == labels.shape[:1] != () for each in values)


def _refuse_several(parts: Any, whose: str) -> None:
    """One record with several inputs; a list of numbers is one."""
    values = parts.values() if isinstance(parts, dict) else parts
    if isinstance(parts, dict) or any(hasattr(each, "shape") for each in values):
        raise InvalidInput(
            f"a record of {whose} has {len(parts)} inputs, but records are attacked as one tensor "
            f"each; concatenate them, flattened, and split them again in the model's forward()."
        )
