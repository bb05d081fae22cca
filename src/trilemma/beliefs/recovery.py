"""Ω, the test whether a record was recovered: similarity, matching of a batch, threshold.

A gradient does not order its batch, so a batch is recovered as a set: reconstructions are paired
with records so that as many as can be are recovered (departure E17; the paper pairs them by
position).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import column_hits

if TYPE_CHECKING:
    from trilemma.records.range import InputSpec

__all__ = ["Criterion", "Match", "best_pairing", "psnr_matrix", "ssim_matrix"]

_MAX_PSNR: Final = 300.0  # an exact copy; finite, because an assignment cannot weigh infinity
_SSIM_WINDOW: Final = 11
_MOST_RIGHT: Final = 0.8  # of a table's columns
_ALL_BUT_ONE: Final = 0.9  # of a text's tokens


@dataclass(frozen=True, eq=False)
class Match:
    """For each record [N, S]: was it recovered, how well, and by which reconstruction."""

    recovered: torch.Tensor
    similarity: torch.Tensor
    partner: torch.Tensor


@dataclass(frozen=True)
class Criterion:
    """Recovered means: similarity above `threshold` (t₀; dB for PSNR, else a share in (0, 1)).

    PSNR and SSIM are for images and other plain numbers; the share of `columns` that are right is
    for tables, that of a record's `tokens` that were found for texts.
    """

    metric: Literal["psnr", "ssim", "columns", "tokens"] = "psnr"
    threshold: float = 20.0

    def __post_init__(self) -> None:
        if self.metric not in ("psnr", "ssim", "columns", "tokens"):
            raise InvalidInput(
                f"metric must be 'psnr', 'ssim', 'columns' or 'tokens', got {self.metric!r}."
            )
        if not math.isfinite(self.threshold):
            raise InvalidInput(f"threshold must be finite, got {self.threshold}.")
        if self.metric != "psnr" and not 0 < self.threshold < 1:
            raise InvalidInput(
                f"the threshold of {self.metric} must lie between 0 and 1, got {self.threshold}."
            )

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """The criterion that "psnr:25" or "ssim:0.6" names.

        >>> Criterion.parse("psnr:25")
        Criterion(metric='psnr', threshold=25.0)
        """
        metric, _, threshold = text.partition(":")
        try:
            return cls(metric, float(threshold))  # type: ignore[arg-type]
        except ValueError as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"a success criterion is written psnr:DECIBEL, ssim:SHARE, columns:SHARE or "
                f"tokens:SHARE, got {text!r}."
            ) from error

    @classmethod
    def of(cls, spec: InputSpec) -> Criterion | None:
        """The usual criterion of a table or text; None for images, whose data decide it."""
        if spec.columns:
            return cls("columns", _MOST_RIGHT)
        return cls("tokens", _ALL_BUT_ONE) if spec.vocabulary is not None else None

    def check(self, spec: InputSpec) -> None:
        """Refuse a criterion of another kind of records."""
        usual = Criterion.of(spec)
        wanted = ("psnr", "ssim") if usual is None else (usual.metric,)
        if self.metric not in wanted:
            raise InvalidInput(
                f"{self.metric} does not fit these records; use {' or '.join(wanted)}."
            )
        self.check_shape(spec.shape)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse SSIM for inputs of a shape that its window does not fit."""
        if self.metric == "ssim" and (len(shape) != 3 or min(shape[1:]) < _SSIM_WINDOW):
            raise InvalidInput(
                f"SSIM looks through a window of {_SSIM_WINDOW}x{_SSIM_WINDOW} pixels, but an "
                f"input has shape {shape}; use psnr."
            )

    def similarity(
        self, reconstructions: torch.Tensor, originals: torch.Tensor, spec: InputSpec
    ) -> torch.Tensor:
        """Similarity [N, S, S] of reconstruction i to record j, both [N, S, *shape]."""
        if self.metric == "columns":
            hits = column_hits(spec.columns, reconstructions[:, :, None], originals[:, None])
            return hits.double().mean(-1)
        if self.metric == "tokens":
            return _tokens_found(reconstructions, originals)
        measure = psnr_matrix if self.metric == "psnr" else ssim_matrix
        return measure(reconstructions, originals, spec)

    def match(
        self,
        reconstructions: torch.Tensor,
        originals: torch.Tensor,
        spec: InputSpec,
        *,
        by_position: bool = False,
    ) -> Match:
        """Pair reconstructions with records, both [N, S, *shape], and judge each record.

        A reconstruction with NaN counts as not recovered here; the count of units decides what
        a diverged attack means.
        """
        matrix = self.similarity(reconstructions, originals, spec)
        if by_position:
            size = matrix.shape[1]
            partner = torch.arange(size, device=matrix.device).expand(matrix.shape[0], size)
        else:
            partner = best_pairing(matrix, self.threshold)
        paired = torch.gather(matrix, 1, partner[:, None, :]).squeeze(1)
        return Match(paired > self.threshold, paired, partner)


def _tokens_found(reconstructions: torch.Tensor, originals: torch.Tensor) -> torch.Tensor:
    """The share [N, S, S] of record j's tokens that are found anywhere in its batch.

    Which sentence a token belongs to is not asked, so that all i are alike.
    """
    batch = originals.shape[1]
    found, records = reconstructions.flatten(1), originals.flatten(2)
    held = (records[..., None] == found[:, None, None]).any(-1)
    return held.double().mean(-1)[:, None].expand(-1, batch, -1)


def psnr_matrix(
    reconstructions: torch.Tensor, originals: torch.Tensor, spec: InputSpec
) -> torch.Tensor:
    """PSNR [N, S, S] in dB of reconstruction i against record j, after clamping to the range.

    PSNR = 10 log₁₀((high - low)² / mean squared error), at most 300 dB; NaN where a reconstruction
    has NaN.

    >>> from trilemma.records.range import InputSpec
    >>> one = torch.zeros(1, 1, 4)
    >>> round(psnr_matrix(one + 0.1, one, InputSpec((4,), 0.0, 1.0)).item(), 3)
    20.0
    """
    if reconstructions.shape != originals.shape:
        raise InvalidInput(
            f"reconstructions {tuple(reconstructions.shape)} and originals "
            f"{tuple(originals.shape)} must have the same shape [N, S, ...]."
        )
    guesses = reconstructions.double().clamp(spec.low, spec.high).flatten(2)
    records = originals.double().flatten(2)
    floor = 10 ** (-_MAX_PSNR / 10)
    # One record at a time: the full table of differences is S times larger than the inputs.
    errors = torch.stack(
        [(guesses - records[:, j : j + 1]).square().mean(-1) for j in range(records.shape[1])],
        dim=2,
    )
    relative = errors / (spec.high - spec.low) ** 2
    return -10 * torch.log10(relative.clamp_min(floor))


def ssim_matrix(
    reconstructions: torch.Tensor, originals: torch.Tensor, spec: InputSpec
) -> torch.Tensor:
    """SSIM [N, S, S] of reconstruction i against record j, images [N, S, channels, h, w]."""
    shape = originals.shape[2:]
    Criterion("ssim", 0.5).check_shape(tuple(shape))
    # Here, because it takes seconds to import and PSNR does without.
    from torchmetrics.functional.image import structural_similarity_index_measure

    count, size = originals.shape[:2]
    guesses = reconstructions.to(torch.float64).clamp(spec.low, spec.high)
    pairs = (count, size, size, *shape)
    values = structural_similarity_index_measure(
        guesses[:, :, None].expand(pairs).reshape(-1, *shape),
        originals.to(torch.float64)[:, None].expand(pairs).reshape(-1, *shape),
        kernel_size=_SSIM_WINDOW,
        data_range=spec.high - spec.low,
        reduction="none",
    )
    assert isinstance(values, torch.Tensor)
    return values.reshape(count, size, size)


def best_pairing(similarity: torch.Tensor, threshold: float) -> torch.Tensor:
    """The reconstruction [N, S] given to each record: as many above `threshold` as can be.

    Among such assignments that of largest total similarity.

    >>> best_pairing(torch.tensor([[[21.0, 60.0], [15.0, 21.0]]]), 20.0)
    tensor([[0, 1]])
    """
    from scipy.optimize import linear_sum_assignment  # heavy: workers must start without it

    table = torch.nan_to_num(similarity.double(), nan=-_MAX_PSNR).cpu().numpy()
    # More than any two assignments can differ by in their totals.
    bonus = np.ptp(table, axis=(1, 2), keepdims=True) * table.shape[1] + 1
    table = table + bonus * (table > threshold)
    # Records as rows, so that the answer comes in the order of the records.
    chosen = [linear_sum_assignment(unit.T, maximize=True)[1] for unit in table]
    pairing = np.array(chosen, dtype=np.int64).reshape(similarity.shape[:2])
    return torch.from_numpy(pairing).to(similarity.device)
