"""What all transforms have in common."""

from __future__ import annotations

import pytest
import torch
from tests.protection.transforms.applying import apply, some_values

from trilemma.protection.transforms.base import Transform
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.top_k import TopK


@pytest.mark.parametrize(
    "transform", [Randomization(0.04, clip=3.0), Compression(0.5), TopK(0.2), BoundedMask(0.5)]
)
def test_half_precision_takes_the_general_path(transform: Transform) -> None:
    """The one that updates on an accelerator take; the same draws, rounded."""
    values = some_values(500, dtype=torch.float32).half()
    half, single = apply(transform, values), apply(transform, values.float())
    assert half.values.dtype == torch.float16
    torch.testing.assert_close(half.values.float(), single.values, atol=5e-3, rtol=5e-3)
    if half.known is not None:
        assert single.known is not None
        assert torch.equal(half.known, single.known)
