"""Families: protections with one free strength, x = log₁₀(strength / warm start), larger = more.

A family is a mechanism with one free parameter (ours by name, yours as module:class), what thins
or carries it, and where the search for its strength begins. Families that look the same to the
adversary share a calibration: noise inside secret sharing and noise inside Paillier both show a
server the noisy sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from trilemma.errors import InvalidInput, UnknownName
from trilemma.game.playing.claims import Claim
from trilemma.observations import Adversary
from trilemma.protection.protection import Protection
from trilemma.protection.specs import tunable
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.protection.transports import PLAIN
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.calibration.outcomes import UNPROTECTED
from trilemma.tuning.families.family_setting import Setting
from trilemma.tuning.families.proof_conditions import certified_families
from trilemma.tuning.presets import PRESETS
from trilemma.tuning.request import Request

__all__ = ["FAMILIES", "KEY_STATEMENT", "Family", "Seen", "families", "families_asked"]

Seen = Literal["message", "sum", "nothing"]
Carrier = Literal["plain", "secret-sharing", "paillier"]

FAMILIES: Final = (
    "randomization",
    "randomization+secret-sharing",
    "randomization+paillier",
    "compression",
    "compression+randomization",
    "secret-sharing",
    "paillier",
)
"""What is tuned unless other names are given; any mechanism may be named, alone or +carrier."""

KEY_STATEMENT: Final = (
    "The server reads nothing: ciphertexts under a key of {bits} bits that it does not hold. This "
    "is no measurement; it rests on the key."
)

_CARRIERS: Final[tuple[Carrier, ...]] = ("secret-sharing", "paillier")
_NAMES: Final = {
    "randomization": "noise variance",
    "compression": "share kept",
    "bounded-masks": "mask bound",
}
_BOTH: Final = "compression+randomization"
_USUAL: Final = SecretSharing()
_HEADROOM: Final = 4.0  # of a transport's range over the largest coordinate seen
_KEPT: Final = 0.1  # share of the coordinates that noise is added to, where both are combined
_WEAKER, _STRONGER = 4.0, 0.6  # decades of noise around where all else but the record is known


@dataclass(frozen=True)
class Family:
    """A protection with one free strength; `protection(x)` is what to deploy at strength x."""

    name: str
    mechanism: type[Tunable] | None
    carrier: Carrier
    seen: Seen
    warm: float
    domain: tuple[float, float]
    setting: Setting

    @property
    def deployable(self) -> bool:
        """What cancels in the sum is the paper's, to be measured: deploy secret sharing."""
        return self.mechanism is None or not self.mechanism.cancels

    @property
    def thins(self) -> bool:
        """Whether coordinates are left out."""
        return self.name == _BOTH or (self.mechanism is not None and self.mechanism.thins)

    @property
    def own_places(self) -> bool:
        """Whether each client leaves out coordinates of its own, of which only the sum is seen."""
        return self.thins and self.seen == "sum" and self.carrier == "plain"

    @property
    def look(self) -> tuple[object, ...]:
        """What an adversary can tell families by: equal for those that share their games."""
        return self.mechanism, self.seen, self.thins, self.own_places

    @property
    def whole_training(self) -> bool:
        """Whether it is measured over a whole training; what thins is measured for one round."""
        return not self.thins and self.deployable

    def tested_over(self, rounds: int) -> bool:
        """Whether it can be chosen for so many rounds, and so is tested and not only estimated."""
        return rounds == 1 or self.whole_training

    @property
    def symbol(self) -> str | None:
        """What its strength is called; None where nothing is tuned."""
        if self.mechanism is None:
            return None
        return _NAMES.get(self.mechanism.name, self.mechanism.parameter.meaning)

    def strength(self, x: float | None) -> float | None:
        """The mechanism's own value, x decades beyond the warm start; None for none."""
        if self.mechanism is None or x is None or x == UNPROTECTED:
            return None
        scale = self.mechanism.parameter
        return scale.within(scale.moved(self.warm, x))

    def at(self, place: float) -> float:
        """x = low + place · (high - low) of the domain."""
        low, high = self.domain
        return low + place * (high - low)

    def place(self, x: float) -> float:
        """Where x lies in the domain, the inverse of `at`."""
        low, high = self.domain
        return (x - low) / (high - low)

    def decades(self, strength: float) -> float:
        """x of a strength: how many decades it lies beyond the warm start."""
        if self.mechanism is None:
            raise InvalidInput(f"{self.name} has no strength to be tuned, got {strength}.")
        return self.mechanism.parameter.decades(self.warm, strength)

    def protection(self, x: float) -> Protection:
        """What a federation runs, x decades beyond the warm start."""
        transforms = self._transforms(x)
        return Protection(transforms, self._carrier(transforms))

    def attacked(self, x: float, adversary: Adversary) -> Protection:
        """What the adversary reads there, without the grid of a transport.

        Rounding only helps the clients. Masks that cancel are attacked in the messages; the sum,
        where they do, as the bare sum. A curious client reads the same mean whatever carries it,
        but for the places of compression.
        """
        common_places = self.thins and self.carrier != "plain"
        if self.seen == "sum" and (adversary is Adversary.SERVER or common_places):
            transforms = self._transforms(x)
            return Protection(transforms, self._sum_of(transforms))
        return Protection(self._transforms(x))

    def _transforms(self, x: float) -> tuple[Transform, ...]:
        value = self.strength(x)
        thinned = (Compression(_KEPT),) if self.name == _BOTH else ()
        if value is None or self.mechanism is None:
            return thinned
        return (self.mechanism.at(value), *thinned)

    def _sum_of(self, transforms: Sequence[Transform]) -> SecretSharing:
        """What sums them: no attack reads its grid, but one that would lose the noise is none."""
        reach, noise = self._reach(transforms)
        if not 0 < noise < _USUAL.least_noise():
            return _USUAL
        return SecretSharing.fitted(reach, self.setting.weight_cap, noise)

    def _reach(self, transforms: Sequence[Transform]) -> tuple[float, float]:
        """How far a sent coordinate may reach, and the standard deviation of its noise."""
        reach, noise = _HEADROOM * self.setting.largest, 0.0
        for transform in transforms:
            if isinstance(transform, Tunable):
                reach = transform.reach(reach)
            noise = max(noise, transform.scale)
        return reach, noise

    def _carrier(self, transforms: Sequence[Transform]) -> Transport:
        if self.carrier == "plain":
            return PLAIN
        reach, noise = self._reach(transforms)
        if self.carrier == "secret-sharing":
            return SecretSharing.fitted(reach, self.setting.weight_cap, noise)
        made = Paillier.fitted(reach, self.setting.weight_cap, noise)
        return replace(made, mode="blind") if self.mechanism is None else made


def families(
    setting: Setting,
    claim: Claim,
    p_max: float,
    adversary: Adversary,
    names: Sequence[str] | None = None,
    *,
    proved: bool = False,
) -> tuple[Family, ...]:
    """The families of these names, by default all that this federation can run, or prove."""
    if proved:
        names = certified_families(names, setting.clients)
    made = []
    for name in FAMILIES if names is None else names:
        mechanism, carrier = _parts(name)
        if carrier != "plain" and setting.clients < 2:
            if names is not None:
                raise InvalidInput(
                    f"{name} hides an update in the sum of several clients, but the scenario has "
                    f"one; give it more clients, or choose another family."
                )
            continue
        if mechanism is not None and mechanism.cancels and adversary is Adversary.CLIENT:
            raise InvalidInput(
                f"{name} cancels in all that a curious client sees, so it has no strength "
                f"against it; leave it out."
            )
        made.append(_family(name, mechanism, carrier, setting, claim, p_max, adversary))
    return tuple(made)


def families_asked(request: Request, clients: int) -> tuple[str, ...] | None:
    """The families asked for; of a preset's own, those that so many clients can run.

    For a proof they are those with noise: nothing can be proved of others.
    """
    own = PRESETS[request.preset].get("families")
    if own is None or request.families != own:
        return request.families
    able = {name: _parts(name) for name in own}
    return tuple(
        name
        for name, (mechanism, carrier) in able.items()
        if (clients > 1 or carrier == "plain")
        and (request.knows != "anyone" or mechanism is Randomization)
    )


def _parts(name: str) -> tuple[type[Tunable] | None, Carrier]:
    """The mechanism and the carrier that a family's name joins by +."""
    if name in _CARRIERS:
        return None, name
    if name == _BOTH:
        return tunable("randomization"), "plain"
    first, _, last = name.rpartition("+")
    for carrier in _CARRIERS:
        if first and last == carrier:
            return _mechanism(first, name), carrier
    return _mechanism(name, name), "plain"


def _mechanism(name: str, family: str) -> type[Tunable]:
    known = {*_NAMES, *FAMILIES, "compression+secret-sharing"}
    if ":" not in name and name not in _NAMES:
        raise UnknownName("family", family, [*sorted(known), "module:class"])
    return tunable(name)


def _family(
    name: str,
    mechanism: type[Tunable] | None,
    carrier: Carrier,
    setting: Setting,
    claim: Claim,
    p_max: float,
    adversary: Adversary,
) -> Family:
    seen: Seen = "message" if carrier == "plain" else "sum"
    if adversary is Adversary.CLIENT:
        seen = "sum"
    elif name == "paillier":
        seen = "nothing"
    if mechanism is None:
        return Family(name, None, carrier, seen, 1.0, (-1.0, 1.0), setting)
    summed = setting.clients if seen == "sum" else 1
    own_places = seen == "sum" and carrier == "plain"
    start = Start(
        # In a mean of K clients a record weighs 1/K, and K noises of variance v/K² each add up.
        noise=setting.noise_for(p_max, claim) / summed,
        unknowns=setting.unknowns * summed,
        coordinates=setting.parameters,
        senders=setting.clients - 1 if own_places else 1,
    )
    warm, scale = mechanism.warm(start), mechanism.parameter
    weakest, strongest = mechanism.span(start)
    domain = scale.decades(warm, weakest), scale.decades(warm, strongest)
    if mechanism is Randomization:
        domain = (-_WEAKER, _STRONGER)
    return Family(name, mechanism, carrier, seen, warm, domain, setting)
