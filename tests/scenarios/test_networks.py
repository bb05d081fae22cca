"""Networks for images of any shape."""

from __future__ import annotations

import pytest
import torch

from trilemma.scenarios.networks import lenet


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 7, 5)])
def test_lenet_takes_any_image(shape: tuple[int, int, int]) -> None:
    assert lenet(shape, 4)(torch.rand(2, *shape)).shape == (2, 4)
