"""What a server brings to a training besides its step: public records, and layers' origins."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from trilemma.errors import InvalidInput
from trilemma.learning.modules import tensor_name
from trilemma.quantities import counted, positive
from trilemma.records.digests import keyed_digest

if TYPE_CHECKING:
    from trilemma.records.records import Records

__all__ = ["Origin", "PublicRecords", "WarmStart", "check_share", "means_of", "origins_of"]

_KEY: Final = 32  # bytes


@dataclass(frozen=True)
class WarmStart:
    """Steps of gradient descent on the public records, before the first round.

    v ← momentum · v + ∇L(w), w ← w - lr · v, each over all public records.
    """

    steps: int
    lr: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        counted("steps (of the warm start)", self.steps)
        object.__setattr__(self, "lr", positive("lr (of the warm start)", self.lr))
        check_share("momentum (of the warm start)", self.momentum)


@dataclass(frozen=True, repr=False)
class Origin:
    """What one affine layer subtracts from what it reads: a mean for each entry, or one for all.

    W x + b = W (x - m) + b̃ with b̃ = b + W m: clients clip and add noise in (W, b̃).

    >>> Origin("0", (0.3,))
    Origin('0', (0.3,))
    """

    layer: str
    mean: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))
        if not self.mean or not all(map(math.isfinite, self.mean)):
            raise InvalidInput(
                f"the origin of layer {self.layer!r} must be finite numbers, one or more."
            )

    def __repr__(self) -> str:
        """Many numbers by their hash, as the text goes with messages."""
        if len(self.mean) == 1:
            return f"Origin({self.layer!r}, {self.mean!r})"
        digest = hashlib.sha256(repr(self.mean).encode()).hexdigest()[:16]
        return f"Origin({self.layer!r}, {len(self.mean)} numbers, {digest})"


def origins_of(means: Mapping[str, torch.Tensor]) -> tuple[Origin, ...]:
    """The same as plain values; a mean that is one number is written once."""
    values = {name: tuple(mean.flatten().tolist()) for name, mean in means.items()}
    return tuple(
        Origin(name, own[:1] if len(set(own)) == 1 else own) for name, own in values.items()
    )


def means_of(
    origins: Iterable[Origin], weights: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """By layer what it subtracts, [e] or [channels, 1, 1], for weights [out, e, ...] by name."""
    means = {}
    for origin in origins:
        weight = weights.get(tensor_name(origin.layer, "weight"))
        if weight is None or tensor_name(origin.layer, "bias") not in weights:
            raise InvalidInput(
                f"layer {origin.layer!r}, which is to be centred, has no weight and bias in this "
                "model; deploy the model that was measured, or measure again for this one."
            )
        mean = torch.tensor(origin.mean, dtype=torch.float32)
        if mean.numel() not in (1, weight.shape[1]):
            raise InvalidInput(
                f"layer {origin.layer!r} reads {weight.shape[1]} numbers a record, but its origin "
                f"has {mean.numel()}; deploy the model that was measured, or measure again for "
                "this one."
            )
        mean = mean.expand(weight.shape[1])
        means[origin.layer] = mean[:, None, None] if weight.ndim > 2 else mean
    return means


@dataclass(frozen=True)
class PublicRecords:
    """Which records a server trains on besides: their number, and HMAC-SHA256 under this key.

    >>> PublicRecords(149, "0" * 64, "5e884898").number
    149
    """

    number: int
    key: str
    digest: str

    @classmethod
    def of(cls, records: Records, key: bytes) -> PublicRecords:
        """These records, under the first 32 bytes of a key."""
        short = key[:_KEY]
        return cls(len(records), short.hex(), keyed_digest(short, records.inputs, records.labels))

    def require(self, records: Records) -> None:
        """Raises unless these are the records."""
        if len(records) != self.number:
            raise InvalidInput(
                f"the server trains on {self.number} public records, but {len(records)} were "
                "given; pass the records that took part in tuning, or tune again with these."
            )
        if PublicRecords.of(records, bytes.fromhex(self.key)) != self:
            raise InvalidInput(
                f"these {self.number} public records are others than took part in tuning; pass "
                "those, in the same order, or tune again with these."
            )


def check_share(name: str, value: float) -> None:
    """Raises unless a share lies in [0, 1)."""
    if not (math.isfinite(value) and 0 <= value < 1):
        raise InvalidInput(f"{name} must lie in [0, 1), got {value}.")
