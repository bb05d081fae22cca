from __future__ import annotations

import torch
from torch.func import grad

from trilemma.attacks.matching.record_vectors import out_of_range


def test_the_slope_out_of_range_is_that_of_small_differences() -> None:
    unit = torch.tensor([-0.7, -0.1, 0.2, 0.9, 1.3, 4.0], dtype=torch.float64)
    step = 1e-6 * torch.eye(6, dtype=torch.float64)
    rises = [(out_of_range(unit + item) - out_of_range(unit - item)) / 2e-6 for item in step]
    torch.testing.assert_close(grad(out_of_range)(unit), torch.stack(rises))
