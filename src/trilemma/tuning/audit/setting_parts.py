"""Settings as frameworks write them, each as what it does to an update and who does it.

A part says what a client sends (`transforms`, `transport`), what the server does besides
(`at_server`), which the server itself is never hidden from, and how the same kind protects more.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from trilemma.errors import InvalidInput
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.omission import Omission
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.quantisation import Quantisation
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transforms.update_clipping import Clipping, ClippingSchedule
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.quantities import counted, finite, positive
from trilemma.tuning.audit.adaptive_clipping import AdaptiveRule, adaptive_norms

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining

__all__ = ["FRAMEWORKS", "Own", "Part"]

_QUARTERS: Final = 4  # of a parameter that is searched: down to 1 / 256
_FOUR: Final = Context(prec=4, rounding=ROUND_CEILING)
_RING: Final = 2**31  # sums of units that a ring of 32 bits holds


class Part(ABC):
    """One thing that a framework does, with its own arguments as fields."""

    name: ClassVar[str]

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        """What the client does to its update before it is sent."""
        return ()

    def transport(self, scenario: Scenario) -> Transport | None:
        """What carries it, if this part says so."""
        return None

    def at_server(self, scenario: Scenario) -> tuple[Transform, ...]:
        """What the server does to what it has read, as if each client had done it."""
        return ()

    def threshold(self, scenario: Scenario) -> int | None:
        """The fewest clients whose sum is released, if this part says so."""
        return None

    def count_noise(self, scenario: Scenario) -> float:
        """The deviation of the noise on how many clients were clipped, 0 where nobody is told."""
        return 0.0

    def training(self, training: LocalTraining) -> LocalTraining:
        """How clients train."""
        return training

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        """What somebody who runs it should know."""
        return ()

    def noisier(self, factor: float) -> Part | None:
        """The same with so many times the deviation of its noise; None where it adds none."""
        return None

    def stronger(self) -> Iterator[Part]:
        """The same kind, more and more protective; nothing where no parameter helps."""
        yield from ()

    def describe(self) -> str:
        """As it is read."""
        given = _given(self)
        written = ",".join(f"{name}={_written(value)}" for name, value in given.items())
        return f"{self.name}:{written}" if written else self.name

    def paste(self) -> str:
        """The line for the framework's own files."""
        written = ", ".join(f"{name}={value!r}" for name, value in _given(self).items())
        return f"{self.name.partition('.')[2]}({written})"


def _given(part: Part) -> dict[str, Any]:
    """Arguments that differ from their defaults."""
    return {
        field.name: getattr(part, field.name)
        for field in fields(part)  # type: ignore[arg-type]  # every heir is a dataclass
        if field.default is MISSING or getattr(part, field.name) != field.default
    }


def _written(value: Any) -> str:
    return "/".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Own(Part):
    """A part of our own protections, as `parse_protection` reads it."""

    spec: str

    name: ClassVar[str] = "trilemma"

    def __post_init__(self) -> None:
        parse_protection(self.spec)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return parse_protection(self.spec).transforms

    def transport(self, scenario: Scenario) -> Transport | None:
        made = parse_protection(self.spec)
        return None if made.transforms or self.spec == "none" else made.transport

    def noisier(self, factor: float) -> Part | None:
        made = self._transform
        if not isinstance(made, Randomization):
            return None
        return self._as(replace(made, variance=_up(made.variance * factor**2)))

    def stronger(self) -> Iterator[Part]:
        made = self._transform
        for power in range(1, _QUARTERS + 1):
            if isinstance(made, Randomization):
                yield self._as(replace(made, variance=made.variance * 16.0**power))
            elif isinstance(made, TopK):
                yield self._as(TopK(made.keep / 4**power))
            elif isinstance(made, Percentile):
                yield self._as(replace(made, percentile=_above(made.percentile, power)))
            elif isinstance(made, SparseVector):
                yield self._as(replace(made, noise_var=made.noise_var / 4**power))
        if isinstance(made, Quantisation):
            fewer = (bits for bits in (4, 2, 1) if bits < made.bits)
            yield from (self._as(replace(made, bits=bits)) for bits in fewer)

    def describe(self) -> str:
        return self.spec

    def paste(self) -> str:
        return self.spec

    @property
    def _transform(self) -> Transform | None:
        made = parse_protection(self.spec).transforms
        return made[0] if made else None

    def _as(self, transform: Transform) -> Own:
        return Own(transform.describe())


def _up(value: float) -> float:
    """The next number of four digits: noise is rounded up."""
    return float(_FOUR.create_decimal(value))


def _above(percentile: float, power: int) -> float:
    """A quarter of what is kept, again and again."""
    kept = 100 - max(0.0, min(100.0, percentile))
    return 100 - kept * 0.25**power


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

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        if self.sensitivity >= 2 * self.clipping_norm:
            return ()
        said = (
            f"sensitivity = {self.sensitivity:g} is not that of updates clipped to norm "
            f"{self.clipping_norm:g}, which is {self.clipping_norm:g} where a client is left out "
            f"and twice that where it is replaced: epsilon = {self.epsilon:g} is not what holds."
        )
        return (said,)

    def noisier(self, factor: float) -> Part:
        return replace(self, sensitivity=_up(self.sensitivity * factor))


@dataclass(frozen=True)
class FixedClipping(Part):
    """Flower's `fixedclipping_mod`: the client clips, and nothing is added."""

    clipping_norm: float

    name: ClassVar[str] = "flower.fixedclipping_mod"

    def __post_init__(self) -> None:
        positive("clipping_norm", self.clipping_norm)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (Clipping(self.clipping_norm),)

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        return ("Clipping bounds how long an update is; it adds nothing that could hide one.",)


_SERVERS: Final = (
    "The server adds this noise to a mean that it has read: against the server it buys nothing."
)


@dataclass(frozen=True)
class _CentralFixed(Part):
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

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        told = _SERVERS if self.noise_multiplier else "The server adds no noise."
        return told, *_other_cohort(self.num_sampled_clients, scenario)


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
class _CentralAdaptive(Part):
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

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        norms = self.schedule(scenario).norms
        first, last = norms[0], norms[-1]
        run: tuple[str, ...] = ()
        if not 0.01 < last / first < 100:
            said = (
                f"The norm runs away, from {first:g} to {last:.3g}: it is lowered when more "
                "updates are clipped than the target says, and raised when fewer are."
            )
            run = (said,)
        told = _SERVERS if self.noise_multiplier else "The server adds no noise."
        return told, *run, *_other_cohort(self.num_sampled_clients, scenario)


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


def _other_cohort(told: int | None, scenario: Scenario) -> tuple[str, ...]:
    if told is None or told == scenario.per_round:
        return ()
    said = (
        f"num_sampled_clients is {told}, and {scenario.name} has {scenario.per_round} clients a "
        f"round: the noise is that for {scenario.per_round}, the same beside one client."
    )
    return (said,)


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

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        said = (
            "Secure aggregation hides which client sent what; the server still reads the sum, "
            "and that is attacked."
        )
        return (said,)


@dataclass(frozen=True)
class PercentilePrivacy(Part):
    """NVFlare's filter of the largest differences."""

    percentile: float = 10
    gamma: float = 0.01

    name: ClassVar[str] = "nvflare.PercentilePrivacy"

    def __post_init__(self) -> None:
        for name in ("percentile", "gamma"):
            finite(name, getattr(self, name))

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (Percentile(self.percentile, self.gamma, _steps(scenario)),)

    def stronger(self) -> Iterator[Part]:
        usual = replace(self, gamma=self.gamma if self.gamma > 0 else 0.01)
        for power in range(1, _QUARTERS + 1):
            yield replace(usual, percentile=_above(self.percentile, power))

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        if self.gamma <= 0 or not 0 <= self.percentile <= 100:
            said = (
                f"With gamma = {self.gamma:g} and percentile = {self.percentile:g} NVFlare "
                "filters nothing, and says so in its debug log alone."
            )
            return (said,)
        said = (
            "It sends the largest differences clipped one by one, without noise. A job that "
            "sends weights, NVFlare's default, has its weights clipped instead."
        )
        return (said,)

    def paste(self) -> str:
        return _as_filter(self)


@dataclass(frozen=True)
class SVTPrivacy(Part):
    """NVFlare's sparse vector technique."""

    fraction: float = 0.1
    epsilon: float = 0.1
    noise_var: float = 0.1
    gamma: float = 1e-5
    tau: float = 1e-6
    replace: bool = True
    epsilon_threshold: float | None = None
    epsilon_query: float | None = None
    epsilon_release: float | None = None

    name: ClassVar[str] = "nvflare.SVTPrivacy"

    def __post_init__(self) -> None:
        self._transform(1)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        return (self._transform(_steps(scenario)),)

    def _transform(self, steps: int) -> SparseVector:
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return SparseVector(**own, steps=steps)

    def stronger(self) -> Iterator[Part]:
        for power in range(1, _QUARTERS + 1):
            if self.epsilon_release is None:
                yield replace(self, noise_var=self.noise_var / 4**power)
            else:
                yield replace(self, epsilon_release=self.epsilon_release / 4**power)

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        size = scenario.task.layout.size
        made = self._transform(1)
        choice, values = self.epsilon, made.budgets(size)[2]
        said = (
            f"epsilon = {choice:g} covers the choice of coordinates; by NVFlare's own ledger the "
            f"values of {made.draws(size):,} of {size:,} cost {values:g} besides, in every round."
        )
        return (said,)

    def paste(self) -> str:
        return _as_filter(self)


@dataclass(frozen=True)
class ExcludeVars(Part):
    """NVFlare's exclusion of tensors by name, or by a regular expression."""

    exclude_vars: str | tuple[str, ...] = ()

    name: ClassVar[str] = "nvflare.ExcludeVars"

    def __post_init__(self) -> None:
        if isinstance(self.exclude_vars, str):
            try:
                re.compile(self.exclude_vars)
            except re.error as error:
                raise InvalidInput(
                    f"exclude_vars {self.exclude_vars!r} is no regular expression ({error})."
                ) from None

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        layout, spans, start = scenario.task.layout, [], 0
        for name, size in zip(layout.names, layout.sizes, strict=True):
            if self._excludes(name):
                spans.append((start, start + size))
            start += size
        if sum(stop - first for first, stop in spans) == layout.size:
            raise InvalidInput(
                f"exclude_vars {self.exclude_vars!r} leaves nothing to send of "
                f"{', '.join(layout.names)}; exclude fewer."
            )
        return (Omission(tuple(spans)),) if spans else ()

    def _excludes(self, name: str) -> bool:
        if isinstance(self.exclude_vars, str):
            return bool(self.exclude_vars) and bool(re.search(self.exclude_vars, name))
        return name in self.exclude_vars

    def remarks(self, scenario: Scenario) -> tuple[str, ...]:
        names = scenario.task.layout.names
        if not any(map(self._excludes, names)):
            return (f"No tensor is excluded: the model's are {', '.join(names)}.",)
        return ("What is excluded is not trained by the federation either.",)

    def paste(self) -> str:
        return _as_filter(self)


def _as_filter(part: Part) -> str:
    """As in a site's privacy.json or a job's client configuration."""
    args = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in _given(part).items()
    }
    return json.dumps({"name": part.name.partition(".")[2], "args": args})


def _steps(scenario: Scenario) -> int:
    return scenario.local_training.steps


@dataclass(frozen=True)
class Opacus(Part):
    """Opacus' DP-SGD at each client: records clipped, drawn by Poisson, noise on their sum."""

    noise_multiplier: float
    max_grad_norm: float

    name: ClassVar[str] = "opacus.PrivacyEngine"

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        positive("max_grad_norm", self.max_grad_norm)

    def transforms(self, scenario: Scenario) -> tuple[Transform, ...]:
        training = scenario.local_training
        if training.algorithm != "fedsgd":
            raise InvalidInput(
                "Opacus adds its noise in each local step, and an audit plays rounds of one step "
                f"(fedsgd), but {scenario.name} takes {training.steps}; give such a scenario."
            )
        deviation = self.noise_multiplier * self.max_grad_norm / training.batch
        return (Randomization(deviation**2),)

    def training(self, training: LocalTraining) -> LocalTraining:
        return replace(training, record_clip=self.max_grad_norm, sampling="poisson", records=None)

    def noisier(self, factor: float) -> Self:
        return replace(self, noise_multiplier=_up(self.noise_multiplier * factor))


FRAMEWORKS: Final[dict[str, type[Part]]] = {
    part.name: part
    for part in (
        LocalDpMod,
        FixedClipping,
        AdaptiveClipping,
        ClientSideFixed,
        ServerSideFixed,
        ClientSideAdaptive,
        ServerSideAdaptive,
        SecAggPlus,
        PercentilePrivacy,
        SVTPrivacy,
        ExcludeVars,
        Opacus,
    )
}
"""Name, framework.Name -> the part."""
