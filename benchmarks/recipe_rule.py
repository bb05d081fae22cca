"""The numbers of the rule by which a training's step is chosen, and how far they are from best.

    python -m benchmarks.recipe_rule [--seeds 2]

Full batches under a proof's noise on data sets and networks of several kinds. Where noise limits
the step, the share of the noise that is borne is varied; where its length does, the length.
Printed are the points of accuracy lost against the best value, and what a choice on all other
data sets loses on each. What the rule reaches stands in

docs/benchmarks/prices.md
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

import torch
from sklearn.datasets import load_wine, make_classification  # type: ignore[import-untyped]
from torch import nn
from torch.nn.functional import avg_pool2d, cross_entropy

from benchmarks.prices import BUDGET, Case, accuracy, split
from trilemma.accounting.noise_calibration import noise_multiplier_for
from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.records.records import Records
from trilemma.scenarios import load_scenario
from trilemma.scenarios.networks import mlp, uniform_weights
from trilemma.tuning.recipe_rule import (
    CLIP,
    LENGTH,
    recipe_under_noise,
    step_under_noise,
    tolerance,
)

SHARES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
LENGTHS: Final = (5.0, 9.0, LENGTH, 22.0, 36.0)
NOISY_ROUNDS, SHORT_ROUNDS = 150, 30


@dataclass(frozen=True)
class Task:
    """A federation of some data set and network, and how many records are dealt out."""

    data: str
    network: str
    scenario: Scenario
    test: int


def tasks() -> list[Task]:
    """Tables and images; ReLU, tanh and wide sigmoid networks, and a convolutional one."""
    made = []
    wine = load_wine()
    pools = {"wine": (wine.data, wine.target, 4)}
    for name, features, classes, informative, apart in (
        ("20 columns", 20, 4, 10, 1.5),
        ("50 columns", 50, 2, 8, 1.0),
        ("100 columns", 100, 5, 15, 2.0),
    ):
        inputs, labels = make_classification(
            2500,
            features,
            n_informative=informative,
            n_redundant=0,
            n_classes=classes,
            n_clusters_per_class=1,
            class_sep=apart,
            random_state=features,
        )
        pools[name] = inputs, labels, 10
    for name, (inputs, labels, clients) in pools.items():
        table = torch.tensor((inputs - inputs.mean(0)) / inputs.std(0), dtype=torch.float32)
        own = Records(table, torch.tensor(labels))
        made += _with_networks(name, own, clients, len(own) // 3)
    digits = load_scenario("digits")
    own = Records(
        torch.cat([record.inputs for record in (*digits.records, digits.test_records)]),
        torch.cat([record.labels for record in (*digits.records, digits.test_records)]),
    )
    made += _with_networks("digits", own, 10, 297)
    small = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(8, 16, 3, stride=2), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(144, 32), nn.Tanh(), nn.Linear(32, 10)),
    )
    made.append(Task("digits", "conv", _federation("digits", small, own, 10), 297))
    try:
        images = load_scenario("fashion-mnist").test_records
    except InvalidInput as error:
        print(f"without Fashion-MNIST: {error}")
    else:
        seventh = Records(avg_pool2d(images.inputs, 4), images.labels)[torch.arange(2500)]
        made += _with_networks("Fashion-MNIST, 7x7", seventh, 10, 1000)
    return made


def _with_networks(name: str, own: Records, clients: int, test: int) -> list[Task]:
    size, classes = own.inputs[0].numel(), int(own.labels.max()) + 1
    return [
        Task(
            name,
            kind.__name__,
            _federation(name, mlp(size, 32, classes, kind), own, clients, kind is nn.Sigmoid),
            test,
        )
        for kind in (nn.ReLU, nn.Tanh, nn.Sigmoid)
    ]


def _federation(
    name: str, model: nn.Module, own: Records, clients: int, wide: bool = False
) -> Scenario:
    places = torch.arange(len(own))
    return Scenario(
        model,
        cross_entropy,
        [own[places[k :: clients + 1]] for k in range(clients)],
        own[places[clients :: clients + 1]],
        name=name,
        initialise=uniform_weights if wide else None,
    )


def scores(
    task: Task, seeds: int, rounds: int, honest: int, limits: Sequence[tuple[float, float]]
) -> list[float]:
    """Mean accuracy over seeds by share of the noise and length, if so many noises count."""
    multiplier = noise_multiplier_for(BUDGET, rounds=rounds, q=1.0, participation="known")
    bearable = tolerance(task.scenario)
    values: list[list[float]] = [[] for _ in limits]
    for seed in range(seeds):
        dealt = split(task.scenario, Case(task.data, 2, task.test, rounds, honest, (), ()), seed)
        dealt = replace(dealt, public=None)
        clients, size = len(dealt.records), len(dealt.records[0])
        training = LocalTraining(batch=size, record_clip=CLIP, sampling="full")
        noise = multiplier / (size * math.sqrt(honest * clients))
        recipe = recipe_under_noise(dealt, training, noise, rounds=rounds)
        variance = (multiplier * CLIP / size) ** 2 / honest
        for own, (share, length) in zip(values, limits, strict=True):
            step, momentum = step_under_noise(bearable, noise, rounds, share=share, length=length)
            tried = replace(recipe, server_lr=step * (1 - momentum) / CLIP, momentum=momentum)
            own.append(accuracy(dealt, tried, seed, Protection((Randomization(variance),))))
    return [fmean(own) for own in values]


def report(
    title: str, numbers: Sequence[float], shipped: float, table: dict[tuple[str, str], list[float]]
) -> None:
    """Points lost against the best number, row by row, and by a choice on other data sets."""
    print(f"\n| {title} | " + " | ".join(f"{number:g}" for number in numbers) + " |")
    print("|---|" + "---|" * len(numbers))
    lost = {name: [100 * (max(row) - value) for value in row] for name, row in table.items()}
    for (data, what), row in lost.items():
        print(f"| {data}, {what} | " + " | ".join(f"{value:.1f}" for value in row) + " |")
    mean = [fmean(column) for column in zip(*lost.values(), strict=True)]
    print("| mean | " + " | ".join(f"{value:.1f}" for value in mean) + " |")
    for data in dict.fromkeys(data for data, _ in table):
        others = [row for (name, _), row in lost.items() if name != data]
        here = [row for (name, _), row in lost.items() if name == data]
        mean = [fmean(column) for column in zip(*others, strict=True)]
        best = mean.index(min(mean))
        at, own = (
            fmean(row[best] for row in here),
            fmean(row[numbers.index(shipped)] for row in here),
        )
        print(
            f"Without {data} the choice is {numbers[best]:g}, which loses {at:.1f} there.", end=""
        )
        print(f" The shipped {shipped:g} loses {own:.1f}.")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    seeds = parser.parse_args().seeds
    shares: dict[tuple[str, str], list[float]] = {}
    lengths: dict[tuple[str, str], list[float]] = {}
    for task in tasks():
        clients = len(task.scenario.records)
        for honest in (clients // 2, 1):
            what = f"{task.network}, {honest} of {clients} noises"
            limits = [(share, LENGTH) for share in SHARES]
            row = scores(task, seeds, NOISY_ROUNDS, honest, limits)
            shares[task.data, what] = row
        limits = [(1.0, length) for length in LENGTHS]
        row = scores(task, seeds, SHORT_ROUNDS, clients, limits)
        lengths[task.data, task.network] = row
        print(task.data, task.network, flush=True)
    report("share of the noise", SHARES, 1.0, shares)
    report("length", LENGTHS, LENGTH, lengths)


if __name__ == "__main__":
    main()
