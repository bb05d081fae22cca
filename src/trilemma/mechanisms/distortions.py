"""Ways to change an update before it is sent, as an attacker meets them: it knows the law.

One instance is one parameter value. `distort` returns what the server reads, together with what
everyone knows of how it was made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

import torch

from trilemma.errors import InvalidInput, UnknownName
from trilemma.observations import Noise, Observation

if TYPE_CHECKING:
    from trilemma.entropy import Seeded

__all__ = [
    "DISTORTIONS",
    "Distortion",
    "GaussianNoise",
    "RandomKeep",
    "UniformMask",
    "Unprotected",
    "parse_protection",
]


class Distortion(Protocol):
    """Changes one client's update."""

    @property
    def name(self) -> str:
        """How the command line spells it, with its parameter."""

    def distort(self, update: torch.Tensor, entropy: Seeded) -> Observation:
        """What the server reads of an update [m]."""


@dataclass(frozen=True)
class Unprotected:
    """The update as it is."""

    @property
    def name(self) -> str:
        return "none"

    def distort(self, update: torch.Tensor, entropy: Seeded) -> Observation:
        return Observation(update)


@dataclass(frozen=True)
class GaussianNoise:
    """Randomization: u + N(0, variance · I)."""

    variance: float

    def __post_init__(self) -> None:
        _positive("variance (of the added noise)", self.variance)

    @property
    def name(self) -> str:
        return f"randomization:variance={self.variance!r}"

    def distort(self, update: torch.Tensor, entropy: Seeded) -> Observation:
        scale = math.sqrt(self.variance)
        # Drawn in double precision on the CPU: the same noise whatever the device and the dtype.
        draw = torch.randn(
            update.shape, dtype=torch.float64, generator=entropy.torch_generator("noise")
        )
        return Observation(
            update + (scale * draw).to(update.device, update.dtype),
            noise=Noise("gaussian", scale),
        )


@dataclass(frozen=True)
class RandomKeep:
    """Compression: each coordinate is sent with probability `keep`, and it is known which."""

    keep: float

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise InvalidInput(
                f"keep (probability of sending a coordinate) must lie in (0, 1], got {self.keep}."
            )

    @property
    def name(self) -> str:
        return f"compression:keep={self.keep!r}"

    def distort(self, update: torch.Tensor, entropy: Seeded) -> Observation:
        draw = torch.rand(
            update.shape, dtype=torch.float64, generator=entropy.torch_generator("keep")
        )
        known = (draw < self.keep).to(update.device)
        return Observation(torch.where(known, update, 0.0), known=known)


@dataclass(frozen=True)
class UniformMask:
    """The paper's bounded mask of secret sharing: u + U(-bound, bound) on each coordinate."""

    bound: float

    def __post_init__(self) -> None:
        _positive("bound (of the random mask)", self.bound)

    @property
    def name(self) -> str:
        return f"secret-sharing:bound={self.bound!r}"

    def distort(self, update: torch.Tensor, entropy: Seeded) -> Observation:
        draw = torch.rand(
            update.shape, dtype=torch.float64, generator=entropy.torch_generator("mask")
        )
        return Observation(
            update + (self.bound * (2 * draw - 1)).to(update.device, update.dtype),
            noise=Noise("uniform", self.bound),
        )


DISTORTIONS: Final[Mapping[str, tuple[str, Callable[[float], Distortion]]]] = MappingProxyType(
    {
        "compression": ("keep", RandomKeep),
        "randomization": ("variance", GaussianNoise),
        "secret-sharing": ("bound", UniformMask),
    }
)
"""Mechanism -> its parameter and its class."""


def parse_protection(text: str) -> Distortion:
    """The protection that a spec like "randomization:variance=1e-3" names.

    >>> parse_protection("compression:keep=0.1")
    RandomKeep(keep=0.1)
    >>> parse_protection("none").name
    'none'
    """
    name, _, setting = text.partition(":")
    if name == "none" and not setting:
        return Unprotected()
    if name not in DISTORTIONS:
        raise UnknownName("protection", name, [*DISTORTIONS, "none"])
    parameter, make = DISTORTIONS[name]
    key, _, value = setting.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if key != parameter or math.isnan(number):
        raise InvalidInput(
            f"protection {text!r} must be written {name}:{parameter}=NUMBER, "
            f"e.g. {name}:{parameter}=0.1."
        )
    return make(number)


def _positive(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{what} must be positive and finite, got {value}.")
