"""The largest coordinates against numpy's."""

from __future__ import annotations

import numpy as np
import torch
from tests.protection.transforms.applying import apply, some_values

from trilemma.protection.transforms.top_k import TopK


def test_top_k_takes_the_largest() -> None:
    values = some_values(1000)
    made = apply(TopK(0.05), values)
    assert made.known is not None
    largest = set(np.argsort(-np.abs(values.numpy()))[:50].tolist())
    assert set(made.known.nonzero().squeeze(1).tolist()) == largest
    assert torch.equal(made.values[made.known], values[made.known])
