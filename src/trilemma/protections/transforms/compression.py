"""Compression: send each coordinate with probability ρ only."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, ProtocolViolation
from trilemma.protections.protocol import Knowledge, Masked, RoundInfo, Transform
from trilemma.updates import Layout

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Compression",
    "TopK",
    "bernoulli_positions",
    "decode_positions",
    "encode_positions",
]

_BLOCK: Final = 1 << 16  # gaps at a time
_CODES: Final = tuple(np.dtype(f"<u{size}") for size in (1, 2, 4, 8))
_BITMAP: Final = len(_CODES)


@dataclass(frozen=True, init=False)
class Compression(Transform):
    """Sends coordinate i with probability ρᵢ, times 1/ρᵢ where `unbiased`.

    The places come from the round's public `mask_seed`, so no byte is spent on saying which.
    Where the server reads single messages, `Protection` gives each client a seed of its own: the
    mean of K such updates u has variance (1 - ρ)/ρ · u²/K in a coordinate. Where only a sum is
    read, all clients send the same places, or it would not align: (1 - ρ)/ρ · u².

    `keep` is one ρ, or one for each coordinate; `per_layer` gives each tensor its own, and
    `dropping` takes 1 - ρ, exact where ρ rounds to 1.

    >>> Compression(0.1).describe()
    'compression:keep=0.1'
    >>> Compression.dropping(6.9e-17).drop
    6.9e-17
    """

    keep: float | tuple[float, ...]
    unbiased: bool = True
    drop: float | tuple[float, ...] = field(default=0.0, repr=False)
    sizes: tuple[int, ...] = field(default=(), repr=False)

    name: ClassVar[str] = "compression"
    thins: ClassVar[bool] = True

    def __init__(self, keep: float | ArrayLike, unbiased: bool = True) -> None:
        if isinstance(keep, int | float):
            self._set(float(keep), 1 - float(keep), unbiased)
            return
        rates = np.asarray(keep, dtype=np.float64)
        if rates.ndim != 1 or not rates.size:
            raise InvalidInput(
                f"keep must be one number or a vector of them, got shape {rates.shape}."
            )
        self._set(tuple(rates.tolist()), tuple((1 - rates).tolist()), unbiased, (1,) * rates.size)

    @classmethod
    def dropping(cls, drop: float, unbiased: bool = True) -> Compression:
        """The transform that drops a coordinate with probability 1 - ρ = drop."""
        made = object.__new__(cls)
        made._set(1 - float(drop), float(drop), unbiased)
        return made

    @classmethod
    def per_layer(
        cls, keep: Mapping[str, float], layout: Layout, unbiased: bool = True
    ) -> Compression:
        """One ρ for each named tensor of the layout; tensors without a name here are all sent."""
        if unknown := set(keep) - set(layout.names):
            raise InvalidInput(
                f"the model has no tensor {sorted(unknown)[0]!r}; its tensors are "
                f"{', '.join(layout.names)}."
            )
        rates = tuple(keep.get(name, 1.0) for name in layout.names)
        made = object.__new__(cls)
        made._set(rates, tuple(1 - rate for rate in rates), unbiased, layout.sizes)
        return made

    def _set(
        self,
        keep: float | tuple[float, ...],
        drop: float | tuple[float, ...],
        unbiased: bool,
        sizes: tuple[int, ...] = (),
    ) -> None:
        for each in drop if isinstance(drop, tuple) else (drop,):
            if not 0 <= each < 1:
                raise InvalidInput(
                    f"keep (probability of sending a coordinate) must lie in (0, 1], got "
                    f"{1 - each:g}."
                )
        for name, value in (
            ("keep", keep),
            ("drop", drop),
            ("unbiased", unbiased),
            ("sizes", sizes),
        ):
            object.__setattr__(self, name, value)

    def apply(
        self, update: Masked, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Masked:
        import torch  # heavy: `trilemma solve` must start without it

        values = update.values
        mask = self._known(round, values.numel())
        known = torch.from_numpy(mask).to(values.device)
        if update.known is not None:
            known = known & update.known
        gain = self._gain(values) if self.unbiased else 1.0
        if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
            # numpy asks for huge pages, which makes this three times as fast as torch
            scale = gain if isinstance(gain, float) else gain.numpy()
            sent = values.detach().numpy() * np.asarray(scale, values.numpy().dtype)
            sent *= known.numpy()
            return Masked(torch.from_numpy(sent), known)
        return Masked(torch.where(known, values * gain, 0.0), known)

    def reveal(self, knowledge: Knowledge, round: RoundInfo, size: int) -> Knowledge:
        import torch  # heavy: `trilemma solve` must start without it

        known = torch.from_numpy(self._known(round, size).copy())
        if knowledge.known is not None:
            known = known & knowledge.known
        gain = knowledge.gain
        if self.unbiased:
            gain = gain * self._gain(torch.empty(size, dtype=torch.float64))
        return Knowledge(known, gain, knowledge.noise, knowledge.clip)

    def describe(self) -> str:
        unbiased = "" if self.unbiased else ",unbiased=false"
        if not isinstance(self.drop, tuple) and not isinstance(self.keep, tuple):
            exact = self.drop == 1 - self.keep
            rate = f"keep={self.keep!r}" if exact else f"drop={self.drop!r}"
            return f"{self.name}:{rate}{unbiased}"
        mark = hashlib.sha256(repr((self.drop, self.sizes)).encode()).hexdigest()[:12]
        return f"{self.name}:keep=vector-{mark}{unbiased}"

    def _known(self, round: RoundInfo, size: int) -> NDArray[np.bool_]:
        if self.sizes and sum(self.sizes) != size:
            raise InvalidInput(
                f"keep describes {sum(self.sizes)} coordinates, but the update has {size}; make "
                "the compression for this model's layout."
            )
        return _known(round.mask_seed, self.drop, self.sizes, size)

    def _gain(self, values: torch.Tensor) -> float | torch.Tensor:
        """1/ρ: a number, or a vector like `values`."""
        if not isinstance(self.drop, tuple):
            return 1 / (1 - self.drop)
        rates = np.repeat(1 / (1 - np.array(self.drop)), self.sizes)
        return values.new_tensor(rates)


@dataclass(frozen=True)
class TopK(Transform):
    """Sends the ⌈keep·m⌉ coordinates of largest magnitude, as they are.

    Which ones are sent depends on the values and so leaks: `Protection` refuses it where single
    updates are to be hidden.
    """

    keep: float

    name: ClassVar[str] = "top-k"
    thins: ClassVar[bool] = True
    selects_by_value: ClassVar[bool] = True
    caveat: ClassVar[str] = "top-k shows which coordinates are large."

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise InvalidInput(
                f"keep (fraction of coordinates that are sent) must lie in (0, 1], got "
                f"{self.keep:g}."
            )

    def apply(
        self, update: Masked, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> Masked:
        import torch  # heavy: `trilemma solve` must start without it

        values = update.values
        count = max(1, math.ceil(self.keep * values.numel()))
        largest = torch.topk(values.abs(), count, sorted=False).indices
        known = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        known[largest] = True
        if update.known is not None:
            known &= update.known
        return Masked(values.masked_fill(~known, 0.0), known)

    def reveal(self, knowledge: Knowledge, round: RoundInfo, size: int) -> Knowledge:
        return knowledge  # each message says which coordinates it holds

    def describe(self) -> str:
        return f"{self.name}:keep={self.keep!r}"


def bernoulli_positions(
    size: int, rate: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Rising places in 0 .. size - 1, each chosen with probability `rate` on its own.

    The gaps between them are geometric, ⌈E/-ln(1 - rate)⌉ with E exponential, so that the work is
    that of the places chosen, not of `size`, and exact for the tiniest rate.
    """
    if rate >= 1:
        return np.arange(size)
    parts = list(_gap_walk(size, rate, generator)) if rate > 0 else []
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _gap_walk(
    size: int, rate: float, generator: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    unit, last = -math.log1p(-rate), -1
    while last < size:
        expected = (size - last) * rate
        count = min(_BLOCK, int(expected + 4 * math.sqrt(expected)) + 8)
        gaps = np.ceil(generator.standard_exponential(count) / unit)
        # A gap beyond the end is as good as one just there, and the sum cannot overflow.
        places = last + np.cumsum(np.clip(gaps, 1, size + 1).astype(np.int64))
        yield places[: int(np.searchsorted(places, size))]
        last = int(places[-1])


@lru_cache(maxsize=1)
def _known(
    mask_seed: int, drop: float | tuple[float, ...], sizes: tuple[int, ...], size: int
) -> NDArray[np.bool_]:
    """The mask of sent coordinates; all who ask for it share this copy, so change it never.

    The rarer side is drawn: dropped coordinates if most are kept, kept ones if most are dropped.
    """
    generator = Seeded(mask_seed).generator("compression")
    if sizes and all(each == 1 for each in sizes):
        known = generator.random(size) >= np.array(drop)
    else:
        known = np.empty(size, np.bool_)
        start = 0
        layers = zip(sizes, drop, strict=True) if isinstance(drop, tuple) else [(size, drop)]
        for count, rate in layers:
            layer = known[start : start + count]
            layer[:] = rate <= 0.5
            layer[bernoulli_positions(count, min(rate, 1 - rate), generator)] = rate > 0.5
            start += count
    return known


def encode_positions(positions: NDArray[np.int64], size: int) -> bytes:
    """Rising places as a list of gaps in as few bytes each as the widest needs, or as a bitmap.

    The smaller of the two is taken; the first byte says which.
    """
    gaps = np.diff(positions, prepend=-1) - 1
    widest = int(gaps.max()) if gaps.size else 0
    code = next(i for i, dtype in enumerate(_CODES) if widest <= np.iinfo(dtype).max)
    if gaps.size * _CODES[code].itemsize <= -(-size // 8):
        return bytes([code]) + gaps.astype(_CODES[code]).tobytes()
    known = np.zeros(size, np.bool_)
    known[positions] = True
    return bytes([_BITMAP]) + np.packbits(known, bitorder="little").tobytes()


def decode_positions(data: bytes, size: int) -> NDArray[np.int64]:
    """The places that `encode_positions` wrote; raises where they are not places below `size`."""
    code, body = data[0] if data else 255, data[1:]
    if code == _BITMAP and len(body) == -(-size // 8):
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        if not bits[size:].any():
            return np.flatnonzero(bits[:size])
    elif code < _BITMAP and len(body) % _CODES[code].itemsize == 0:
        gaps = np.frombuffer(body, _CODES[code])
        if not gaps.size or int(gaps.max()) < size:
            places = np.cumsum(gaps.astype(np.int64) + 1) - 1
            if not places.size or places[-1] < size:
                return places
    raise ProtocolViolation(
        f"a message names coordinates that an update of {size} does not have; it was altered."
    )
