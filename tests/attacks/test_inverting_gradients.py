"""Inverting gradients: its prior of smooth images, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from tests.attacks.conftest import make_problems

from trilemma.attacks.inverting_gradients import InvertingGradients, total_variation
from trilemma.learning import LocalTraining


@pytest.mark.parametrize("channels", [1, 3])
def test_total_variation_takes_any_number_of_channels(channels: int) -> None:
    ramp = torch.arange(4.0).expand(2, channels, 5, 4)
    assert total_variation(ramp) == pytest.approx(1.0)


@dataclass(frozen=True)
class Hurried(InvertingGradients):
    noisy_iterations: ClassVar[int] = 1
    sum_iterations: ClassVar[int] = 1


@pytest.mark.parametrize(("clients", "variance", "hard"), [(1, 0.0, 0), (1, 1e-2, 1), (3, 0.0, 1)])
def test_noise_and_sums_end_the_search_early(clients: int, variance: float, hard: int) -> None:
    views = make_problems(
        1, training=LocalTraining(batch=2), clients=clients, variance=variance
    ).views

    def found(iterations: int) -> torch.Tensor:
        return Hurried(iterations=iterations)(views, restarts=1, seed=0).inputs

    assert torch.equal(found(1), found(6)) is bool(hard)
