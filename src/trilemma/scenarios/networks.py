"""The small reference networks: a sigmoid MLP and the LeNet of the DLG attack."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["lenet", "mlp", "uniform_weights"]


def mlp(
    inputs: int, hidden: int, outputs: int, activation: type[nn.Module] = nn.Sigmoid
) -> nn.Module:
    """inputs-hidden-outputs with a sigmoid, or another activation, on flattened records."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, hidden), activation(), nn.Linear(hidden, outputs)
    )


def lenet(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Three 5x5 convolutions of 12 channels (strides 2, 2, 1), sigmoid, one linear layer."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for stride in (2, 2, 1):
        layers += [nn.Conv2d(channels, 12, 5, stride=stride, padding=2), nn.Sigmoid()]
        channels, height, width = 12, -(-height // stride), -(-width // stride)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, classes))


def uniform_weights(model: nn.Module) -> None:
    """Redraw every parameter from U(-0.5, 0.5), as the DLG attack's reference nets do."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.5, 0.5)
