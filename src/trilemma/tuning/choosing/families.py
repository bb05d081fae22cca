"""Families: protections with one free strength, x = log₁₀(strength / warm start), larger = more.

The strength is a noise variance, a mask's bound, or 1/ρ for compression (whose own parameter runs
the other way, departure E12). Families that look the same to the adversary share a calibration:
noise inside secret sharing and noise inside Paillier both show a server the noisy sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.claims import Claim
from trilemma.observations import Adversary
from trilemma.protections.protection import Protection
from trilemma.protections.transforms.base import Transform
from trilemma.protections.transforms.bounded import BoundedMask
from trilemma.protections.transforms.compression import Compression
from trilemma.protections.transforms.randomization import Randomization
from trilemma.protections.transports.base import Transport
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.plain import Plain
from trilemma.protections.transports.secret_sharing.transport import SecretSharing
from trilemma.tuning.calibrating.outcomes import UNPROTECTED
from trilemma.tuning.choosing.setting import Setting

__all__ = ["FAMILIES", "SYMBOLS", "Family", "Seen", "carrier", "families"]

Knob = Literal["variance", "keep", "bound"]
Seen = Literal["message", "sum", "nothing"]

FAMILIES: Final[Mapping[str, tuple[Knob | None, str]]] = MappingProxyType(
    {
        "randomization": ("variance", "plain"),
        "randomization+secret-sharing": ("variance", "secret-sharing"),
        "randomization+paillier": ("variance", "paillier"),
        "compression": ("keep", "plain"),
        "compression+randomization": ("variance", "plain"),
        "secret-sharing": (None, "secret-sharing"),
        "paillier": (None, "paillier"),
        "bounded-masks": ("bound", "plain"),
        "compression+secret-sharing": ("keep", "secret-sharing"),
    }
)
"""Name -> what is tuned, and what carries it."""

SYMBOLS: Final = {"variance": "noise variance", "keep": "share kept", "bound": "mask bound"}
_ASKED_FOR: Final = ("bounded-masks", "compression+secret-sharing")  # run only when named
_HEADROOM: Final = 4.0  # of a transport's range over the largest coordinate seen
_TAIL: Final = 8.0  # standard deviations of noise that must fit into the range
_STEPS: Final = 2.0  # of a transport's grid that a standard deviation of noise must have
_IDENTIFIABLE: Final = 1.6  # coordinates to unknowns at which compression starts to bite
_KEPT: Final = 0.1  # share of the coordinates that noise is added to, where both are combined
_WEAKER: Final = 4.0  # decades of noise below and above where all else is known
_STRONGER: Final = 1.5


@dataclass(frozen=True)
class Family:
    """A protection with one free strength; `protection(x)` is what to deploy at strength x."""

    name: str
    knob: Knob | None
    transport: str
    seen: Seen
    warm: float
    domain: tuple[float, float]
    setting: Setting

    @property
    def deployable(self) -> bool:
        """Bounded masks are the paper's, to be measured: a federation runs secret sharing."""
        return self.knob != "bound"

    @property
    def thins(self) -> bool:
        """Whether coordinates are left out."""
        return "compression" in self.name

    @property
    def whole_training(self) -> bool:
        """Whether it is measured over a whole training; what thins is measured for one round."""
        return not self.thins and self.knob != "bound"

    def parameter(self, x: float) -> float | None:
        """The mechanism's own parameter at strength x; None for none."""
        if self.knob is None or x == UNPROTECTED:
            return None
        return float(self.warm * 10 ** (-x if self.knob == "keep" else x))

    def at(self, strength: float) -> float:
        """x = low + strength · (high - low) of the domain."""
        low, high = self.domain
        return low + strength * (high - low)

    def position(self, parameter: float) -> float:
        """The strength x at which the mechanism has this parameter."""
        x = math.log10(parameter / self.warm)
        return -x if self.knob == "keep" else x

    def protection(self, x: float) -> Protection:
        """What a federation runs at strength x."""
        transforms = self._transforms(x)
        return Protection(transforms, self._carrier(transforms))

    def attacked(self, x: float, adversary: Adversary) -> Protection:
        """What the adversary reads at strength x, without the grid of a transport.

        Rounding only helps the clients. Bounded masks cancel in the sum, which a server reads
        besides and a curious client instead: that is attacked as the bare sum. A curious client
        reads the same mean whatever carries it, but for the places of compression.
        """
        common_places = self.knob == "keep" and self.transport != "plain"
        if self.seen == "sum" and (adversary is Adversary.SERVER or common_places):
            return Protection(self._transforms(x), SecretSharing())
        return Protection(self._transforms(x))

    def _transforms(self, x: float) -> tuple[Transform, ...]:
        value = self.parameter(x)
        thinned = (Compression(_KEPT),) if self.name == "compression+randomization" else ()
        if value is None:
            return thinned
        if self.knob == "variance":
            return (Randomization(value), *thinned)
        if self.knob == "bound":
            return (BoundedMask(value),)
        return (Compression(min(1.0, value)),)

    def _carrier(self, transforms: Sequence[Transform]) -> Transport:
        if self.transport == "plain":
            return Plain()
        reach, scale = _HEADROOM * self.setting.largest, None
        for each in transforms:
            if isinstance(each, Compression):
                assert isinstance(each.keep, float)
                reach /= each.keep  # kept coordinates are sent times 1/ρ
            if isinstance(each, Randomization):
                reach, scale = reach + _TAIL * each.scale, each.scale
        return carrier(self.transport, reach, self.setting, scale, blind=self.knob is None)


def carrier(
    transport: str,
    reach: float,
    setting: Setting,
    scale: float | None = None,
    *,
    blind: bool = False,
) -> Transport:
    """The transport, laid out for coordinates up to `reach`, noise of `scale` and all records.

    Its grid follows the noise: a standard deviation spans at least two of its steps.
    """
    clip = 2.0 ** math.ceil(math.log2(reach))
    bits = 16
    if scale is not None:
        bits = max(bits, 1 + math.ceil(math.log2(_STEPS * clip / scale)) + 1)
    if transport == "secret-sharing":
        narrow = (2 * ((1 << (bits - 1)) - 1) * setting.total_weight).bit_length() <= 32
        return SecretSharing(
            clip_range=clip,
            precision_bits=bits,
            ring_bits=32 if narrow else 64,
            max_weight=setting.total_weight,
        )
    return Paillier(
        mode="blind" if blind else "reveal",
        clip_range=clip,
        precision_bits=bits,
        max_weight=setting.total_weight,
    )


def families(
    setting: Setting,
    claim: Claim,
    p_max: float,
    adversary: Adversary,
    names: Sequence[str] | None = None,
) -> tuple[Family, ...]:
    """The families of these names, by default all that this federation can run."""
    for name in names or ():
        if name not in FAMILIES:
            raise UnknownName("family", name, FAMILIES)
    made = []
    for name, (knob, transport) in FAMILIES.items():
        if name not in names if names is not None else name in _ASKED_FOR:
            continue
        if transport != "plain" and setting.clients < 2:
            if names is not None:
                raise InvalidInput(
                    f"{name} hides an update in the sum of several clients, but the scenario has "
                    f"one; give it more clients, or choose another family."
                )
            continue
        if knob == "bound" and adversary is Adversary.CLIENT:
            raise InvalidInput(
                "bounded masks cancel in all that a curious client sees, so they have no "
                "strength against it; leave bounded-masks out."
            )
        made.append(_family(name, knob, transport, setting, claim, p_max, adversary))
    return tuple(made)


def _family(
    name: str,
    knob: Knob | None,
    transport: str,
    setting: Setting,
    claim: Claim,
    p_max: float,
    adversary: Adversary,
) -> Family:
    seen: Seen = "message" if transport == "plain" else "sum"
    if adversary is Adversary.CLIENT:
        seen = "sum"
    elif name == "paillier":
        seen = "nothing"
    warm, domain = 1.0, (-2.0, 2.0)
    if knob in ("variance", "bound"):
        # In a mean of K clients a record weighs 1/K, and K noises of variance v/K² each add up.
        warm = setting.noise_for(p_max, claim) / (setting.clients if seen == "sum" else 1)
        domain = (-_WEAKER, _STRONGER)
        if knob == "bound":
            warm = math.sqrt(3 * warm)
            domain = (-_WEAKER / 2, _STRONGER / 2)
    elif knob == "keep":
        unknowns = setting.unknowns * (setting.clients if seen == "sum" else 1)
        warm = min(0.9, _IDENTIFIABLE * unknowns / setting.parameters)
        if seen == "sum" and transport == "plain":
            # A mean holds each coordinate that one of the others sent, 1 - (1 - ρ)ⁿ of them.
            warm = -math.expm1(math.log1p(-warm) / (setting.clients - 1))
        most = math.log10(warm * setting.parameters)  # one coordinate is left
        domain = (math.log10(warm), max(0.1, most))
    return Family(name, knob, transport, seen, warm, domain, setting)
