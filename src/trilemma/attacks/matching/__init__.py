"""The batched engine of gradient matching: many units at once, inputs kept in their range.

A candidate (inputs, labels) of K·S records is explained by the update that K clients would have
sent for it, computed by the very function that the federation runs; the matching loss is the
squared distance to what was observed, on the known coordinates only.
"""

from __future__ import annotations

from trilemma.attacks.matching.lbfgs import Minima, minimise
from trilemma.attacks.matching.matching_loss import explained_update, squared_distance
from trilemma.attacks.matching.record_vectors import Candidates
from trilemma.attacks.matching.search import (
    evaluations,
    invert,
    random_starts,
    reconstructions,
)
from trilemma.attacks.matching.view_tensors import Precision, ViewTensors

__all__ = [
    "Candidates",
    "Minima",
    "Precision",
    "ViewTensors",
    "evaluations",
    "explained_update",
    "invert",
    "minimise",
    "random_starts",
    "reconstructions",
    "squared_distance",
]
