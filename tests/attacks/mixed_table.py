"""A generated table of numbers, integers and categories, for attacks on what tables hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks import View
from trilemma.beliefs.recovery import Criterion
from trilemma.game.recovering.units import Measurement, unit_views
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.protection.specs import parse_protection
from trilemma.records.tables import Table
from trilemma.scenarios.networks import mlp
from trilemma.scenarios.partition import partition

__all__ = ["generated", "right_columns", "views_of"]

LEVELS = (2, 3, 4, 5, 7, 8)


def generated(records: int = 600, seed: int = 0) -> Scenario:
    """6 numbers, 2 integers and 6 categories over 4 clients, two classes, 32 ReLUs, batch 4."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=records)
    frame: dict[str, Any] = {
        f"number {k}": 0.5 * common + draw.normal(size=records) for k in range(6)
    }
    frame["age"] = (50 + 12 * draw.normal(size=records)).astype(int)
    frame["visits"] = draw.poisson(4, size=records)
    for k, levels in enumerate(LEVELS):
        share = draw.dirichlet(np.full(levels, 3.0))
        names = np.array([f"level {i}" for i in range(levels)])
        frame[f"category {k}"] = names[draw.choice(levels, size=records, p=share)]
    frame["ill"] = common + 0.3 * draw.normal(size=records) > 0
    table = Table.of(frame, "ill")
    made = table.records(frame)
    train, test = made[torch.arange(100, records)], made[torch.arange(100)]
    return Scenario(
        model=mlp(made.inputs.shape[1], 32, 2, nn.ReLU),
        loss=cross_entropy,
        clients=partition(train, 4, alpha=None, minimum=4, seed=seed),
        test=test,
        local_training=LocalTraining(batch=4),
        columns=table.columns,
        name="mixed table",
    )


def views_of(
    scenario: Scenario, units: int, protection: str = "none", seed: int = 0
) -> tuple[list[View], torch.Tensor]:
    """What a server sees of so many updates, and their records [U, S, d]."""
    asked = Measurement(protection=parse_protection(protection), units=units, seed=seed)
    views, inputs, _ = unit_views(scenario, asked, range(units))
    return views, inputs


def right_columns(scenario: Scenario, found: torch.Tensor, truth: torch.Tensor) -> float:
    """The share of columns that are right when records [U, S, d] are paired as well as can be."""
    match = Criterion("columns", 0.8).match(found, truth, scenario.input_spec)
    return float(match.similarity.mean())
