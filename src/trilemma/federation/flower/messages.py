"""Protocol steps as records of a Flower message, and a model's arrays as a flat vector."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, cast

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.federation.nodes.stages import Stage
from trilemma.updates import Layout

__all__ = [
    "content_digest",
    "model_tensors",
    "only_arrays",
    "read_stages",
    "shifted",
    "without_stages",
    "write_stages",
]

_PREFIX: Final = "trilemma"
_BULK: Final = "bytes"


def write_stages(stages: Iterable[Stage]) -> dict[str, ConfigRecord | ArrayRecord]:
    """Records to add to a message; bulk goes into arrays, which Flower sends in chunks."""
    records: dict[str, ConfigRecord | ArrayRecord] = {}
    for index, stage in enumerate(stages):
        records[f"{_PREFIX}.{index}"] = ConfigRecord(
            {
                "run": str(stage.run),
                "kind": stage.kind,
                "session": stage.session,
                "number": stage.number,
                "cohort": np.array(stage.cohort, "<u8").tobytes(),
                "size": stage.size,
                "terms": stage.terms,
                "version": stage.version,
            }
        )
        records[f"{_PREFIX}.{index}.{_BULK}"] = ArrayRecord(
            {
                name: Array("uint8", (len(data),), "trilemma.bytes", data)
                for name, data in stage.blobs.items()
            }
        )
    return records


def read_stages(content: RecordDict) -> list[Stage]:
    """The stages of a message, in order; none for a message that is not ours."""
    stages: list[Stage] = []
    while (record := content.get(f"{_PREFIX}.{len(stages)}")) is not None:
        bulk = content.get(f"{_PREFIX}.{len(stages)}.{_BULK}")
        try:
            fields = cast("dict[str, Any]", dict(record))
            cohort = np.frombuffer(fields.pop("cohort"), "<u8")
            stages.append(
                Stage(
                    run=int(fields.pop("run")),
                    cohort=tuple(int(node) for node in cohort),
                    blobs={name: array.data for name, array in cast(ArrayRecord, bulk).items()},
                    **fields,
                )
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ProtocolViolation(
                "a message of this protocol is cut short or altered; run a new round."
            ) from None
    return stages


def without_stages(content: RecordDict) -> RecordDict:
    """The content as the app would see it without us; the given one, shared, is not changed."""
    return RecordDict(
        {name: record for name, record in content.items() if not name.startswith(f"{_PREFIX}.")}
    )


def content_digest(content: RecordDict) -> bytes:
    """32 bytes that tell what an app is shown, our stages left out: names, types and values."""
    digest = hashlib.sha256()
    for name, record in sorted(without_stages(content).items()):
        digest.update(repr((name, type(record).__name__, len(record))).encode())
        for key, value in sorted(record.items()):
            if isinstance(value, Array):
                digest.update(repr((key, value.dtype, tuple(value.shape), value.stype)).encode())
                digest.update(len(value.data).to_bytes(8, "big") + value.data)
            else:
                digest.update(repr((key, value)).encode())
    return digest.digest()


def only_arrays(content: RecordDict) -> tuple[str, ArrayRecord]:
    """The name and value of the model in a message."""
    if len(content.array_records) != 1:
        raise InvalidInput(
            f"a protected message holds one ArrayRecord, the model, got "
            f"{len(content.array_records)}; put everything into one."
        )
    return next(iter(content.array_records.items()))


def model_tensors(record: ArrayRecord) -> tuple[Layout, torch.Tensor]:
    """The floating-point arrays of a model as a layout and one vector [m].

    Other arrays (counters, such as BatchNorm's) are not averaged: they stay as the server sent
    them first.
    """
    tensors = {name: torch.from_numpy(array.numpy()) for name, array in record.items()}
    floats = {name: each for name, each in tensors.items() if each.is_floating_point()}
    if not floats:
        raise InvalidInput("the model has no floating-point array, so nothing can be averaged.")
    layout = Layout(tuple(floats), tuple(tuple(each.shape) for each in floats.values()))
    flat = layout.flatten(floats)
    return layout, flat if flat.dtype == torch.float64 else flat.to(torch.float32)


def shifted(record: ArrayRecord, change: torch.Tensor) -> ArrayRecord:
    """The model minus a change [m], each array in its own precision."""
    layout, _ = model_tensors(record)
    parts = layout.unflatten(change.to(torch.float64))
    made = {}
    for name, array in record.items():
        if name not in parts:
            made[name] = array
            continue
        values = array.numpy()
        made[name] = Array(np.asarray(values - parts[name].numpy(), values.dtype))
    return ArrayRecord(made)
