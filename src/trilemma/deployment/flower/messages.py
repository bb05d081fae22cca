"""Protocol steps as records of a Flower message, and a model's arrays as a flat vector."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from tokenize import TokenError
from typing import Any, Final

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from trilemma.deployment.nodes.stages import Stage
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.updates import Layout

__all__ = [
    "content_digest",
    "counts",
    "float_tensors",
    "model_tensors",
    "only_arrays",
    "read_stages",
    "replaced",
    "shifted",
    "tensors_of",
    "without_stages",
    "write_stages",
]

_PREFIX: Final = "trilemma"
_BULK: Final = "bytes"
_FIELDS: Final[dict[str, type]] = {
    "run": str,
    "kind": str,
    "session": str,
    "number": int,
    "cohort": bytes,
    "size": int,
    "terms": str,
    "version": int,
}
_DIGITS: Final = re.compile("[0-9]{1,20}")
# What NumPy's reader raises for a header or a length that is none.
_UNREADABLE: Final = (
    *(ValueError, TypeError, OSError, EOFError, TokenError, SyntaxError, MemoryError),
    *(OverflowError, RecursionError),
)


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
        if not isinstance(bulk, ArrayRecord):
            raise ProtocolViolation(
                f"stage {len(stages)} of a message is cut short: its bytes are missing; run a new "
                "round."
            )
        fields = _fields(record)
        fields["run"] = int(fields["run"])
        fields["cohort"] = tuple(np.frombuffer(fields["cohort"], "<u8").tolist())
        blobs = {name: array.data for name, array in bulk.items()}
        stages.append(Stage(**fields, blobs=blobs))
    return stages


def _fields(record: object) -> dict[str, Any]:
    """The header of a stage, if it has each field, of its type, and no other."""
    found = dict(record) if isinstance(record, ConfigRecord) else {}
    for name in sorted({*found, *_FIELDS}):
        value, kind = found.get(name), _FIELDS.get(name)
        good = type(value) is kind
        if name == "run":  # a number beyond what Flower's integers hold
            good = isinstance(value, str) and _DIGITS.fullmatch(value) is not None
        elif name == "cohort":
            good = isinstance(value, bytes) and len(value) % 8 == 0
        if not good:
            wanted = "no field" if kind is None else f"a field of {kind.__name__}"
            raise ProtocolViolation(
                f"header field {name!r:.40} of a stage is {value!r:.80} where this protocol has "
                f"{wanted}; the message is altered, or of another version."
            )
    return found


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


def tensors_of(record: ArrayRecord) -> dict[str, torch.Tensor]:
    """The arrays of a record, each as a tensor."""
    try:
        return {name: torch.from_numpy(array.numpy()) for name, array in record.items()}
    except _UNREADABLE as error:  # whose words may quote data
        raise ProtocolViolation(
            f"the model's arrays {sorted(record)!r:.80} cannot be read ({type(error).__name__}); "
            "send those that Array makes of numbers."
        ) from None


def counts(name: str, floating: bool) -> bool:
    """Whether an array is a counter; BatchNorm's is one even where an average made it a float."""
    return not floating or name.rpartition(".")[2] == "num_batches_tracked"


def float_tensors(record: ArrayRecord) -> dict[str, torch.Tensor]:
    """The floating-point arrays of a model by name, without counters."""
    tensors = tensors_of(record)
    return {
        name: tensor
        for name, tensor in tensors.items()
        if not counts(name, tensor.is_floating_point())
    }


def model_tensors(record: ArrayRecord) -> tuple[Layout, torch.Tensor]:
    """The floating-point arrays of a model as a layout and one vector [m].

    Other arrays (counters, such as BatchNorm's) are not averaged: they stay as the server sent
    them first.
    """
    floats = float_tensors(record)
    if not floats:
        raise InvalidInput("the model has no floating-point array, so nothing can be averaged.")
    layout = Layout(tuple(floats), tuple(tuple(item.shape) for item in floats.values()))
    flat = layout.flatten(floats)
    return layout, flat if flat.dtype == torch.float64 else flat.to(torch.float32)


def shifted(record: ArrayRecord, change: torch.Tensor) -> ArrayRecord:
    """The model minus a change [m], each array in its own precision."""
    layout, _ = model_tensors(record)
    parts = layout.unflatten(change.to(torch.float64))
    named = float_tensors(record)
    return replaced(record, {name: named[name] - part for name, part in parts.items()})


def replaced(record: ArrayRecord, tensors: Mapping[str, torch.Tensor]) -> ArrayRecord:
    """The model with these tensors in place of its own, each array in its own precision."""
    made = dict(record)
    for name, values in tensors.items():
        made[name] = Array(np.asarray(values.detach().numpy(), record[name].numpy().dtype))
    return ArrayRecord(made)
