"""Flower's mods, strategy wrappers and secure aggregation, with their own arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.update_clipping import Clipping, ClippingSchedule
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.quantities import counted, finite, positive
from trilemma.tuning.audit.adaptive_clipping import AdaptiveRule, adaptive_norms
from trilemma.tuning.audit.setting_parts import Part, rounded_up

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario

__all__ = [
    "AdaptiveClipping",
    "ClientSideAdaptive",
    "ClientSideFixed",
    "FixedClipping",
    "LocalDpMod",
    "SecAggPlus",
    "ServerSideAdaptive",
    "ServerSideFixed",
]

_RING: Final = 2**31  # sums of units that a ring of 32 bits holds


@dataclass(frozen=True)
class LocalDpMod(Part):
    """Flower's local DP: clip the update to `clipping_norm`, add noise that knows nothing of it.

    Its deviation is sensitivity · √(2 ln(1.25 / δ)) / ε.
    """

    clipping_norm: float
    sensitivity: float
    epsilon: float
    delta: float

    name: ClassVar[str] = "flower.LocalDpMod"

    def __post_init__(self) -> None:
        for name in ("clipping_norm", "epsilon", "delta"):
            positive(name, getattr(self, name))
        if finite("sensitivity", self.sensitivity) < 0 or self.delta >= 1.25:
            raise InvalidInput(
                f"sensitivity must not be negative and delta be below 1.25, got "
                f"{self.sensitivity} and {self.delta}."
            )

    @property
    def deviation(self) -> float:
        """s, of the noise on each coordinate."""
        return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        if not self.deviation:
            return (Clipping(self.clipping_norm),)
        return (Randomization(self.deviation**2, self.clipping_norm),)

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        if self.sensitivity < 2 * self.clipping_norm:
            yield (
                f"sensitivity = {self.sensitivity:g} is not that of updates clipped to norm "
                f"{self.clipping_norm:g}, which is {self.clipping_norm:g} where a client is left "
                f"out and twice that where it is replaced: epsilon = {self.epsilon:g} is not what "
                "holds."
            )

    def noisier(self, factor: float) -> Part:
        return replace(self, sensitivity=rounded_up(self.sensitivity * factor))


@dataclass(frozen=True)
class FixedClipping(Part):
    """Flower's `fixedclipping_mod`: the client clips, and nothing is added."""

    clipping_norm: float

    name: ClassVar[str] = "flower.fixedclipping_mod"

    def __post_init__(self) -> None:
        positive("clipping_norm", self.clipping_norm)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (Clipping(self.clipping_norm),)

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        yield "Clipping bounds how long an update is; it adds nothing that could hide one."


class _Central(Part):
    """A wrapper of the server's strategy."""

    noise_multiplier: float
    num_sampled_clients: int | None

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        yield (
            "The server adds this noise to a mean that it has read: against the server it buys "
            "nothing."
            if self.noise_multiplier
            else "The server adds no noise."
        )
        told, cohort = self.num_sampled_clients, scenario.per_round
        if told is not None and told != cohort:
            yield (
                f"num_sampled_clients is {told}, and {scenario.name} has {cohort} clients a "
                f"round: the noise is that for {cohort}, the same beside one client."
            )


@dataclass(frozen=True)
class _CentralFixed(_Central):
    noise_multiplier: float
    clipping_norm: float
    num_sampled_clients: int | None = None

    def __post_init__(self) -> None:
        positive("clipping_norm", self.clipping_norm)
        if finite("noise_multiplier", self.noise_multiplier) < 0:
            raise InvalidInput(f"noise_multiplier is {self.noise_multiplier}; it is at least 0.")
        if self.num_sampled_clients is not None:
            counted("num_sampled_clients", self.num_sampled_clients)

    def at_server(self, scenario: Scenario) -> tuple[Transform, ...]:
        if not self.noise_multiplier:
            return (Clipping(self.clipping_norm),)
        each = self.noise_multiplier * _spread(scenario)
        return (Randomization((each * self.clipping_norm) ** 2, self.clipping_norm),)


@dataclass(frozen=True)
class ServerSideFixed(_CentralFixed):
    """Flower's wrapper that clips and adds noise at the server, to what it has read."""

    name: ClassVar[str] = "flower.DifferentialPrivacyServerSideFixedClipping"


@dataclass(frozen=True)
class ClientSideFixed(_CentralFixed):
    """Flower's wrapper of `fixedclipping_mod`: clients clip, and the server adds noise."""

    name: ClassVar[str] = "flower.DifferentialPrivacyClientSideFixedClipping"

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (Clipping(self.clipping_norm),)


@dataclass(frozen=True)
class _CentralAdaptive(_Central):
    noise_multiplier: float = 0.0
    num_sampled_clients: int | None = None
    initial_clipping_norm: float = 0.1
    target_clipped_quantile: float = 0.5
    clip_norm_lr: float = 0.2
    clipped_count_stddev: float | None = None

    def __post_init__(self) -> None:
        if self.num_sampled_clients is not None:
            counted("num_sampled_clients", self.num_sampled_clients)
        self.rule(self.num_sampled_clients or 10**6)

    def rule(self, clients: int) -> AdaptiveRule:
        """How the norm moves, for so many clients of a round."""
        return AdaptiveRule(
            noise_multiplier=self.noise_multiplier,
            clients=clients,
            first=self.initial_clipping_norm,
            quantile=self.target_clipped_quantile,
            rate=self.clip_norm_lr,
            count_deviation=self.clipped_count_stddev,
        )

    def schedule(self, scenario: Scenario, noise: float = 0.0) -> ClippingSchedule:
        """The norms of a training without noise."""
        rule = self.rule(scenario.per_round)
        return ClippingSchedule(adaptive_norms(scenario, rule), noise)

    def at_server(self, scenario: Scenario) -> tuple[Transform, ...]:
        noise = self.rule(scenario.per_round).noise * _spread(scenario)
        return (self.schedule(scenario, noise),)

    def count_noise(self, scenario: Scenario) -> float:
        return self.rule(scenario.per_round).count_noise

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        yield from super().remarks(scenario)
        norms = self.schedule(scenario).norms
        first, last = norms[0], norms[-1]
        if not 0.01 < last / first < 100:
            yield (
                f"The norm runs away, from {first:g} to {last:.3g}: it is lowered when more "
                "updates are clipped than the target says, and raised when fewer are."
            )


@dataclass(frozen=True)
class ServerSideAdaptive(_CentralAdaptive):
    """Flower's wrapper that clips to a moving norm and adds noise at the server."""

    name: ClassVar[str] = "flower.DifferentialPrivacyServerSideAdaptiveClipping"


@dataclass(frozen=True)
class ClientSideAdaptive(_CentralAdaptive):
    """Flower's wrapper of `adaptiveclipping_mod`: clients clip to the norm that the server sends.

    They tell the server besides whether they were clipped.
    """

    name: ClassVar[str] = "flower.DifferentialPrivacyClientSideAdaptiveClipping"

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (self.schedule(scenario),)


@dataclass(frozen=True)
class AdaptiveClipping(ClientSideAdaptive):
    """The mod alone."""

    name: ClassVar[str] = "flower.adaptiveclipping_mod"


def _spread(scenario: Scenario) -> float:
    """What each client would add for one unit of noise over K in a mean by records.

    With Σ_k w_k² v = (z C / K)² the noise of deviation √v of all clients is the server's.
    """
    sizes = [len(record) for record in scenario.records]
    mean = sum(sizes) / len(sizes)
    squares = sum(size**2 for size in sizes) / len(sizes)
    cohort = scenario.per_round
    return math.sqrt(1 / cohort**2 / (squares / (cohort * mean**2)))


@dataclass(frozen=True)
class SecAggPlus(Part):
    """Flower's SecAgg+: the server reads the sum alone."""

    num_shares: float | None = None
    reconstruction_threshold: float | None = None
    max_weight: float = 1000.0
    clipping_range: float = 8.0
    quantization_range: int = 4194304
    modulus_range: int = 4294967296

    name: ClassVar[str] = "flower.SecAggPlus"

    def __post_init__(self) -> None:
        for name in ("max_weight", "clipping_range", "quantization_range", "modulus_range"):
            positive(name, getattr(self, name))
        shares, needed = self.num_shares, self.reconstruction_threshold
        if shares is not None and needed is not None and not 0 < needed <= shares:
            raise InvalidInput(
                f"reconstruction_threshold must lie in 0 .. num_shares = {shares:g}, got "
                f"{needed:g}."
            )
        if not 2 <= self.quantization_range <= 2**32:
            raise InvalidInput(
                f"quantization_range must lie in 2 .. 2^32, got {self.quantization_range}."
            )

    def transport(self, scenario: Scenario) -> Transport:
        bits = math.floor(math.log2(self.quantization_range))
        weight = sum(len(record) for record in scenario.records)
        return SecretSharing(
            clip_range=self.clipping_range,
            precision_bits=bits,
            max_weight=weight,
            ring_bits=32 if 2**bits * weight < _RING else 64,
        )

    def threshold(self, scenario: Scenario) -> int | None:
        needed, shares = self.reconstruction_threshold, self.num_shares
        if needed is None:
            return None
        whole = isinstance(needed, int) and isinstance(shares, int)
        share = needed / shares if whole and shares else needed
        return max(1, min(scenario.per_round, math.ceil(share * scenario.per_round)))

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        yield (
            "Secure aggregation hides which client sent what; the server still reads the sum, "
            "and that is attacked."
        )
