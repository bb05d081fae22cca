"""Protocol steps as records of a Flower message, and a model's arrays as a flat vector."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.federation.flower.terms import Kind
from trilemma.protections.protocol import RoundInfo, Transport
from trilemma.updates import Layout

__all__ = [
    "Stage",
    "decode_metrics",
    "encode_metrics",
    "model_tensors",
    "only_arrays",
    "read_stages",
    "shifted",
    "without_stages",
    "write_stages",
]

_PREFIX: Final = "trilemma"
_BULK: Final = "bytes"


@dataclass(frozen=True)
class Stage:
    """One step of one session: its public facts, and the bytes of each of its lanes.

    Both sides build the same `RoundInfo` from it, so that keys and messages are bound to the run,
    the round, the session and its cohort (Flower's node numbers, rising; a client's number in the
    protocol is its seat among them). `version` > 0 marks an encrypted sum that readers apply to
    their model, and counts those sums.
    """

    run: int
    kind: Kind
    session: str
    number: int
    cohort: tuple[int, ...]
    size: int
    terms: str = ""
    version: int = 0
    blobs: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ("train", "evaluate") or len(self.session) != 32 or not self.cohort:
            raise ProtocolViolation("a stage's header is not one of this protocol; it is altered.")

    def round(self, lane: str, threshold: int) -> RoundInfo:
        """The round that this lane's messages are bound to."""
        who = hashlib.sha256(np.array(self.cohort, "<u8").tobytes()).hexdigest()
        run = f"flower {self.run} {self.kind} {lane} {self.session} {who}"
        seed = hashlib.sha256(f"mask seed {run} {self.number}".encode()).digest()
        mask_seed = int.from_bytes(seed[:8], "big") >> 1
        return RoundInfo(run, self.number, tuple(range(len(self.cohort))), threshold, mask_seed)

    def seat(self, node: int) -> int:
        """A node's number in the protocol."""
        if node not in self.cohort:
            raise ProtocolViolation(
                f"node {node} takes no part in round {self.number}; the message is for another."
            )
        return self.cohort.index(node)


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


def encode_metrics(
    record: MetricRecord, names: tuple[str, ...], reach: float, transport: Transport
) -> torch.Tensor:
    """Each metric as two numbers [2k] on the transport's grid: a coarse part, and what is left.

    One number of 16 bits would round a loss in ±100 to 0.003; two are exact to 1e-7 of `reach`.
    """
    clip, step = _grid(transport)
    made: list[float] = []
    for name in names:
        value = record.get(name)
        if isinstance(value, list) or value is None or not abs(value) <= reach:
            raise InvalidInput(
                f"metric {name!r} must be a number in ±{reach:g}, got {value!r}; report it from "
                "every client, or raise metric_range."
            )
        scaled = value / reach * clip
        coarse = max(-clip, min(clip, round(scaled / step) * step))
        made += [coarse, (scaled - coarse) / step * clip]
    return torch.tensor(made, dtype=torch.float64)


def decode_metrics(
    mean: torch.Tensor, names: tuple[str, ...], reach: float, transport: Transport
) -> dict[str, float]:
    """The mean of each metric over the clients."""
    clip, step = _grid(transport)
    coarse, fine = mean[0::2].tolist(), mean[1::2].tolist()
    return {
        name: (big + small * step / clip) / clip * reach
        for name, big, small in zip(names, coarse, fine, strict=True)
    }


def _grid(transport: Transport) -> tuple[float, float]:
    clip = float(getattr(transport, "clip_range", 1.0))
    return clip, transport.step_size() or math.ldexp(clip, -15)
