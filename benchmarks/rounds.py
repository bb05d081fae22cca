"""What rounds take: clipped gradients by factors against each written out, games by their law."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp
from benchmarks.pages.tables import Table, once
from trilemma.federation import cohort_updates
from trilemma.federation.recipe import Recipe
from trilemma.federation.round import Rounds
from trilemma.federation.training import train
from trilemma.game.playing.games import Arena
from trilemma.game.playing.observer import Observer
from trilemma.game.prepared_models import fresh_weights
from trilemma.learning import LocalTraining
from trilemma.observations import Adversary
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


def games(network: str, protection: str) -> list[float]:
    """CPU seconds of 16 games over 60 rounds: by law, by every update, and by every noise."""
    scenario = replace(load_scenario(network), local_training=LocalTraining(batch=4))
    arena, shield = Arena.of(scenario, rounds=60), parse_protection(protection)
    observer = Observer(arena, shield, Adversary.SERVER, "public", seed=3)
    drawn = [arena.draw(number, 3) for number in range(16)]
    spent = []
    for _ in range(2):  # the first records and finds out
        by_law = once(lambda: observer.views(drawn))
        with patch.object(cohort_updates.Sending, "means", lambda *_: None):
            by_update = once(lambda: observer.views(drawn))
        with patch.object(Rounds, "_noise_alone", None):
            spent.append([by_law, by_update, once(lambda: observer.views(drawn))])
    return spent[-1]


def main() -> None:
    torch.set_num_threads(1)
    played = []
    for network in ("digits-mlp", "digits-lenet"):
        for name, protection in {"none": "none", **PROTECTIONS}.items():
            took = games(network, protection)
            played.append((network, name, *(f"{item:.2f}" for item in took)))
            print(*played[-1], flush=True)
    rows = []
    for network in ("digits-mlp", "digits-lenet"):
        for name, training in TRAININGS.items():
            for carried, protection in PROTECTIONS.items():
                took = [seconds(network, training, protection, value) for value in WAYS.values()]
                row = (network, name, carried, *(f"{item:.2f}" for item in took))
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
    by_law = Table(
        "CPU seconds of 16 games over 60 rounds",
        "scenario | protection | by law | each update | each update and its noise",
        played,
        "10 clients, batches of 4. By law, a round that nobody reads is one gradient a game and "
        "one draw of noise, which also saves the memory of all clients' updates.",
    )
    both = "\n".join(value.markdown() for value in (table, by_law))
    PAGE.write_text(f"# Rounds\n\n`python benchmarks/rounds.py`, {stamp()}\n\n{both}")


if __name__ == "__main__":
    main()
