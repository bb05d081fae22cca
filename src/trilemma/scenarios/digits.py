"""scikit-learn's handwritten digits, 8x8 in 17 grey levels: always there, nothing to download."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.records import Records
from trilemma.scenarios.networks import lenet, mlp, uniform_weights
from trilemma.scenarios.partition import partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["digits"]

_TEST: Final = 297  # 1,500 records are left for the clients


def digits(
    network: Literal["mlp", "lenet"] = "mlp",
    *,
    clients: int = 10,
    batch: int = 4,
    alpha: float | None = None,
    seed: int = 0,
) -> Scenario:
    """The embedded scenario: 1,500 digits over `clients` clients, values in 0 .. 1.

    network mlp: 64-32-10 with a sigmoid (m = 2,410); lenet: the DLG network at 8x8 (m = 8,026).
    """
    data = _data()
    images = torch.tensor(data[:, :-1] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    records = Records(images, torch.tensor(data[:, -1], dtype=torch.long))
    order = torch.from_numpy(Seeded(seed).generator("split").permutation(len(records)))
    test, train = records[order[:_TEST]], records[order[_TEST:]]
    return Scenario(
        model=mlp(64, 32, 10) if network == "mlp" else lenet((1, 8, 8), 10),
        loss=cross_entropy,
        clients=partition(train, clients, alpha=alpha, minimum=batch, seed=seed),
        test=test,
        local_training=LocalTraining("fedsgd", lr=0.1, batch=batch),
        name=f"digits-{network}",
        initialise=uniform_weights,
        show_records=True,
        server_lr=1.0,  # 150 rounds at the local rate would stop at two thirds of the accuracy
    )


def _data() -> NDArray[np.float64]:
    """Pixels and label [1797, 65] of scikit-learn's file.

    It is read without scikit-learn, whose import takes every worker process a second.
    """
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise InvalidInput("the digits come with scikit-learn; install it, or name another.")
    return np.loadtxt(Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
