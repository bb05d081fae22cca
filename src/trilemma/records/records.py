"""Records as tensors, read from a sized dataset of pairs, or from a pair of arrays or frames."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import torch
from torch.utils.data import DataLoader

from trilemma.errors import InvalidInput
from trilemma.records.parts import packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilemma.records.parts import Part

__all__ = ["Dataset", "Records", "is_pair"]


class Dataset(Protocol):
    """Any sized collection of (input, label): a TensorDataset, a list of pairs."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Records as two tensors: inputs [n, *shape] and labels [n] (or targets [n, ...]).

    Inputs are real numbers, or int64: the tokens of texts. Those of several inputs are packed, and
    `parts` says what stands where. Records that are `unlabelled` are their own labels.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    parts: tuple[Part, ...] = ()
    unlabelled: bool = False

    @classmethod
    def of(cls, dataset: Dataset | Records, whose: str) -> Records:
        """A pair of arrays, or a dataset of (input, label) stacked; `whose` names it in errors."""
        if isinstance(dataset, Records):
            return dataset
        if _is_empty(dataset):
            raise InvalidInput(f"{whose} has no records; leave it out, or give it some.")
        if is_pair(dataset):
            return cls._checked(*_pair_of(dataset, whose), whose)
        if isinstance(dataset, tuple) and len(dataset) == 2 and _is_batch(dataset[0], dataset[1]):
            return cls._of_columns(dataset[0], dataset[1], whose)
        if cure := _misread(dataset):
            raise InvalidInput(f"{whose} is {cure}.")
        return cls._of_pairs(dataset, whose)

    @classmethod
    def _of_pairs(cls, dataset: Dataset, whose: str) -> Records:
        """A dataset of (input, label), stacked; labels None are the inputs themselves."""
        try:
            pairs = [dataset[index] for index in range(len(dataset))]
            firsts, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            inputs = _stacked(firsts)
            unlabelled = all(label is None for label in labels)
            if isinstance(inputs, torch.Tensor) and not unlabelled:
                return cls._checked(inputs, _stack(labels), whose)
            return cls._of_columns(inputs, None if unlabelled else _stack(labels), whose)
        except (TypeError, ValueError, IndexError, KeyError, RuntimeError) as error:
            raise InvalidInput(
                f"{whose} must be a sized dataset of (input, label) tensors of one shape, or a "
                f"pair of arrays (inputs, labels), not empty ({type(error).__name__}: {error})."
            ) from error

    @classmethod
    def _of_columns(cls, inputs: Any, labels: Any, whose: str) -> Records:
        """Inputs [n, ...], or several of them in a tuple or dict, and labels [n, ...] or None."""
        parts: tuple[Part, ...] = ()
        if isinstance(inputs, dict):
            given = {name: _tensor_of(item, "inputs", whose) for name, item in inputs.items()}
            rows, parts = packed(given, whose)
        elif isinstance(inputs, tuple | list):
            rows, parts = packed([_tensor_of(item, "inputs", whose) for item in inputs], whose)
        else:
            rows = _tensor_of(inputs, "inputs", whose)
        unlabelled = labels is None
        own = rows if unlabelled else _tensor_of(labels, "labels", whose)
        return cls._checked(*_pair_of((rows, own), whose), whose, parts, unlabelled=unlabelled)

    @classmethod
    def _checked(
        cls,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        whose: str,
        parts: tuple[Part, ...] = (),
        *,
        unlabelled: bool = False,
    ) -> Records:
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
        labels = labels if labels.is_floating_point() else labels.long()
        return cls(inputs, inputs if unlabelled else labels, parts, unlabelled)

    def __repr__(self) -> str:
        """Shapes alone: no record is ever part of a message or a log."""
        return f"Records(inputs={list(self.inputs.shape)}, labels={list(self.labels.shape)})"

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, rows: torch.Tensor) -> Records:
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows])

    def to(self, device: str) -> Records:
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))

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


def _misread(data: Any) -> str:
    """What this is and what to give in its place; "" for what may be a dataset of pairs."""
    if isinstance(data, DataLoader):
        return "a DataLoader, which draws its own batches; give its records, loader.dataset"
    if isinstance(data, list | tuple) and len(data) == 2:
        if all(hasattr(item, "shape") for item in data):
            return "a list of two arrays; give them as a pair, (inputs, labels)"
        sizes = [len(item) if isinstance(item, list) else 0 for item in data]
        if sizes[0] == sizes[1] > 2:
            return (
                "two lists of numbers; make arrays of them, (np.array(inputs), np.array(labels))"
            )
    return ""


def _is_batch(inputs: Any, labels: Any) -> bool:
    """Whether this is a pair of a client's inputs and labels, and not a dataset of two records.

    Labels None alone do not tell: one record's are None as well.
    """
    values = _values(inputs)
    if labels is None:
        return values is not None or hasattr(inputs, "shape")
    return values is not None and hasattr(labels, "shape")


def _values(inputs: Any) -> list[Any] | None:
    """Several inputs, in a tuple, list or dict; None for one, which a list of numbers is."""
    if isinstance(inputs, dict):
        return list(inputs.values())
    if isinstance(inputs, tuple | list) and any(hasattr(item, "shape") for item in inputs):
        return list(inputs)
    return None


def _stacked(rows: list[Any]) -> Any:
    """The inputs of single records as columns: one, a tuple of some, or a dict."""
    values = _values(rows[0])
    if values is None:
        return _stack(rows)
    if isinstance(rows[0], dict):
        return {name: _stack([row[name] for row in rows]) for name in rows[0]}
    return tuple(_stack([row[place] for row in rows]) for place in range(len(values)))


def _stack(rows: list[Any]) -> torch.Tensor:
    return torch.stack([torch.as_tensor(row) for row in rows])


def is_pair(data: Any) -> TypeGuard[tuple[Any, Any]]:
    """Whether this is a pair of arrays, and not a dataset of two records.

    >>> is_pair((torch.rand(9, 4), np.zeros(9))), is_pair([(torch.rand(4), 0)] * 2)
    (True, False)
    """
    return isinstance(data, tuple) and len(data) == 2 and all(hasattr(e, "shape") for e in data)


def _pair_of(data: tuple[Any, Any], whose: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [n, *shape] and labels [n, ...]; real numbers keep their kind, floats are single."""
    inputs, labels = _tensor_of(data[0], "inputs", whose), _tensor_of(data[1], "labels", whose)
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


def _tensor_of(values: Any, what: str, whose: str) -> torch.Tensor:
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
