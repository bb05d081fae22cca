"""CPU time of a gradient in each of the ways in which a model can be run."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp
from trilemma.learning import LocalTraining, Task, Way, client_update, traced

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "ways.md"
KINDS: tuple[Literal["recorded", "vmapped", "looped"], ...] = ("recorded", "vmapped", "looped")
GAMES, BATCH, TRIES, CALLS = 16, 4, 5, 20


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2))
    return {
        "two linear layers (2,410 parameters)": nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10)
        ),
        "convolution and linear layer (1,498 parameters)": nn.Sequential(
            *conv, nn.Flatten(), nn.Linear(128, 10)
        ),
    }


def milliseconds(model: nn.Module, kind: Literal["recorded", "vmapped", "looped"]) -> float:
    """A matching loss of 16 games and its gradient by the inputs; the least of five tries."""
    task = replace(Task(model, nn.functional.cross_entropy, 10), way=Way(kind))
    way = task.way
    labels = torch.arange(BATCH)

    def distance(z: torch.Tensor, weights: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        sent = client_update(task, weights, z, labels, LocalTraining(batch=BATCH))
        return (sent - seen).square().sum()

    draw = torch.Generator().manual_seed(0)
    weights = 0.1 * torch.randn(GAMES, task.layout.size, generator=draw)
    example = torch.rand(GAMES, BATCH, 1, 8, 8, generator=draw), weights, weights.flip(0)
    gradient = way.vmap(way.grad_and_value(distance))
    run: Callable[..., object] = traced(("distance",), task, gradient, example)

    def spent() -> float:
        start = time.process_time()
        for _ in range(CALLS):
            run(*example)
        return (time.process_time() - start) / CALLS * 1e3

    with torch.no_grad():
        return min(spent() for _ in range(TRIES))


def main() -> None:
    torch.set_num_threads(1)
    lines = [f"| network | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    for name, model in networks().items():
        taken = [milliseconds(model, kind) for kind in KINDS]
        shown = (f"{item:.2f} ms ({item / taken[0]:.1f}x)" for item in taken)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    table = "\n".join(lines) + "\n"
    head = (
        "Milliseconds of CPU time for a matching loss and its gradient by the inputs, of 16 games "
        "with 4 records each, on one thread."
    )
    TABLE.write_text(
        f"# Ways to run a model\n\n`python benchmarks/ways.py`, {stamp()}\n\n{head}\n\n{table}"
    )
    print(table, end="")


if __name__ == "__main__":
    main()
