"""scikit-learn's two medical tables: always there, nothing to download."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma.entropy import Seeded
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.tables import Table
from trilemma.scenarios.networks import mlp
from trilemma.scenarios.partition import partition

__all__ = ["breast_cancer", "diabetes"]

_HIDDEN: Final = 32


def diabetes(
    *, clients: int = 4, batch: int = 4, alpha: float | None = None, seed: int = 0
) -> Scenario:
    """442 patients, 9 numbers and the sex, and how their diabetes went on after a year.

    340 of them over `clients` clients; an MLP with 32 ReLUs (m = 417), mean squared error.
    """
    from sklearn.datasets import load_diabetes  # type: ignore[import-untyped]

    data = load_diabetes(scaled=False)
    frame: dict[str, Any] = dict(zip(data.feature_names, data.data.T, strict=True))
    frame["sex"] = np.where(frame["sex"] == 1, "1", "2")
    frame["age"] = frame["age"].astype(int)
    frame["progression"] = data.target
    return _scenario("diabetes", frame, "progression", 102, clients, batch, alpha, seed)


def breast_cancer(
    *, clients: int = 5, batch: int = 4, alpha: float | None = None, seed: int = 0
) -> Scenario:
    """569 tumours, 30 measures of their cells' nuclei, benign or malignant.

    450 of them over `clients` clients; an MLP with 32 ReLUs (m = 1,058), cross-entropy.
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    frame: dict[str, Any] = dict(zip(data.feature_names, data.data.T, strict=True))
    frame["diagnosis"] = np.asarray(data.target_names)[data.target]
    return _scenario("breast-cancer", frame, "diagnosis", 119, clients, batch, alpha, seed)


def _scenario(
    name: str,
    frame: dict[str, Any],
    target: str,
    held: int,
    clients: int,
    batch: int,
    alpha: float | None,
    seed: int,
) -> Scenario:
    """A federation over a frame, of which `held` records are the test set."""
    table = Table.of(frame, target)
    records = table.records(frame)
    order = torch.from_numpy(Seeded(seed).generator("split").permutation(len(records)))
    train = records[order[held:]]
    return Scenario(
        model=mlp(records.inputs.shape[1], _HIDDEN, table.classes or 1, nn.ReLU),
        loss=cross_entropy if table.classes else mse_loss,
        clients=partition(train, clients, alpha=alpha, minimum=batch, seed=seed),
        test=records[order[:held]],
        local_training=LocalTraining("fedsgd", lr=0.1, batch=batch),
        name=name,
        columns=table.columns,
        show_records=True,
    )
