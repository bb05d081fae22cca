"""Families: one mechanism with one strength, x = log₁₀(strength / warm start), larger = stronger.

Strength is a noise variance, a mask's bound, or 1/ρ for compression (whose own parameter runs the
other way, departure E12). Families that look the same to the adversary share a calibration: noise
inside secret sharing and noise inside Paillier both show a server the noisy sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import torch

from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.fisher import FisherPrediction, predict
from trilemma.estimation.scenario import Scenario
from trilemma.estimation.units import Measurement, unit_views
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

__all__ = ["FAMILIES", "Family", "Seen", "Setting", "clients_in", "families", "fisher"]

Knob = Literal["variance", "keep", "bound"]
Seen = Literal["message", "sum", "nothing"]

FAMILIES: Final[Mapping[str, tuple[Knob | None, str]]] = MappingProxyType(
    {
        "randomization": ("variance", "plain"),
        "compression": ("keep", "plain"),
        "bounded-masks": ("bound", "plain"),
        "secret-sharing": (None, "secret-sharing"),
        "randomization+secret-sharing": ("variance", "secret-sharing"),
        "compression+secret-sharing": ("keep", "secret-sharing"),
        "randomization+paillier": ("variance", "paillier"),
        "paillier": (None, "paillier"),
    }
)
"""Name -> what is tuned, and what carries it."""

_PROBED: Final = 8  # units for the warm start
_HEADROOM: Final = 4.0  # of a transport's range over the largest coordinate seen
_TAIL: Final = 8.0  # standard deviations of noise that must fit into the range
_IDENTIFIABLE: Final = 1.6  # coordinates to unknowns at which compression starts to bite
_DECADES: Final = 2.0


@dataclass(frozen=True)
class Setting:
    """What the families need to know of a federation.

    `noise` is the warm start of the variance by what is seen: Fisher's prediction of where half of
    the units are recovered, or the mean squared coordinate; `unknowns` the numbers that an attack
    has to find. `largest` is the largest coordinate of the sampled updates, `norms` their norms.
    """

    parameters: int
    clients: int
    total_weight: int
    equal_weights: bool
    largest: float
    norms: tuple[float, ...]
    noise: Mapping[Seen, float]
    predicted: Mapping[Seen, bool]
    unknowns: Mapping[Seen, int]

    @classmethod
    def of(
        cls, scenario: Scenario, criterion: Criterion, adversary: Adversary, *, seed: int
    ) -> Setting:
        """Measure the federation on a few updates."""
        sizes = [len(records) for records in scenario.records]
        single = Measurement(seed=seed)
        views, _, _ = unit_views(scenario, single, range(max(_PROBED, len(sizes))))
        updates = torch.stack([view.observation.update for view in views]).double()
        noise: dict[Seen, float] = {}
        predicted: dict[Seen, bool] = {}
        unknowns: dict[Seen, int] = {}
        each = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
        for seen in _sights(adversary, len(sizes)):
            clients = clients_in(seen, scenario, adversary)
            unknowns[seen] = each * scenario.local_training.unit_size * clients
            start = math.nan
            if criterion.metric == "psnr" and unknowns[seen] <= scenario.task.layout.size:
                found = fisher(scenario, seen, adversary, seed=seed)
                # A mean of K clients' updates holds 1/K of the variance that each of them adds.
                start = found.half_point(criterion.threshold) * clients
            predicted[seen] = math.isfinite(start) and start > 0
            noise[seen] = start if predicted[seen] else float((updates**2).mean())
        return cls(
            parameters=scenario.task.layout.size,
            clients=len(sizes),
            total_weight=sum(sizes),
            equal_weights=len(set(sizes)) == 1,
            largest=float(updates.abs().max()),
            norms=tuple(updates.norm(dim=1).tolist()),
            noise=noise,
            predicted=predicted,
            unknowns=unknowns,
        )


def _sights(adversary: Adversary, clients: int) -> tuple[Seen, ...]:
    if adversary is Adversary.CLIENT:
        return ("sum",)
    return ("message", "sum") if clients > 1 else ("message",)


def _measurement(seen: Seen, adversary: Adversary, seed: int) -> Measurement:
    if seen == "message" or adversary is Adversary.CLIENT:
        return Measurement(adversary=adversary, seed=seed)
    return Measurement(protection=Protection(transport=SecretSharing()), seed=seed)


def clients_in(seen: Seen, scenario: Scenario, adversary: Adversary) -> int:
    """Clients whose updates are in what is seen; a curious one takes its own out."""
    return _measurement(seen, adversary, 0).cohort(scenario) - (adversary is Adversary.CLIENT)


def fisher(scenario: Scenario, seen: Seen, adversary: Adversary, *, seed: int) -> FisherPrediction:
    """What noise of a variance on what is seen is predicted to hide, from a few updates."""
    measurement = _measurement(seen, adversary, seed)
    return predict(*unit_views(scenario, measurement, range(_PROBED)))


@dataclass(frozen=True)
class Family:
    """One mechanism in one federation; `protection(x)` is what to deploy at strength x."""

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
    def own_places(self) -> bool:
        """Whether each client sends coordinates of its own, as `Protection.own_places` says."""
        return self.knob == "keep" and self.transport == "plain"

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
        transform = self._transform(x)
        transforms = () if transform is None else (transform,)
        return Protection(transforms, self._carrier(transform))

    def attacked(self, x: float, adversary: Adversary) -> Protection:
        """What the adversary reads at strength x, without the grid of a transport.

        Rounding only helps the clients. Bounded masks cancel in the sum, which a server reads
        besides and a curious client instead: that is attacked as the bare sum. A curious client
        reads the same mean whatever carries it, but for the places of compression.
        """
        transform = self._transform(x)
        transforms = () if transform is None else (transform,)
        common_places = self.knob == "keep" and not self.own_places
        if self.seen == "sum" and (adversary is Adversary.SERVER or common_places):
            return Protection(transforms, SecretSharing())
        return Protection(transforms)

    def _transform(self, x: float) -> Transform | None:
        value = self.parameter(x)
        if value is None:
            return None
        if self.knob == "variance":
            return Randomization(value)
        return BoundedMask(value) if self.knob == "bound" else Compression(min(1.0, value))

    def _carrier(self, transform: Transform | None) -> Transport:
        if self.transport == "plain":
            return Plain()
        reach = _HEADROOM * self.setting.largest
        if isinstance(transform, Compression):
            assert isinstance(transform.keep, float)
            reach /= transform.keep  # kept coordinates are sent times 1/ρ
        if isinstance(transform, Randomization):
            reach += _TAIL * transform.scale
        return carrier(self.transport, reach, self.setting, blind=self.knob is None)


def carrier(transport: str, reach: float, setting: Setting, *, blind: bool = False) -> Transport:
    """The transport, laid out for coordinates up to `reach` and the clients' records."""
    clip = 2.0 ** math.ceil(math.log2(reach))
    if transport == "secret-sharing":
        narrow = (2 * ((1 << 15) - 1) * setting.total_weight).bit_length() <= 32
        return SecretSharing(
            clip_range=clip, ring_bits=32 if narrow else 64, max_weight=setting.total_weight
        )
    return Paillier(
        mode="blind" if blind else "reveal", clip_range=clip, max_weight=setting.total_weight
    )


def families(
    setting: Setting, adversary: Adversary, names: Sequence[str] | None = None
) -> tuple[Family, ...]:
    """The families of these names, by default all that this federation can run."""
    for name in names or ():
        if name not in FAMILIES:
            raise UnknownName("mechanism", name, FAMILIES)
    made = []
    for name, (knob, transport) in FAMILIES.items():
        if names is not None and name not in names:
            continue
        if transport != "plain" and setting.clients < 2:
            if names is not None:
                raise InvalidInput(
                    f"{name} hides an update in the sum of several clients, but the scenario has "
                    f"one; give it more clients, or choose another mechanism."
                )
            continue
        if knob == "bound" and adversary is Adversary.CLIENT:
            if names is not None:
                raise InvalidInput(
                    "bounded masks cancel in all that a curious client sees, so they have no "
                    "strength against it; leave bounded-masks out."
                )
            continue
        made.append(_family(name, knob, transport, setting, adversary))
    return tuple(made)


def _family(
    name: str, knob: Knob | None, transport: str, setting: Setting, adversary: Adversary
) -> Family:
    seen: Seen = "message" if transport == "plain" else "sum"
    if adversary is Adversary.CLIENT:
        seen = "sum"
    elif name == "paillier":
        seen = "nothing"
    warm, domain = 1.0, (-_DECADES, _DECADES)
    if knob == "variance":
        warm = setting.noise[seen]
    elif knob == "bound":
        warm = math.sqrt(3 * setting.noise[seen])
    elif knob == "keep":
        warm = min(0.9, _IDENTIFIABLE * setting.unknowns[seen] / setting.parameters)
        if seen == "sum" and transport == "plain":
            # A mean holds each coordinate that one of the others sent, 1 - (1 - ρ)ⁿ of them.
            warm = -math.expm1(math.log1p(-warm) / (setting.clients - 1))
        most = math.log10(warm * setting.parameters)  # one coordinate is left
        domain = (math.log10(warm), min(_DECADES, max(0.1, most)))
    return Family(name, knob, transport, seen, warm, domain, setting)
