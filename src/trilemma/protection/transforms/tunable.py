"""A transform with one free parameter: what `tune` ranks, ours and yours."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from trilemma.protection.transforms.base import Transform

if TYPE_CHECKING:
    from typing import Self

    from trilemma.protection.parameter import Parameter

__all__ = ["Start", "Tunable"]

_DECADES: Final = 2.0  # on either side of the warm start


@dataclass(frozen=True)
class Start:
    """What a warm start may rest on.

    `noise` is the variance on a client's coordinates at which about half of the records would
    still be recovered, `unknowns` the numbers that an attack has to find, `coordinates` those of
    an update. `senders` is the number of clients whose own places add up to what is read (1 for a
    single message, and where all send the same places).
    """

    noise: float
    unknowns: int
    coordinates: int
    senders: int = 1


class Tunable(Transform):
    """A transform that is fixed by the value of its `parameter`.

    A class of your own that is one, named as module:class, runs in `tune`.
    """

    parameter: ClassVar[Parameter]

    @classmethod
    def at(cls, value: float) -> Self:
        """The transform with this value of its parameter: by default its only argument."""
        return cls(value)  # type: ignore[call-arg]

    @classmethod
    @abstractmethod
    def warm(cls, start: Start) -> float:
        """The value to begin with, near which the attack is expected to start to fail."""

    @classmethod
    def span(cls, start: Start) -> tuple[float, float]:
        """The weakest and the strongest value to try: two decades either way by default."""
        middle, parameter = cls.warm(start), cls.parameter
        weakest, strongest = (parameter.moved(middle, value) for value in (-_DECADES, _DECADES))
        return parameter.within(weakest), parameter.within(strongest)

    @abstractmethod
    def reach(self, largest: float) -> float:
        """What a transport must be able to carry, for updates of coordinates up to `largest`."""
