"""The game of the candidate set: N candidates, of which one is behind the update, and one guess.

An attacker who knows nothing of the update guesses the right one with probability exactly 1/N, so
a share of right guesses needs no threshold to be compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import column_distance

if TYPE_CHECKING:
    from trilemma.records.range import InputSpec

__all__ = [
    "Distance",
    "distance_of",
    "distances",
    "guess",
    "mean_squared",
    "other_tokens",
    "relative_distances",
    "token_scores",
]

_PUBLIC: Final = 512  # records at most, to which a reconstruction is compared
_NEIGHBOURS: Final = 3

Distance = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Reconstructions [R, *shape] and candidates [N, *shape] -> their distances [R, N]."""


def mean_squared(made: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """The mean squared difference [R, N] of reconstructions [R, *shape] and candidates.

    >>> mean_squared(torch.zeros(1, 2), torch.tensor([[1.0, 1.0], [0.0, 2.0]]))
    tensor([[1., 2.]], dtype=torch.float64)
    """
    found, offered = made.flatten(1).double(), candidates.flatten(1).double()
    # by products: the table of differences is N times larger than the inputs
    squares = found.square().sum(1)[:, None] + offered.square().sum(1)[None]
    return (squares - 2 * found @ offered.T).clamp(min=0) / found.shape[1]


def other_tokens(made: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """The share [R, N] of the places at which texts [R, T] and candidates hold other tokens.

    >>> other_tokens(torch.tensor([[1, 2]]), torch.tensor([[1, 3], [1, 2]]))
    tensor([[0.5000, 0.0000]], dtype=torch.float64)
    """
    unlike = made.flatten(1)[:, None] != candidates.flatten(1)[None]
    return unlike.double().mean(2)


def token_scores(there: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """What speaks for candidates [N, T], of the probabilities [K, V] that tokens were there.

    The mean log probability of a text's distinct tokens (a word that is said twice is one word),
    added up over the K observations: so it is the share of its tokens that were there that counts.

    >>> token_scores(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[0, 1, 1], [0, 1, 2]]))
    tensor([ 0.0000, -6.9078], dtype=torch.float64)
    """
    texts = candidates.flatten(1)
    weights = 1 / (texts[:, :, None] == texts[:, None, :]).sum(2).double()
    weights = weights / weights.sum(1, keepdim=True)
    log = there.double().clamp(min=1e-9).log()
    return (log[:, texts] * weights).sum((0, 2))


def distance_of(spec: InputSpec) -> Distance:
    """What is far from what: by standardised columns, by tokens, else by squares."""
    if spec.columns:
        return partial(column_distance, spec.columns)
    return mean_squared if spec.vocabulary is None else other_tokens


def distances(made: torch.Tensor, candidates: torch.Tensor, distance: Distance) -> torch.Tensor:
    """The distances [R, N] of reconstructions from candidates, ∞ where one is no number."""
    table = distance(made, candidates).double()
    if tuple(table.shape) != (made.shape[0], candidates.shape[0]):
        raise InvalidInput(
            f"a distance must return [reconstructions, candidates] = "
            f"[{made.shape[0]}, {candidates.shape[0]}], got {list(table.shape)}."
        )
    return torch.where(torch.isnan(table), torch.inf, table)


def relative_distances(
    made: torch.Tensor,
    candidates: torch.Tensor,
    public: torch.Tensor | None,
    distance: Distance,
) -> torch.Tensor:
    """The distances [R, N]; several reconstructions compete, each in units of its commonness.

    By `public` records that is how far the nearest of them are on average (None: of the
    candidates): a candidate near a reconstruction of which there are many in the world is no find.
    """
    table = distances(made, candidates, distance)
    if len(made) == 1:
        return table
    others = _sampled(table.T).T if public is None else distances(made, _sampled(public), distance)
    near = others.topk(min(_NEIGHBOURS, others.shape[1]), 1, largest=False).values.mean(1)
    shares = table / near.clamp(min=torch.finfo(near.dtype).tiny)[:, None]
    return torch.where(torch.isnan(shares), torch.inf, shares)


def _sampled(records: torch.Tensor) -> torch.Tensor:
    """Of records those, evenly spread, to which a reconstruction is compared."""
    return records[:: -(-len(records) // _PUBLIC)]


def guess(scores: torch.Tensor, draw: torch.Generator) -> int:
    """The place of the largest score [N]; ties are drawn, and so is all where nothing is known.

    >>> guess(torch.tensor([0.1, 0.7, 0.2]), torch.Generator().manual_seed(0))
    1
    """
    known = torch.nan_to_num(scores, nan=-torch.inf)
    places = torch.nonzero(known == known.max()).flatten()
    return int(places[torch.randint(len(places), (1,), generator=draw)])
