"""The game of the line-up: N candidates, of which one is behind the update, and ONE pick.

Whoever knows nothing of the update picks the right one with probability exactly 1/N, so a share
of right picks needs no threshold to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.entropy import Seeded

__all__ = [
    "Distance",
    "LineUp",
    "add_beliefs",
    "mean_squared_error",
    "nearest",
    "nearest_of_rounds",
    "pick_mode",
    "pick_nearest",
]

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Reconstructions [R, *shape] and candidates [N, *shape] -> their distances [R, N]."""


@dataclass(frozen=True)
class LineUp:
    """Rows of the N candidates in random order, and the place of the tagged one among them."""

    rows: tuple[int, ...]
    tagged: int

    def __post_init__(self) -> None:
        if len(self.rows) < 2 or len(set(self.rows)) < len(self.rows):
            raise InvalidInput(
                f"a line-up needs at least 2 different candidates, got {len(self.rows)} rows of "
                f"which {len(set(self.rows))} differ."
            )
        if not 0 <= self.tagged < len(self.rows):
            raise InvalidInput(
                f"the tagged candidate must be one of the {len(self.rows)} in the line-up, got "
                f"place {self.tagged}."
            )

    @classmethod
    def draw(cls, records: Sequence[Hashable], size: int, entropy: Seeded) -> LineUp:
        """N = `size` of the records, one of them tagged, all choices equally likely.

        A record stands for itself by a key, equal for exact copies, of which one is kept.

        >>> from trilemma.entropy import Seeded
        >>> drawn = LineUp.draw("abcaad", 4, Seeded(1))
        >>> sorted(drawn.rows)
        [0, 1, 2, 5]
        """
        first = list({key: row for row, key in reversed(list(enumerate(records)))}.values())
        if len(first) < size:
            raise InvalidInput(
                f"a line-up of {size} needs as many different records, but there are "
                f"{len(first)}; use a smaller line-up."
            )
        generator = entropy.generator("line-up")
        rows = generator.choice(sorted(first), size, replace=False)
        return cls(tuple(int(row) for row in rows), int(generator.integers(size)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def tagged_row(self) -> int:
        """The row of the record that is used."""
        return self.rows[self.tagged]

    @property
    def blind_rate(self) -> float:
        """1/N, the success of a pick that knows nothing of the update."""
        return 1 / len(self.rows)

    def solved(self, pick: int) -> bool:
        """Whether the pick is the tagged record."""
        return pick == self.tagged


def mean_squared_error(reconstructions: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """Mean squared error [R, N] of reconstructions [R, *shape] to candidates [N, *shape].

    >>> mean_squared_error(torch.zeros(1, 2), torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
    tensor([[1., 2.]], dtype=torch.float64)
    """
    found = reconstructions.flatten(1).double()
    wanted = candidates.flatten(1).to(found)
    # One candidate at a time: the full table of differences is N times larger than the inputs.
    return torch.stack([(found - each).square().mean(1) for each in wanted], 1)


def nearest(
    reconstructions: torch.Tensor,
    candidates: torch.Tensor,
    distance: Distance = mean_squared_error,
) -> torch.Tensor:
    """Distance [N] of each candidate to the nearest reconstruction; infinite where all are NaN."""
    table = distance(reconstructions, candidates)
    if tuple(table.shape) != (reconstructions.shape[0], candidates.shape[0]):
        raise InvalidInput(
            f"a distance must return [reconstructions, candidates] = "
            f"[{reconstructions.shape[0]}, {candidates.shape[0]}], got {list(table.shape)}."
        )
    return torch.where(torch.isnan(table), torch.inf, table).amin(0)


def nearest_of_rounds(rounds: Sequence[torch.Tensor]) -> torch.Tensor:
    """Distances [..., N] of one unit in several rounds -> the nearest over all of them."""
    return torch.stack(list(rounds)).amin(0)


def add_beliefs(rounds: Sequence[torch.Tensor]) -> torch.Tensor:
    """Log posteriors [..., N] of one unit in independent rounds -> the posterior after all.

    π(j) ∝ Π_t π_t(j) under a uniform prior.

    >>> add_beliefs([torch.tensor([0.5, 0.5]).log(), torch.tensor([0.2, 0.8]).log()]).exp()
    tensor([0.2000, 0.8000])
    """
    return torch.log_softmax(torch.stack(list(rounds)).sum(0), -1)


def pick_mode(log_posterior: torch.Tensor, entropy: Seeded) -> torch.Tensor:
    """The place [U] of the likeliest candidate of each unit; ties are drawn.

    >>> from trilemma.entropy import Seeded
    >>> pick_mode(torch.tensor([[0.1, 0.7, 0.2]]).log(), Seeded(0))
    tensor([1])
    """
    best = log_posterior.amax(1, keepdim=True)
    picks = [_one_of(row, entropy, unit) for unit, row in enumerate((log_posterior == best).cpu())]
    return torch.tensor(picks, device=log_posterior.device)


def pick_nearest(distances: torch.Tensor, entropy: Seeded) -> torch.Tensor:
    """The place [U] of the nearest candidate of each unit, from distances [U, N]; ties are drawn.

    Where no candidate is near, all distances infinite, the pick is blind.
    """
    return pick_mode(-distances, entropy)


def _one_of(possible: torch.Tensor, entropy: Seeded, unit: int) -> int:
    places = possible.nonzero().flatten().tolist()
    if len(places) == 1:
        return int(places[0])
    if not places:  # NaN throughout
        places = list(range(len(possible)))
    return int(entropy.generator("tie", unit).choice(places))
