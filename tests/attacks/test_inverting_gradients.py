"""Inverting gradients: its prior of smooth images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from trilemma.attacks.inverting_gradients import total_variation

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize("channels", [1, 3])
def test_total_variation_takes_any_number_of_channels(channels: int) -> None:
    ramp = torch.arange(4.0).expand(2, channels, 5, 4)
    assert total_variation(ramp) == pytest.approx(1.0)
