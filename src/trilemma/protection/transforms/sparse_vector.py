"""The sparse vector technique: NVFlare's `SVTPrivacy`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.quantities import counted, finite, positive

if TYPE_CHECKING:
    from trilemma.entropy import Seeded
    from trilemma.protection.round_info import RoundInfo

__all__ = ["SparseVector"]


@dataclass(frozen=True)
class SparseVector(Transform):
    """n = ⌈fraction · m⌉ draws of coordinates that beat a noisy threshold, with Laplace noise.

    With v = clamp(u/E, ±γ), a threshold τ + Lap(γ/ε₁) and answers |v_i| + Lap(2γn/ε₂), passes over
    what was not accepted are repeated until n coordinates or more are. Of these n are drawn (with
    `replace` some twice) and E · (v_i + Lap(2γn/ε₃)) is sent, 0 elsewhere. ε₁ + ε₂ = `epsilon`,
    1 : (2n)^(2/3) unless they are given, and ε₃ = n · `noise_var` unless `epsilon_release` is.
    E is the number of local `steps`.

    To be measured only: its noise is drawn in floating point.
    """

    fraction: float = 0.1
    epsilon: float = 0.1
    noise_var: float = 0.1
    gamma: float = 1e-5
    tau: float = 1e-6
    replace: bool = True
    epsilon_threshold: float | None = None
    epsilon_query: float | None = None
    epsilon_release: float | None = None
    steps: int = 1

    name: ClassVar[str] = "sparse-vector"
    thins: ClassVar[bool] = True
    selects_by_value: ClassVar[bool] = True
    caveat: ClassVar[str] = (
        "The sparse vector technique's epsilon covers the choice of coordinates alone; their "
        "values cost n · noise_var besides, in every round."
    )

    def __post_init__(self) -> None:
        for name in ("fraction", "epsilon", "gamma", "noise_var"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        for name in ("epsilon_threshold", "epsilon_query", "epsilon_release"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "tau", finite("tau", self.tau))
        if self.fraction > 1:
            raise InvalidInput(f"fraction must lie in (0, 1], got {self.fraction:g}.")
        given = self.epsilon_threshold, self.epsilon_query
        if all(given) and not math.isclose(sum(filter(None, given)), self.epsilon, rel_tol=1e-5):
            raise InvalidInput(
                f"epsilon_threshold and epsilon_query must add up to epsilon = {self.epsilon:g}, "
                f"got {given[0]:g} and {given[1]:g}; leave one of them out."
            )
        for name, part in zip(("epsilon_threshold", "epsilon_query"), given, strict=True):
            if part is not None and not all(given) and part >= self.epsilon:
                raise InvalidInput(
                    f"{name} is a part of epsilon = {self.epsilon:g}, got {part:g}; lower it."
                )
        counted("steps (local steps of a round)", self.steps)

    def draws(self, size: int) -> int:
        """n, how many coordinates are drawn of so many."""
        return min(size, math.ceil(size * self.fraction))

    def budgets(self, size: int) -> tuple[float, float, float]:
        """ε₁ of the threshold, ε₂ of the answers and ε₃ of the values, in one round."""
        n = self.draws(size)
        first, second = self.epsilon_threshold, self.epsilon_query
        if first is None and second is None:
            first = self.epsilon / (1 + (2.0 * n) ** (2 / 3))
        if first is None:
            first = self.epsilon - (second or 0.0)
        second = self.epsilon - first if second is None else second
        return first, second, self.epsilon_release or n * self.noise_var

    def released(self, size: int) -> float:
        """2γn/ε₃, b of the Laplace noise on the values of one local step."""
        return 2 * self.gamma * self.draws(size) / self.budgets(size)[2]

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        import torch  # heavy: `trilemma solve` must start without it

        if isinstance(entropy, System):
            raise InvalidInput(
                "the sparse vector technique exists for measurement with Seeded entropy only; a "
                "federation should run noise on clipped updates."
            )
        values = update.values.detach().cpu().double().numpy() / self.steps
        draw, n = entropy.generator(self.name, client), self.draws(values.size)
        first, second, _ = self.budgets(values.size)
        clipped = np.clip(values, -self.gamma, self.gamma)
        threshold = self.tau + draw.laplace(scale=self.gamma / first)
        accepted = np.zeros(values.size, dtype=bool)
        while accepted.sum() < n:
            left = np.flatnonzero(~accepted)
            noise = draw.laplace(scale=2 * self.gamma * n / second, size=left.size)
            accepted[left[np.abs(clipped[left]) + noise >= threshold]] = True
        chosen = draw.choice(np.flatnonzero(accepted), size=n, replace=self.replace)
        sent = np.zeros_like(values)
        noise = draw.laplace(scale=self.released(values.size), size=n)
        sent[chosen] = (clipped[chosen] + noise) * self.steps
        known = torch.zeros(values.size, dtype=torch.bool)
        known[torch.from_numpy(chosen)] = True
        known = known.to(update.values.device)
        if update.known is not None:
            known &= update.known
        made = torch.from_numpy(sent).to(update.values)
        return SparseUpdate(made.masked_fill(~known, 0.0), known)

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        noisy = mechanism.with_noise("laplace", self.released(size) * self.steps)
        return replace(noisy, limit=self.gamma * self.steps)

    @property
    def scale(self) -> float:
        return math.sqrt(2) * 2 * self.gamma * self.steps / self.noise_var

    def words(self, number: Callable[[float], str]) -> str:
        return (
            f"a noisy {number(100 * self.fraction)} % of the coordinates above a noisy threshold"
        )
