"""Settings as what they do to an update and who does it; those of our own protections.

A part says what a client sends (`transforms`, `transport`), what the server does besides
(`at_server`), which the server itself is never hidden from, and how the same kind protects more.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, replace
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING, Any, ClassVar, Final

from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.quantisation import Quantisation
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.base import Transport

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.learning import LocalTraining

__all__ = ["QUARTERS", "Own", "Part", "fewer_kept", "given", "rounded_up"]

QUARTERS: Final = 4  # of a parameter that is searched: down to 1 / 256
_FOUR: Final = Context(prec=4, rounding=ROUND_CEILING)


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

    def remarks(self, scenario: Scenario) -> Iterator[str]:
        """What somebody who runs it should know."""
        yield from ()

    def noisier(self, factor: float) -> Part | None:
        """The same with so many times the deviation of its noise; None where it adds none."""
        return None

    def stronger(self) -> Iterator[Part]:
        """The same kind, more and more protective; nothing where no parameter helps."""
        yield from ()

    def describe(self) -> str:
        """As it is read."""
        values = given(self)
        written = ",".join(f"{name}={_written(value)}" for name, value in values.items())
        return f"{self.name}:{written}" if written else self.name

    def paste(self) -> str:
        """The line for the framework's own files."""
        written = ", ".join(f"{name}={value!r}" for name, value in given(self).items())
        return f"{self.name.partition('.')[2]}({written})"


def given(part: Part) -> dict[str, Any]:
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
        return self._as(replace(made, variance=rounded_up(made.variance * factor**2)))

    def stronger(self) -> Iterator[Part]:
        made = self._transform
        for power in range(1, QUARTERS + 1):
            if isinstance(made, Randomization):
                yield self._as(replace(made, variance=made.variance * 16.0**power))
            elif isinstance(made, TopK):
                yield self._as(TopK(made.keep / 4**power))
            elif isinstance(made, Percentile):
                yield self._as(replace(made, percentile=fewer_kept(made.percentile, power)))
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


def rounded_up(value: float) -> float:
    """The next number of four digits: noise is rounded up."""
    return float(_FOUR.create_decimal(value))


def fewer_kept(percentile: float, power: int) -> float:
    """A quarter of what is kept, again and again."""
    kept = 100 - max(0.0, min(100.0, percentile))
    return 100 - kept * 0.25**power
