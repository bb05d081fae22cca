"""Many numbers in one plaintext: fixed-point units, offset so that none is negative, in slots.

A message is [w, w q_1, ..., w q_m]: the weight (a record count, or 1) goes first, so that a sum
carries the sum of its weights and no weight is seen alone. Guard bits come from a public cap on
that sum. A carry only ever moves to higher slots, and the first word leaves its top slot empty,
so that no carry leaves it: the weight in its lowest slot is always exact, and a sum above the cap
is an error, never a wrong number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from gmpy2 import mpz

from trilemma.errors import ForeignCiphertext, InvalidInput
from trilemma.quantities import counted, positive, whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FixedPoint", "Packing", "WeightedSum"]

_BLOCK: Final = 1 << 15  # values at a time: the buffers of one block stay in the cache
_MAX_UNIT_BITS: Final = 62  # sums are held in signed 64-bit integers


@dataclass(frozen=True)
class WeightedSum:
    """Σ w_k x_k as whole units of `step`, with Σ w_k."""

    units: NDArray[np.int64]
    weight: int
    step: float

    @property
    def total(self) -> NDArray[np.float64]:
        """Σ w_k x_k."""
        return self.units * np.float64(self.step)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Σ w_k x_k / Σ w_k."""
        return self.units * np.float64(self.step / self.weight)


@dataclass(frozen=True)
class FixedPoint:
    """Numbers in [-clip, clip] as whole units q = round(x / step), |q| <= 2^(bits-1) - 1.

    The grid is symmetric, so zero and both ends are exact and the error of a mean is at most
    step / 2. `max_weight` is the public cap on the sum of the weights (for weights of 1: on the
    number of clients).

    >>> FixedPoint(clip=1.0, bits=3).quantise(np.array([-1.0, 0.0, 0.4]))
    array([-3,  0,  1])
    """

    clip: float
    bits: int = 16
    max_weight: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", positive("clip (largest coordinate)", self.clip))
        object.__setattr__(self, "bits", whole("precision (bits of a value)", self.bits))
        object.__setattr__(self, "max_weight", counted("max_weight", self.max_weight))
        if not 2 <= self.bits <= 32:
            raise InvalidInput(
                f"precision (bits of a value) must lie in 2 .. 32, got {self.bits}."
            )
        if (2 * self.levels * self.max_weight).bit_length() > _MAX_UNIT_BITS:
            raise InvalidInput(
                f"{self.bits} bits and a max_weight of {self.max_weight} need more than "
                f"{_MAX_UNIT_BITS} bits a value; lower one of them."
            )

    @cached_property
    def levels(self) -> int:
        """The largest unit, 2^(bits-1) - 1."""
        return int((1 << (self.bits - 1)) - 1)

    @property
    def step(self) -> float:
        """The size of one unit, clip / levels."""
        return self.clip / self.levels

    def quantise(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Whole units, rounded to nearest; raises on NaN, Inf or what rounds beyond clip."""
        units: NDArray[np.float64] = np.rint(values * np.float64(1 / self.step))
        if units.size and not max(-units.min(), units.max()) <= self.levels:
            index = int(np.argmax(~(np.abs(units) <= self.levels)))
            raise InvalidInput(
                f"a value is {values[index]}, outside [-{self.clip:g}, {self.clip:g}]; "
                "clip the update first, or raise clip."
            )
        return units.astype(np.int64)

    def check_weight(self, weight: int) -> int:
        """The weight of one update, as a plain integer in 1 .. max_weight."""
        weight = whole("weight", weight)
        if not 1 <= weight <= self.max_weight:
            raise InvalidInput(
                f"weight must lie in 1 .. max_weight = {self.max_weight}, got {weight}."
            )
        return weight

    def check_total(self, weight: int, summands: int) -> None:
        """Raises unless `summands` weights can add up to `weight`, and the cap allows it."""
        if not summands <= weight <= self.max_weight:
            raise ForeignCiphertext(
                f"the weights of {summands} clients add up to {weight}, outside {summands} .. "
                f"max_weight = {self.max_weight}; a message is foreign, or max_weight too low."
            )

    def blocks(self, values: NDArray[Any], weight: int) -> Iterator[NDArray[np.int64]]:
        """The message w q_1, ..., w q_m (its leading w left out), some values at a time."""
        if values.ndim != 1 or values.dtype.kind != "f":
            raise InvalidInput(
                f"an update must be a flat array of floats, got {values.dtype} of shape "
                f"{values.shape}; flatten it first."
            )
        for start in range(0, len(values), _BLOCK):
            units = self.quantise(values[start : start + _BLOCK])
            yield units if weight == 1 else units * weight

    def sum(self, sums: NDArray[Any], weight: int, summands: int, offset: int = 0) -> WeightedSum:
        """The sum (each value raised by `offset`) after checks that hold for every honest one.

        summands <= Σ w_k <= max_weight and |Σ w_k q_k| <= levels Σ w_k: garbled sums fail them.
        """
        self.check_total(weight, summands)
        bound = self.levels * weight
        if (
            sums.size
            and not offset - bound <= int(sums.min()) <= int(sums.max()) <= offset + bound
        ):
            raise ForeignCiphertext(
                "a sum lies beyond what its clients can have sent; a message was altered, foreign "
                "or not unmasked, so run the round again."
            )
        return WeightedSum(sums.astype(np.int64) - offset, weight, self.step)


@dataclass(frozen=True)
class Packing:
    """Slots of whole bytes in plaintexts of `plaintext_bits` bits; zeros pad the last word.

    A slot holds up to 2 levels max_weight: 16 bits, 100 clients and a 2048-bit key give 85 slots
    of 24 bits.

    >>> packing = Packing(FixedPoint(clip=1.0, max_weight=100), plaintext_bits=2047)
    >>> packing.slots, packing.slot_bytes
    (85, 3)
    >>> a, b = packing.pack(np.array([0.5, -1.0])), packing.pack(np.array([0.5, 0.25]))
    >>> packing.unpack([x + y for x, y in zip(a, b)], length=2, summands=2).total.round(4)
    array([ 1.  , -0.75])
    """

    fixed: FixedPoint
    plaintext_bits: int

    def __post_init__(self) -> None:
        if self.slots < 2:
            raise InvalidInput(
                f"two slots of {8 * self.slot_bytes} bits do not fit into {self.plaintext_bits} "
                "bits; use a longer key, fewer bits or a smaller max_weight."
            )

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of a slot, from the largest sum that it may hold."""
        return -(-(2 * self.fixed.levels * self.fixed.max_weight).bit_length() // 8)

    @cached_property
    def slots(self) -> int:
        return self.plaintext_bits // (8 * self.slot_bytes)

    @property
    def max_summands(self) -> int:
        """Vectors that may be added while the weight slot stays exact, whatever the weights."""
        exact = ((1 << (8 * self.slot_bytes)) - 1) // self.fixed.max_weight
        return min(self.fixed.max_weight, exact)

    def words(self, length: int) -> int:
        """Plaintexts that an update of this length takes, with its weight and the empty slot."""
        return -(-(length + 2) // self.slots)

    def pack(self, values: NDArray[Any], weight: int = 1) -> list[mpz]:
        """The update as plaintexts: the weight, then w (q_i + levels) in each slot."""
        weight = self.fixed.check_weight(weight)
        offset, slot_bytes, word_bytes = self.fixed.levels * weight, self.slot_bytes, self._bytes
        words: list[mpz] = []
        rest, top = weight.to_bytes(slot_bytes, "little"), word_bytes - slot_bytes
        for units in self.fixed.blocks(values, weight):
            slots = (units + offset).astype("<u8").view(np.uint8).reshape(-1, 8)[:, :slot_bytes]
            data = rest + slots.tobytes()
            if not words:
                data = data[:top] + bytes(slot_bytes) + data[top:]
            end = len(data) - len(data) % word_bytes
            words += [
                mpz(int.from_bytes(data[start : start + word_bytes], "little"))
                for start in range(0, end, word_bytes)
            ]
            rest = data[end:]
        if rest:
            words.append(mpz(int.from_bytes(rest, "little")))
        return words

    def unpack(self, words: Sequence[int], length: int, summands: int) -> WeightedSum:
        """The sum that `summands` packed updates of `length` values add up to."""
        if not 1 <= summands <= self.max_summands:
            raise InvalidInput(
                f"a sum of {summands} updates cannot be unpacked, as its slots hold 1 .. "
                f"{self.max_summands}; raise max_weight."
            )
        if len(words) != self.words(length):
            raise InvalidInput(
                f"{length} values take {self.words(length)} words, got {len(words)}; "
                "check the length of the update."
            )
        word_bytes, slot_bytes = self._bytes, self.slot_bytes
        weight = int(words[0]) & ((1 << (8 * slot_bytes)) - 1)
        self.fixed.check_total(weight, summands)
        try:
            data = b"".join([int(word).to_bytes(word_bytes, "little") for word in words])
        except OverflowError:
            raise ForeignCiphertext(
                "a plaintext is longer than its slots; it was altered or made under another "
                "packing, so run the round again."
            ) from None
        top, end = word_bytes - slot_bytes, length * slot_bytes
        filled, data = data[top:word_bytes], data[slot_bytes:top] + data[word_bytes:]
        if any(filled) or any(data[end:]):
            raise ForeignCiphertext(
                "a slot that must be empty is not; the update was altered or has another length."
            )
        wide = np.zeros((length, 8), np.uint8)
        wide[:, :slot_bytes] = np.frombuffer(data, np.uint8)[:end].reshape(-1, slot_bytes)
        sums = wide.view("<u8").ravel()
        return self.fixed.sum(sums, weight, summands, self.fixed.levels * weight)

    @property
    def _bytes(self) -> int:
        return self.slots * self.slot_bytes
