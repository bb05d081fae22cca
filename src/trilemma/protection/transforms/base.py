"""What a transform is: a frozen value that changes an update before it is sent.

`SparseUpdate` is an update on its way out, `MechanismInfo` what everyone knows of how it was made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.protection.spec_texts import described

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from trilemma.entropy import Seeded, System
    from trilemma.observations import Noise
    from trilemma.protection.round_info import RoundInfo

__all__ = ["MechanismInfo", "SparseUpdate", "Transform"]


@dataclass(frozen=True)
class SparseUpdate:
    """An update on its way out: values [m], and which coordinates are sent (None: all).

    Coordinates that are not sent hold zero.
    """

    values: torch.Tensor
    known: torch.Tensor | None = None


@dataclass(frozen=True)
class MechanismInfo:
    """What everyone knows of how a client made its values: gain · (clip(u) + noise) where known.

    An adversary divides by `gain` (1/ρ for unbiased compression). `known` is None where all
    coordinates are sent, or where each message says which. `clip` bounds the norm of u, `limit`
    the magnitude of each coordinate.
    """

    known: torch.Tensor | None = None
    gain: float | torch.Tensor = 1.0
    noise: Noise | None = None
    clip: float | None = None
    limit: float | None = None

    @cached_property
    def positions(self) -> NDArray[np.int64] | None:
        """The places of the known coordinates, rising."""
        return None if self.known is None else np.flatnonzero(self.known.numpy())

    def with_noise(
        self, kind: Literal["gaussian", "uniform", "laplace"], scale: float
    ) -> MechanismInfo:
        """With noise of this scale on the sent values, here in units of the update."""
        from trilemma.observations import Noise  # imports torch

        if not isinstance(self.gain, float):
            raise InvalidInput(
                "noise after a compression with several keep probabilities has another scale on "
                "each coordinate; put the noise before the compression."
            )
        return replace(self, noise=Noise(kind, scale / self.gain))


class Transform(ABC):
    """Changes an update before it is sent; frozen, and one instance is one parameter value.

    `entropy` belongs to the whole round; a transform takes from it the stream of its own name and
    client, so that two clients never share noise by accident. `round.mask_seed` is the client's
    own where the protection lets clients send different coordinates.
    """

    name: ClassVar[str]
    thins: ClassVar[bool] = False  # sends some coordinates only
    selects_by_value: ClassVar[bool] = False  # which coordinates are sent depends on the update
    cancels: ClassVar[bool] = False  # adds up to zero over all clients
    caveat: ClassVar[str] = ""  # a sentence that belongs beside every result
    clip: float | None = None

    @abstractmethod
    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        """What leaves the client; the given update is not changed."""

    @abstractmethod
    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        """What everyone knows after this transform, given what was known before it."""

    @property
    def scale(self) -> float:
        """The standard deviation of the noise that it adds; 0 for none."""
        return 0.0

    @property
    def one_gain(self) -> bool:
        """Whether all sent coordinates are scaled alike."""
        return True

    def describe(self) -> str:
        """The transform as text that `parse_protection` reads."""
        return described(self)

    def words(self, number: Callable[[float], str]) -> str:
        """What it does, as the object of "use …", with numbers as `number` writes them."""
        return self.describe()
