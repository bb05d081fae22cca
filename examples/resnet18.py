"""ResNet-18 as it is used on pictures of 32 x 32, GroupNorm in the place of BatchNorm.

With a GPU, from this folder (a batch of 8 unless --batch says otherwise):

    trilemma tune --scenario resnet18:pictures --batch 1 --quick --families randomization \
        --device cuda --workers 3 --out runs/resnet18

The pictures are Fashion-MNIST's, in three channels and with a border, as Debian's package
dataset-fashion-mnist or `folder` has them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad, relu
from torch.utils.data import TensorDataset

from trilemma import Scenario
from trilemma.learning import LocalTraining
from trilemma.scenarios import load_scenario

GROUPS = 8  # of channels that GroupNorm normalises together


class Block(nn.Module):
    """Two 3 x 3 convolutions around which the input is carried past."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)
        self.past: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            narrow = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.past = nn.Sequential(narrow, nn.GroupNorm(GROUPS, outputs))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        made = relu(self.first_norm(self.first(images)))
        made = self.second_norm(self.second(made))
        return relu(made + self.past(images))


def resnet18(width: int = 64, classes: int = 10) -> nn.Module:
    """Four stages of two blocks, of `width` to eight times as many channels; no first pooling."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, width),
        nn.ReLU(),
    ]
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        layers += [Block(inputs, outputs, 1 + (stage > 0)), Block(outputs, outputs, 1)]
        inputs = outputs
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    return nn.Sequential(*layers, *head)


def pictures(folder: str | None = None, clients: int = 5, width: int = 64) -> Scenario:
    """6,000 pictures over some clients, and 1,000 others to judge by; 60 rounds."""
    own: dict[str, Any] = {} if folder is None else {"folder": folder}
    given = load_scenario("fashion-mnist", clients=1, **own)

    def coloured(inputs: torch.Tensor) -> torch.Tensor:
        return pad(inputs, (2, 2, 2, 2)).repeat(1, 3, 1, 1)

    train, test = given.records[0][torch.arange(6000)], given.test_records[torch.arange(1000)]
    return Scenario(
        model=resnet18(width),
        loss=cross_entropy,
        clients=[
            TensorDataset(coloured(train.inputs[k::clients]), train.labels[k::clients])
            for k in range(clients)
        ],
        test=TensorDataset(coloured(test.inputs), test.labels),
        local_training=LocalTraining("fedsgd", lr=0.05, batch=8),
        name="resnet18",
        rounds=60,
    )
