"""Split records over clients: evenly at random, or by a Dirichlet distribution over classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.quantities import positive

if TYPE_CHECKING:
    from trilemma.records.records import Records

__all__ = ["partition"]

_TRIES: Final = 200


def partition(
    records: Records, clients: int, *, alpha: float | None, minimum: int, seed: int
) -> tuple[Records, ...]:
    """`clients` disjoint parts of at least `minimum` records each.

    alpha None: equal parts at random (IID). Otherwise each class is dealt out in shares drawn
    from Dirichlet(alpha, .., alpha): the smaller alpha, the fewer classes a client sees.
    """
    if clients < 1:
        raise InvalidInput(f"clients must be at least 1, got {clients}.")
    if alpha is not None:
        positive("alpha (of the Dirichlet distribution)", alpha)
    if clients * minimum > len(records):
        raise InvalidInput(
            f"{len(records)} records are too few for {clients} clients with {minimum} records "
            f"each; use fewer clients or a smaller batch."
        )
    draw = Seeded(seed).generator("partition")
    if alpha is None:
        parts = np.array_split(draw.permutation(len(records)), clients)
        return tuple(records[torch.from_numpy(np.sort(part))] for part in parts)
    for _ in range(_TRIES):
        parts = _dirichlet(records.labels.numpy(), clients, alpha, draw)
        if min(len(part) for part in parts) >= minimum:
            return tuple(records[torch.from_numpy(np.sort(part))] for part in parts)
    raise InvalidInput(
        f"in {_TRIES} draws of Dirichlet({alpha}) some client always had fewer than {minimum} "
        f"records; raise alpha, or use fewer clients."
    )


def _dirichlet(
    labels: np.ndarray, clients: int, alpha: float, draw: np.random.Generator
) -> list[np.ndarray]:
    dealt: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = draw.permutation(np.flatnonzero(labels == label))
        shares = draw.dirichlet(np.full(clients, alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int)
        for part, piece in zip(dealt, np.split(rows, cuts), strict=True):
            part.append(piece)
    return [np.concatenate(part) for part in dealt]
