"""CPU seconds and memory as a federation grows, with fitted exponents.

python benchmarks/growth.py                      # writes docs/benchmarks/growth.md
python benchmarks/growth.py --points 2 --out /tmp/growth.md    # the smallest, to see it run
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.federation.training import train
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.recipe_scenarios import own_recipe
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

INPUTS, CLASSES = 16, 4
NOISE = "randomization:variance=0.01,clip=1.0"


def data(size: int, seed: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.rand(size, INPUTS, generator=draw)
    return TensorDataset(inputs, torch.randint(0, CLASSES, (size,), generator=draw))


def scenario(clients: int = 2, *, hidden: int = 50, batch: int = 1, rounds: int = 8) -> Scenario:
    """A network of 21 hidden + 4 parameters."""
    size = max(4, 8 * batch) if clients < 100 else 4
    return Scenario(
        nn.Sequential(nn.Linear(INPUTS, hidden), nn.Sigmoid(), nn.Linear(hidden, CLASSES)),
        cross_entropy,
        [data(size, seed) for seed in range(clients)],
        data(40, 1 << 20),
        LocalTraining(batch=batch),
        name="growth",
        rounds=rounds,
    )


def attacked(made: Scenario, attack: str, rounds: int, games: int) -> Callable[[int], object]:
    work = JobRunner(made, None, 1, 2, 0)()
    asked = partial(AttackJob, "growth", NOISE, (attack,), Adversary.SERVER, rounds)
    return lambda turn: work(asked(turn * games, games))


def trained(made: Scenario) -> Callable[[int], object]:
    recipe = replace(own_recipe(made), rounds=1)
    return lambda turn: train(made, parse_protection(NOISE), recipe, seeds=(turn,))


def of_parameters(size: int) -> Callable[[int], object]:
    return attacked(scenario(hidden=size // 21), "dlg", 1, 4)


def of_batch(size: int) -> Callable[[int], object]:
    return attacked(scenario(batch=size), "dlg", 1, 4)


def of_games(size: int) -> Callable[[int], object]:
    return attacked(scenario(), "gaussian-posterior", 8, size)


def of_rounds(size: int) -> Callable[[int], object]:
    return attacked(scenario(rounds=size), "gaussian-posterior", size, 4)


def of_clients(size: int) -> Callable[[int], object]:
    return trained(scenario(size, batch=2))


AXES: dict[str, tuple[Callable[[int], Callable[[int], object]], tuple[int, ...], str]] = {
    "parameters m": (of_parameters, (1_000, 10_000, 100_000, 1_000_000), "4 games of DLG"),
    "records S of an update": (of_batch, (1, 2, 4, 8, 16), "4 games of DLG"),
    "games": (of_games, (4, 16, 64, 256), "games of 8 rounds, Gaussian posterior"),
    "rounds": (of_rounds, (8, 32, 128, 512), "4 whole trainings, Gaussian posterior"),
    "clients K": (of_clients, (1_250, 2_500, 5_000, 10_000), "one round of training with noise"),
}


def measured(make: Callable[[int], Callable[[int], object]], size: int) -> tuple[float, float]:
    """CPU seconds of the second turn, and MiB that both have added at most."""
    torch.set_num_threads(1)
    act = make(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    act(0)
    began = time.process_time()
    act(1)
    seconds = time.process_time() - began
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def exponent(sizes: tuple[int, ...], values: list[float]) -> str:
    """The gradient of log(value) over log(size) by least squares, of the three largest above 0."""
    kept = [(x, y) for x, y in zip(sizes, values, strict=True) if y > 0][-3:]
    if len(kept) < 2:
        return "–"
    x, y = (np.log([item[place] for item in kept]) for place in (0, 1))
    return f"{np.polyfit(x, y, 1)[0]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=9, help="of each axis, from the smallest")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/growth.md"))
    options = parser.parse_args()
    lines = [
        "# How time and memory grow",
        "",
        (
            f"Made by `python benchmarks/growth.py --points {options.points}`, {stamp()}: CPU "
            f"seconds on one core, and MiB of memory above those of the process before, of a "
            f"network of {INPUTS} inputs and one hidden layer, one axis at a time, each size in a "
            f"process of its own. An exponent is the gradient of a line through the logarithms of "
            f"the three largest sizes; that of memory counts those that took more than 8 MiB."
        ),
        "",
        "| axis | what is done | sizes | seconds | exponent | MiB | exponent |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (make, every, what) in AXES.items():
        sizes = every[: options.points]
        with ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
        ) as pool:
            found = list(pool.map(partial(measured, make), sizes))
        seconds, memory = [list(group) for group in zip(*found, strict=True)]
        counted = [item if item > 8 else -math.inf for item in memory]
        cells = (
            *(name, what, ", ".join(f"{size:,}" for size in sizes)),
            *(", ".join(f"{duration:.3g}" for duration in seconds), exponent(sizes, seconds)),
            *(", ".join(f"{item:.0f}" for item in memory), exponent(sizes, counted)),
        )
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
