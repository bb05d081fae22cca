"""Compression: send each coordinate with probability ρ only."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput
from trilemma.protection.parameter import Parameter
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.quantities import positive, whole

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = ["Compression", "LayerCompression", "bernoulli_positions"]

_BLOCK: Final = 1 << 16  # gaps at a time
_IDENTIFIABLE: Final = 1.6  # coordinates to unknowns at which compression starts to bite
_DECADES: Final = 2.0  # beyond that
Layers = tuple[tuple[int, float], ...]  # coordinates, and 1 - ρ of each


class _Thinning(Transform):
    """Sends places that follow from the round's public `mask_seed`, so no byte says which.

    Where the server reads single messages, `Protection` gives each client a seed of its own: the
    mean of K such updates u has variance (1 - ρ)/ρ · u²/K in a coordinate. Where only a sum is
    read, all clients send the same places, or it would not align: (1 - ρ)/ρ · u².
    """

    unbiased: bool

    name: ClassVar[str] = "compression"
    thins: ClassVar[bool] = True

    @abstractmethod
    def _layers(self, size: int) -> Layers:
        """How many coordinates are dropped with which probability."""

    @abstractmethod
    def _gain(self, like: torch.Tensor) -> float | torch.Tensor:
        """1/ρ: a number, or a vector like this one."""

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        import torch  # heavy: `trilemma solve` must start without it

        values = update.values
        mask = _known(round.mask_seed, self._layers(values.numel()))
        known = torch.from_numpy(mask).to(values.device)
        if update.known is not None:
            known = known & update.known
        gain = self._gain(values) if self.unbiased else 1.0
        if values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64):
            # numpy asks for huge pages, which makes this three times as fast as torch
            scale = gain if isinstance(gain, float) else gain.numpy()
            plain = values.detach().numpy()
            sent = np.zeros_like(plain)
            with np.errstate(over="ignore", invalid="ignore"):  # the client refuses to send it
                factor = np.asarray(scale, plain.dtype)
                np.multiply(plain, factor, out=sent, where=known.numpy())
            return SparseUpdate(torch.from_numpy(sent), known)
        return SparseUpdate(torch.where(known, values * gain, 0.0), known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        import torch  # heavy: `trilemma solve` must start without it

        known = torch.from_numpy(_known(round.mask_seed, self._layers(size)).copy())
        if mechanism.known is not None:
            known = known & mechanism.known
        gain = mechanism.gain
        if self.unbiased:
            gain = gain * self._gain(torch.empty(size, dtype=torch.float64))
        return replace(mechanism, known=known, gain=gain)

    def _text(self, rate: str) -> str:
        return f"{self.name}:{rate}{'' if self.unbiased else ',unbiased=false'}"


@dataclass(frozen=True)
class Compression(_Thinning, Tunable):
    """Sends each coordinate with probability ρ = keep, times 1/ρ where `unbiased`.

    `dropping` takes 1 - ρ, exact where ρ rounds to 1.

    >>> Compression(0.1).describe()
    'compression:keep=0.1'
    >>> Compression.dropping(6.9e-17).drop
    6.9e-17
    """

    keep: float
    unbiased: bool = True
    drop: float = field(default=math.nan, repr=False)

    parameter: ClassVar[Parameter] = Parameter(
        "ρ", "probability of keeping a coordinate", "smaller", (0.0, 1.0)
    )

    def __post_init__(self) -> None:
        keep = _probability(self.keep)
        drop = 1 - keep if math.isnan(self.drop) else float(self.drop)
        if drop < 0 or (drop != 1 - keep and keep != 1 - drop):
            raise InvalidInput(
                f"keep={keep} and drop={drop} do not add up to 1; give one of them, in 0 .. 1."
            )
        object.__setattr__(self, "keep", keep)
        object.__setattr__(self, "drop", drop)

    @classmethod
    def dropping(cls, drop: float, unbiased: bool = True) -> Compression:
        """The transform that drops a coordinate with probability 1 - ρ = drop."""
        return cls(1 - drop, unbiased, drop)

    @classmethod
    def at(cls, value: float) -> Compression:
        return cls(min(1.0, value))

    @classmethod
    def warm(cls, start: Start) -> float:
        """Where hardly more coordinates than unknowns are left to read."""
        keep = min(0.9, _IDENTIFIABLE * start.unknowns / start.coordinates)
        # A mean holds each coordinate that one of n senders sent, 1 - (1 - ρ)ⁿ of them.
        return -math.expm1(math.log1p(-keep) / start.senders)

    @classmethod
    def span(cls, start: Start) -> tuple[float, float]:
        """From all coordinates down to one of them, or two decades."""
        warm = cls.warm(start)
        most = min(_DECADES, max(0.1, math.log10(warm * start.coordinates)))
        return 1.0, cls.parameter.moved(warm, most)

    def reach(self, largest: float) -> float:
        return largest / self.keep if self.unbiased else largest

    def describe(self) -> str:
        exact = self.drop == 1 - self.keep
        return self._text(f"keep={self.keep!r}" if exact else f"drop={self.drop!r}")

    def words(self, number: Callable[[float], str]) -> str:
        return f"compression to a random {number(100 * self.keep)} % of the coordinates"

    def _layers(self, size: int) -> Layers:
        return ((size, self.drop),)

    def _gain(self, like: torch.Tensor) -> float:
        return 1 / (1 - self.drop)


@dataclass(frozen=True)
class LayerCompression(_Thinning):
    """Sends each coordinate of layer i with probability ρᵢ, times 1/ρᵢ where `unbiased`.

    `layers` are (ρᵢ, number of coordinates), in the order of the flat update.

    >>> LayerCompression(((0.1, 3200), (1.0, 10))).describe()
    'compression:keep=0.1x3200/1.0x10'
    """

    layers: tuple[tuple[float, int], ...]
    unbiased: bool = True

    def __post_init__(self) -> None:
        layers = tuple((_probability(k), whole("coordinates", n)) for k, n in self.layers)
        if not layers or any(count < 1 for _, count in layers):
            raise InvalidInput(
                f"keep by layer is probability x coordinates of each, got {layers}; write it as "
                "in compression:keep=0.1x3200/1x10."
            )
        object.__setattr__(self, "layers", layers)

    @property
    def one_gain(self) -> bool:
        return not self.unbiased

    def describe(self) -> str:
        return self._text("keep=" + "/".join(f"{keep!r}x{count}" for keep, count in self.layers))

    def words(self, number: Callable[[float], str]) -> str:
        rates = [100 * keep for keep, _ in self.layers]
        return (
            f"compression to a random share of each layer's coordinates ({number(min(rates))} to "
            f"{number(max(rates))} %)"
        )

    def _layers(self, size: int) -> Layers:
        described = sum(count for _, count in self.layers)
        if described != size:
            raise InvalidInput(
                f"keep describes {described} coordinates, but the update has {size}; make the "
                "compression for this model's layout."
            )
        return tuple((count, 1 - keep) for keep, count in self.layers)

    def _gain(self, like: torch.Tensor) -> torch.Tensor:
        keep, counts = zip(*self.layers, strict=True)
        return like.new_tensor(np.repeat(1 / np.array(keep), counts))


def _probability(keep: float) -> float:
    keep = positive("keep (probability of sending a coordinate)", keep)
    if keep > 1:
        raise InvalidInput(
            f"keep (probability of sending a coordinate) must lie in (0, 1], got {keep:g}."
        )
    return keep


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
def _known(mask_seed: int, layers: Layers) -> NDArray[np.bool_]:
    """The mask of sent coordinates; all who ask for it share this copy, so change it never.

    The rarer side is drawn: dropped coordinates if most are kept, kept ones if most are dropped.
    """
    generator = Seeded(mask_seed).generator("compression")
    known = np.empty(sum(count for count, _ in layers), np.bool_)
    start = 0
    for count, rate in layers:
        layer = known[start : start + count]
        layer[:] = rate <= 0.5
        layer[bernoulli_positions(count, min(rate, 1 - rate), generator)] = rate > 0.5
        start += count
    return known
