"""What a training with clipped records takes: gradients by factors, against each written out."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp
from benchmarks.pages.tables import Table, once
from trilemma.federation import cohort_updates
from trilemma.federation.recipe import Recipe
from trilemma.federation.training import train
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining
from trilemma.protection.specs import parse_protection
from trilemma.scenarios import load_scenario

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "rounds.md"
NOISE = "randomization:variance=0.00001"
PROTECTIONS = {"noise": NOISE, "noise in sums": f"{NOISE}+secret-sharing:clip_range=1"}
WAYS = {"by factors": 0, "written out": math.inf}
TRAININGS = {
    "full batches of 150": LocalTraining(batch=150, record_clip=0.1, sampling="full"),
    "Poisson, 16 of 150": LocalTraining(batch=16, record_clip=0.1, sampling="poisson"),
    "Poisson, 4 of 150": LocalTraining(batch=4, record_clip=0.1, sampling="poisson"),
}
ROUNDS, SEEDS = 30, (0, 1, 2)


def seconds(network: str, training: LocalTraining, protection: str, limit: float) -> float:
    """CPU seconds of 150 rounds of one training, by the difference between 30 rounds and 2."""
    scenario = load_scenario(network)
    weights, spent = fresh_weights(scenario, SEEDS), []
    with patch.object(cohort_updates, "_WRITTEN", limit):
        for rounds in (1, 2, ROUNDS):  # the first records and finds out
            recipe = Recipe(training, 10.0, True, True, rounds=rounds)
            given = scenario, parse_protection(protection), recipe
            spent.append(once(lambda: train(*given, seeds=SEEDS, weights=weights, real_rounds=0)))  # noqa: B023
    return 150 / (ROUNDS - 2) * (spent[2] - spent[1]) / len(SEEDS)


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for network in ("digits-mlp", "digits-lenet"):
        for name, training in TRAININGS.items():
            for carried, protection in PROTECTIONS.items():
                took = [seconds(network, training, protection, each) for each in WAYS.values()]
                row = (network, name, carried, *(f"{each:.2f}" for each in took))
                rows.append((*row, f"{took[1] / took[0]:.1f}"))
                print(*rows[-1], flush=True)
    table = Table(
        "CPU seconds of a training",
        f"scenario | batch | protection | {' | '.join(WAYS)} | ratio",
        rows,
        "10 clients, 150 rounds, records clipped to 0.1, one thread. A round by factors sums the "
        "clipped gradients of all clients' records without writing each out; the smaller a round, "
        "the less that gains, and below 2¹⁹ coordinates a training writes them out.",
    )
    PAGE.write_text(
        f"# Rounds\n\n`python benchmarks/rounds.py`, {stamp()}\n\n{table.markdown()}",
    )


if __name__ == "__main__":
    main()
