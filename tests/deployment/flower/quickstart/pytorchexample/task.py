"""The net, its data, and how it is trained and tested."""

# mypy: ignore-errors

from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate, max_pool2d, relu
from torch.utils.data import DataLoader, TensorDataset

HELD_OUT = 297  # digits that no client has


class Net(nn.Module):
    """Two convolutions and three dense layers, for colour images of 32 x 32."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = max_pool2d(relu(self.conv1(x)), 2)
        x = max_pool2d(relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(relu(self.fc2(relu(self.fc1(x)))))


@cache
def digits():
    """All images, blown up to 3 x 32 x 32, and labels."""
    from sklearn.datasets import load_digits  # not before it is needed

    data = load_digits()
    images = torch.tensor(data.images / 8 - 1, dtype=torch.float32)[:, None]
    return interpolate(images, scale_factor=4).repeat(1, 3, 1, 1), torch.tensor(data.target)


def load_data(partition_id, num_partitions, batch_size):
    """One client's records: four fifths to train, the rest to test."""
    images, labels = (each[HELD_OUT:][partition_id::num_partitions] for each in digits())
    cut = len(labels) * 4 // 5
    order = torch.Generator().manual_seed(partition_id)  # so that runs can be compared
    trainset = TensorDataset(images[:cut], labels[:cut])
    trainloader = DataLoader(trainset, batch_size=batch_size, shuffle=True, generator=order)
    return trainloader, DataLoader(TensorDataset(images[cut:], labels[cut:]), batch_size)


def load_centralized_dataset():
    images, labels = digits()
    return DataLoader(TensorDataset(images[:HELD_OUT], labels[:HELD_OUT]), batch_size=128)


def train(net, trainloader, epochs, lr):
    """SGD with momentum; the mean loss of a batch."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for images, labels in trainloader:
            optimizer.zero_grad()
            loss = cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / len(trainloader) / epochs


@torch.no_grad()
def test(net, testloader):
    """Mean loss and accuracy."""
    net.eval()
    right, loss, count = 0, 0.0, 0
    for images, labels in testloader:
        outputs = net(images)
        loss += cross_entropy(outputs, labels, reduction="sum").item()
        right += (outputs.argmax(1) == labels).sum().item()
        count += len(labels)
    return loss / count, right / count
