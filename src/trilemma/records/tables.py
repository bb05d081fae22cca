"""Tables read from a frame: kinds by what a column holds, numbers standardised, levels one-hot.

A frame is anything with `columns` whose entries can be asked for by name: a pandas or polars
DataFrame, or a dict of arrays. None of these libraries is needed here.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import Column, Kind
from trilemma.records.records import Records

__all__ = ["Table"]

_MANY: Final = 20  # records from which whole numbers that never repeat are taken for an id


@dataclass(frozen=True)
class Table:
    """The columns of a frame and its target, by which any frame of that kind becomes records.

    >>> frame = {"age": [40, 50, 60], "sex": ["f", "m", "f"], "ill": [True, False, True]}
    >>> table = Table.of(frame, "ill")
    >>> [(column.name, column.kind) for column in table.columns]
    [('age', 'integer'), ('sex', 'category')]
    >>> table.records(frame).inputs[0]
    tensor([-1.2247,  1.0000,  0.0000])
    """

    columns: tuple[Column, ...]
    target: Column

    @classmethod
    def of(
        cls,
        frame: Any,
        target: str,
        *,
        categories: Collection[str] = (),
        embedded: Collection[str] = (),
    ) -> Table:
        """The kinds that a frame's columns have, and their means and deviations.

        Texts, truth values and the columns named in `categories` are categories, one-hot unless
        they are named in `embedded` (then one entry holds the level's number); whole numbers are
        integers. A target of real numbers is to be predicted (standardised, shape [n, 1]), any
        other is a class: give whole numbers that are to be predicted as floats.
        """
        names = _names(frame)
        _require(names, (target, *categories, *embedded))
        held = {name: _values(frame, name) for name in names}
        lengths = {str(name): len(values) for name, values in held.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"the columns have unlike numbers of records, {lengths}.")
        if not lengths[str(target)]:
            raise InvalidInput("the frame has no records; read it again.")
        columns = tuple(
            _column(name, held[name], name in categories, name in embedded)
            for name in names
            if name != target
        )
        if not columns:
            raise InvalidInput(f"the frame has no column besides the target {target!r}.")
        for column in columns:
            if _tells_apart(column, held[column.name]):
                warnings.warn(
                    f"column {column.name!r} differs in each of the {lengths[column.name]} "
                    f"records: an id tells a model nothing, and an attacker everything; leave it "
                    f"out of the frame.",
                    stacklevel=2,
                )
        real = held[target].dtype.kind == "f"
        return cls(columns, _column(target, held[target], not real, embedded=True))

    @property
    def classes(self) -> int | None:
        """Number of classes of the target, None where it is a number."""
        return len(self.target.levels) or None

    def records(self, frame: Any) -> Records:
        """A frame with these columns, in any order and perhaps with more, as records."""
        _require(_names(frame), [column.name for column in (*self.columns, self.target)])
        inputs = [_entries(item, _values(frame, item.name)) for item in self.columns]
        labels = torch.from_numpy(_entries(self.target, _values(frame, self.target.name)))
        return Records(
            torch.from_numpy(np.concatenate(inputs, axis=1)).to(torch.get_default_dtype()),
            labels[:, 0].long() if self.classes else labels.to(torch.get_default_dtype()),
        )


def _names(frame: Any) -> list[str]:
    if isinstance(frame, Mapping):
        return list(frame)
    if not hasattr(frame, "columns"):
        raise InvalidInput(
            f"a table is read from a DataFrame or a dict of columns, got {type(frame).__name__}."
        )
    return list(frame.columns)


def _require(names: list[str], wanted: Collection[str]) -> None:
    """Refuse a frame that lacks some of the wanted columns; all of them are named."""
    if lacking := [name for name in wanted if name not in names]:
        raise InvalidInput(
            f"the frame lacks the {'column' if len(lacking) == 1 else 'columns'} "
            f"{', '.join(map(repr, lacking))}; it has {', '.join(map(str, names))}."
        )


def _tells_apart(column: Column, values: np.ndarray) -> bool:
    """Whether each of many records has a text or whole number of its own, as an id."""
    counted = column.kind != "number" and len(values) >= _MANY
    return counted and len(np.unique(values)) == len(values)


def _values(frame: Any, name: str) -> np.ndarray:
    values = np.asarray(frame[name])
    if values.dtype.kind in "OUS":
        missing = np.array([value is None or value != value for value in values])
        values = values.astype(str)
    else:
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if values.ndim != 1 or values.dtype.kind not in "biufU":
        raise InvalidInput(
            f"column {name!r} must hold one number or text a record, got {values.dtype} of shape "
            f"{values.shape}."
        )
    if missing.any():
        raise InvalidInput(
            f"column {name!r} has {int(missing.sum())} missing values; fill them in, or leave "
            f"those records out."
        )
    return values


def _column(name: str, values: np.ndarray, category: bool, embedded: bool) -> Column:
    name = str(name)  # numpy's own would show in every text
    if category or values.dtype.kind in "bU" or (embedded and values.dtype.kind != "f"):
        levels = tuple(str(value) for value in np.unique(values).tolist())
        return Column(name, "code" if embedded else "category", levels)
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"column {name!r} contains infinity; clean the data first.")
    kind: Kind = "number" if values.dtype.kind == "f" else "integer"
    spread = float(numbers.std())
    return Column(name, kind, shift=float(numbers.mean()), unit=spread if spread > 0 else 1.0)


def _entries(column: Column, values: np.ndarray) -> np.ndarray:
    """The entries [n, size] of a column."""
    if not column.counted:
        if values.dtype.kind not in "biuf":
            raise InvalidInput(f"column {column.name!r} must hold numbers, got {values.dtype}.")
        return ((values.astype(np.float64) - column.shift) / column.unit).reshape(-1, 1)
    places = {level: place for place, level in enumerate(column.levels)}
    texts = [str(value) for value in values]
    strange = sorted(set(texts) - set(places))
    if strange:
        raise InvalidInput(
            f"column {column.name!r} holds {strange[0]!r}, which is none of its levels "
            f"{', '.join(column.levels)}; make the table of all levels."
        )
    codes = np.array([places[text] for text in texts])
    one_hot = column.kind == "category"
    return np.eye(column.size)[codes] if one_hot else codes.reshape(-1, 1).astype(float)
