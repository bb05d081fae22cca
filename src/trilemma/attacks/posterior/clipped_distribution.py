"""How much clipping shortens updates of which an attacker knows the distribution only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from trilemma.entropy import Seeded

if TYPE_CHECKING:
    from trilemma.attacks.posterior.inner_products import Table

__all__ = ["ClipFactors", "clip_factors", "simulated_factors"]

_DRAWS: Final = 64  # batches of the population that stand for a client's


@dataclass(frozen=True, eq=False)
class ClipFactors:
    """Mean factors min(1, clip / ‖u‖) of B units.

    own [B, N]: the sought record's client with each candidate; others [B]: any other client;
    jitter [B]: variance of the own client's factor, None where nothing is clipped.
    """

    own: torch.Tensor
    others: torch.Tensor
    jitter: torch.Tensor | None


def clip_factors(
    table: Table, clip: float | None, *, size: int, whole: torch.Tensor, seed: int
) -> ClipFactors:
    """The factors of batches of `size` records drawn from the table's rows.

    The table's anchor 1 is the rows' mean. A squared norm is `whole` [B] times what the table
    tells of it, all parameters per known one.
    """
    own = torch.ones_like(table.candidate)
    if clip is None:
        return ClipFactors(own, own[:, 0], None)
    population = table.rows.shape[1]
    generator = Seeded(seed).torch_generator("batches of the population")
    drawn = torch.randint(0, population, (_DRAWS, size), generator=generator)
    used = torch.zeros(_DRAWS, population, dtype=table.rows.dtype)
    used.scatter_add_(1, drawn[:, 1:], torch.ones(_DRAWS, size - 1, dtype=table.rows.dtype))
    rest = used.to(table.rows)
    one = torch.zeros_like(rest)
    one.scatter_(1, drawn[:, :1].to(one.device), 1.0)
    mean = table.anchor[:, 1, 1][:, None]
    whole = whole[:, None]

    def squares(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """‖Σ rows‖² and its product with the mean, [B, T]."""
        return ((rows @ table.rows) * rows).sum(2), (table.row_anchor[..., 1] @ rows.T)

    def factor(norms: torch.Tensor) -> torch.Tensor:
        tiny = torch.finfo(norms.dtype).tiny
        return (clip / norms.clamp(min=tiny).sqrt()).clamp(max=1.0)

    sums, along = squares(rest + one)
    others = factor(whole * (mean + 2 * along / size + sums / size**2))
    sums, along = squares(rest)
    beside = rest @ table.row_candidate  # [B, T, N]
    candidates = table.candidate[:, None] + sums[..., None] + 2 * beside
    sideways = table.anchor_candidate[:, 1][:, None] + along[..., None]
    norms = mean[..., None] + 2 * sideways / size + candidates / size**2
    own = factor(whole[..., None] * norms)
    return ClipFactors(own.mean(1), others.mean(1), own.var(1, correction=0).mean(1))


def simulated_factors(norms: torch.Tensor, clip: float | None, candidates: int) -> ClipFactors:
    """The factors of one unit by the norms [M] of batches' updates, whichever the candidate."""
    one = torch.ones_like(norms[:1])
    if clip is None:
        return ClipFactors(one[:, None].expand(1, candidates), one, None)
    factors = (clip / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
    mean = factors.mean(0, keepdim=True)
    return ClipFactors(mean[:, None].expand(1, candidates), mean, factors.var(0, keepdim=True))
