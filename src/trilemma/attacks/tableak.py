"""TabLeak: a search for a table's records, over likely labels, and what its starts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import torch

from trilemma.attacks.base import Reconstructions
from trilemma.attacks.inverting_gradients import InvertingGradients
from trilemma.attacks.labels import likely_labels
from trilemma.attacks.matching import Candidates, ViewTensors, invert, random_starts
from trilemma.errors import InvalidInput
from trilemma.records.columns import column_distance

if TYPE_CHECKING:
    from trilemma.attacks.base import KnowledgeLevel, View
    from trilemma.records.range import InputSpec

__all__ = ["TabLeak", "pooled_starts"]

_HISTORY: Final = 20
_SOLVED: Final = 1e-8
_ALIKE: Final = 1.5  # times the lowest loss: starts that explain an update as well


@dataclass(frozen=True)
class TabLeak(InvertingGradients):
    """Vero et al. (2023): categories relaxed by softmax, and several starts pooled.

    Each of `starts` (or more, if as many restarts are asked for) descends with signed Adam on
    1 - cos(explained, observed), from numbers as they are spread and undecided categories, and
    with one of the `label_sets` likeliest sets of labels in turn; then `polish` evaluations of
    L-BFGS match the update itself. Starts that explain it as well as the best are paired with that
    one record by record; numbers are their medians, categories their most frequent levels.
    """

    iterations: int = 600
    starts: int = 4
    label_sets: int = 3
    polish: int = 100

    noisy_iterations: ClassVar[int] = 200

    name: ClassVar[str] = "tableak"
    knows: ClassVar[KnowledgeLevel] = "nothing"

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        units = ViewTensors.of(views, self.precision)
        spec = units.view.input_spec
        if not spec.columns:
            raise InvalidInput(
                f"the attack {self.name!r} is for tables, but inputs of shape {spec.shape} have "
                f"no columns; declare them, or attack with 'inverting-gradients'."
            )
        count = max(restarts, self.starts)
        labels = likely_labels(units, seed, self.label_sets)
        candidates = Candidates.of(units.view, joint=labels is None)
        starts = candidates.placed(random_starts(units, candidates, self.name, count, seed), 0.1)
        repeated = torch.arange(len(units), device=starts.device).repeat_interleave(count)
        tried = torch.arange(count, device=starts.device).repeat(len(units))
        if labels is None:
            given = torch.zeros(len(repeated), 0, dtype=torch.long, device=starts.device)
        else:
            given = labels[repeated, tried % labels.shape[1]]
        many = _chosen(units, repeated)
        points = starts.flatten(0, 1)
        with torch.no_grad():
            everyone = torch.arange(len(repeated), device=starts.device)
            for rows in torch.split(everyone, many.at_once(self.slots)):
                points[rows], _ = self.descend(many, candidates, points[rows], given, rows)
        found = invert(
            many,
            candidates,
            points[:, None],
            None if labels is None else given,
            iterations=self.polish,
            further=0,
            history=_HISTORY,
            slots=self.slots,
            tolerance=_SOLVED,
        )
        return pooled_starts(found, spec, len(units), count)


def _chosen(units: ViewTensors, rows: torch.Tensor) -> ViewTensors:
    """The units with these numbers, one perhaps several times."""
    names = ("weights", "update", "known", "client_weights", "noise")
    return replace(units, **{name: getattr(units, name)[rows] for name in names})


def pooled_starts(
    found: Reconstructions, spec: InputSpec, units: int, starts: int
) -> Reconstructions:
    """What the starts [U·R] of each unit say together."""
    loss = torch.where(found.failed, torch.inf, found.loss).reshape(units, starts)
    inputs = found.inputs.reshape(units, starts, *found.inputs.shape[1:])
    best = loss.argmin(1)
    rows = torch.arange(units, device=best.device)
    made = []
    for unit in range(units):
        alike = torch.nonzero(loss[unit] <= _ALIKE * loss[unit, best[unit]]).flatten()
        chosen = inputs[unit, best[unit]]
        ordered = [_ordered(inputs[unit, start], chosen, spec) for start in alike.tolist()]
        made.append(_middle(torch.stack(ordered or [chosen]), spec))
    labels = None
    if found.labels is not None:
        labels = found.labels.reshape(units, starts, *found.labels.shape[1:])[rows, best]
    least = loss[rows, best]
    return Reconstructions(torch.stack(made), labels, least, ~torch.isfinite(least))


def _ordered(records: torch.Tensor, like: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    """Records [S, d] in the order in which they are nearest to others."""
    from scipy.optimize import linear_sum_assignment  # heavy: workers must start without it

    table = column_distance(spec.columns, like.cpu(), records.cpu())
    return records[torch.from_numpy(linear_sum_assignment(table.numpy())[1]).to(records.device)]


def _middle(records: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    """Medians of numbers and most frequent levels [S, d] over starts [R, S, d]."""
    middle, share = records.quantile(0.5, dim=0), records.mean(0)
    category = [column.kind == "category" for column in spec.columns for _ in range(column.size)]
    return spec.settled(torch.where(torch.tensor(category).to(share.device), share, middle))
