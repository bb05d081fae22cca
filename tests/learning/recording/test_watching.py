import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from trilemma.learning.recording.watching import Flops


def test_flops_are_those_that_torch_counts() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(), nn.Linear(108, 5))
    inputs = torch.zeros(2, 1, 8, 8)
    with FlopCounterMode(display=False) as theirs:
        model(inputs)
    with Flops() as ours:  # type: ignore[no-untyped-call]
        model(inputs)
    assert ours.total == theirs.get_total_flops() > 0
