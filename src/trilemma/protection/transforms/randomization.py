"""Randomization: add Gaussian noise of variance s² to every coordinate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from trilemma.entropy import Seeded, System
from trilemma.protection.parameter import Parameter
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.quantities import positive

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

__all__ = ["Randomization", "system_normals"]

_BLOCK: Final = 1 << 16  # words at a time: their buffers stay in the cache
_NORM_BLOCK: Final = 1 << 7  # values whose squares add up in single precision to 1e-6
_SMALLEST: Final = 2.0**-126  # normal number in single precision
_TAIL: Final = 8.0  # standard deviations that a transport must be able to carry
_GRID_BITS: Final = 24  # noise and values meet on a grid of s · 2⁻²⁴ or finer


@dataclass(frozen=True)
class Randomization(Tunable):
    """clip(u) + N(0, variance · I), with clip(u) = u · min{1, C/‖u‖} over the whole update.

    `variance` is what each client adds to what it sends. Without a clip there is no differential
    privacy. Seeded entropy repeats its noise, for measurement; `System` entropy draws it from the
    CSPRNG on a grid, as a real federation must.
    """

    variance: float
    clip: float | None = None

    name: ClassVar[str] = "randomization"
    parameter: ClassVar[Parameter] = Parameter(
        "σ_ε²", "variance of the Gaussian noise added to each coordinate", "larger"
    )

    def __post_init__(self) -> None:
        variance = positive("variance (of the noise on each coordinate)", self.variance)
        object.__setattr__(self, "variance", variance)
        if self.clip is not None:
            clip = positive("clip (norm of a whole update)", self.clip)
            object.__setattr__(self, "clip", clip)

    @classmethod
    def warm(cls, start: Start) -> float:
        return start.noise

    def reach(self, largest: float) -> float:
        return largest + _TAIL * self.scale

    @property
    def scale(self) -> float:
        return math.sqrt(self.variance)

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        values = update.values if self.clip is None else _clipped(update.values, self.clip)
        if isinstance(entropy, System):
            noisy = self._system_noise(values, update.known)
        else:
            noisy = self._seeded_noise(values, entropy, client)
            if update.known is not None:
                noisy = noisy.masked_fill(~update.known, 0.0)
        return SparseUpdate(noisy, update.known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        noisy = mechanism.with_noise("gaussian", self.scale)
        return replace(noisy, clip=self.clip or mechanism.clip)

    def words(self, number: Callable[[float], str]) -> str:
        clipped = "" if self.clip is None else f" on updates clipped to norm {number(self.clip)}"
        return f"noise of variance {number(self.variance)}{clipped}"

    def _seeded_noise(self, values: torch.Tensor, entropy: Seeded, client: int) -> torch.Tensor:
        """Drawn where `drawn_on` says."""
        import torch  # heavy: `trilemma solve` must start without it

        from trilemma.learning.precision import drawn_on

        where = drawn_on(values.device, values.numel())
        generator = entropy.torch_generator(self.name, client, device=where)
        if where.type != "cpu":
            noise = torch.empty_like(values).normal_(0.0, self.scale, generator=generator)
            return noise.add_(values)
        dtype = np.float64 if values.dtype == torch.float64 else np.float32
        noise = torch.from_numpy(np.empty(values.numel(), dtype))  # in huge pages, unlike torch's
        noise.normal_(0.0, self.scale, generator=generator)
        if values.device.type == "cpu" and values.dtype == noise.dtype:
            return noise.add_(values)
        return values + noise.to(values.device, values.dtype)

    def _system_noise(self, values: torch.Tensor, known: torch.Tensor | None) -> torch.Tensor:
        """trunc(u/g)·g + round(s·z/g)·g for a power of two g ≤ s·2⁻²⁴.

        Both terms are whole multiples of g, so the result is a rounded sum x + s·z and no bit of
        it depends on u other than through that sum (floating-point noise alone would leak u
        through its last bits). Truncation never lengthens a clipped update.
        """
        import torch  # heavy: `trilemma solve` must start without it

        sent = values if known is None else values[known]
        plain = sent.detach().cpu().numpy()
        noisy = np.empty(plain.shape, np.float64)
        grid = 2.0 ** (math.floor(math.log2(self.scale)) - _GRID_BITS)
        start = 0
        for normals in system_normals(plain.size):
            end = start + normals.size
            noisy[start:end] = np.trunc(plain[start:end] / grid)
            noisy[start:end] += np.rint(normals * (self.scale / grid))
            start = end
        made = torch.from_numpy(noisy.__imul__(grid)).to(values.device, values.dtype)
        if known is None:
            return made
        full = torch.zeros_like(values)
        full[known] = made
        return full


def system_normals(count: int) -> Iterator[NDArray[np.float64]]:
    """Standard normals from the system's CSPRNG: AES-256-CTR words through the inverse normal.

    In blocks. One bit of a word is the sign, 63 are the tail probability (w + ½)/2⁶⁴ < ½, so that
    both tails reach 9.1 standard deviations with full precision.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from scipy.special import ndtri  # heavy: workers must start without it

    stream = Cipher(algorithms.AES256(System().bytes(32)), modes.CTR(bytes(16))).encryptor()
    zeros = memoryview(bytes(8 * _BLOCK))
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        words = np.frombuffer(stream.update(zeros[: 8 * size]), "<u8")
        tails = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
        normals: NDArray[np.float64] = ndtri(tails)
        np.negative(normals, out=normals, where=(words & np.uint64(1)).astype(bool))
        yield normals


def _clipped(values: torch.Tensor, clip: float) -> torch.Tensor:
    """The values, no longer than `clip` but for a relative 1e-6, however large they are."""
    norm = _norm(values)
    if norm <= clip:
        return values
    root = math.sqrt(clip / norm)
    if root * root >= _SMALLEST:
        return values * (clip / norm)
    return values * root * root  # single precision would round the factor itself away


def _norm(values: torch.Tensor) -> float:
    """‖u‖: blocks in the update's precision, their norms in double."""
    import torch  # heavy: `trilemma solve` must start without it

    whole = values.numel() // _NORM_BLOCK * _NORM_BLOCK
    blocks = torch.linalg.vector_norm(values[:whole].view(-1, _NORM_BLOCK), dim=1).double()
    rest = torch.linalg.vector_norm(values[whole:], dtype=torch.float64)
    norm = float(torch.linalg.vector_norm(torch.cat((blocks, rest.unsqueeze(0)))))
    if math.isfinite(norm):
        return norm
    return float(torch.linalg.vector_norm(values, dtype=torch.float64))  # squares overflowed
