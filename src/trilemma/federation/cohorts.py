"""Who takes part in the rounds of a training in one process, and on which records.

Everything is drawn from paths of one seed that name the round and the client, so that runs with
and without protection meet the same cohorts and the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.round import Answers
from trilemma.learning import Task, draw_rows, stack_rows
from trilemma.protection.round_info import RoundInfo

if TYPE_CHECKING:
    from trilemma.federation.recipe import Recipe
    from trilemma.records.records import Records

__all__ = ["Cohorts", "Federated", "drawn_cohort", "pooled"]


class Federated(Protocol):
    """What can be trained: every `game.scenario.Scenario` is one."""

    @property
    def task(self) -> Task: ...

    @property
    def records(self) -> Sequence[Records]: ...

    @property
    def test_records(self) -> Records: ...

    @property
    def device(self) -> str: ...


class Cohorts:
    """Draws the clients of each round of a recipe, their records, and what noise is drawn from."""

    def __init__(
        self, federated: Federated, recipe: Recipe, per_round: int, seed: int, run: str
    ) -> None:
        self.recipe, self.per_round, self.draws, self.run = recipe, per_round, Seeded(seed), run
        self.sizes = [record.inputs.shape[0] for record in federated.records]
        self.starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)
        self.device = federated.device

    def sample(self, number: int) -> Answers:
        """The clients of a round, who all answer, in rising order."""
        clients = drawn_cohort(self.draws, len(self.sizes), self.per_round, number)
        info = RoundInfo.new(
            clients, self.draws, run=self.run, number=number, threshold=self.recipe.threshold
        )
        counts = [1 if self.recipe.equal_weights else self.sizes[client] for client in clients]
        return Answers(info, counts, self.draws)

    def rows(
        self, number: int, clients: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The records [K, B] of the clients' units, as rows of the pool, and who takes part."""
        training, draws = self.recipe.local_training, self.draws
        own, here = stack_rows(
            [
                draw_rows(training, self.sizes[k], draws.generator("batch", number, k))
                for k in clients
            ]
        )
        rows = own + self.starts[list(clients), None]
        return rows.to(self.device), None if here is None else here.to(self.device)


def pooled(federated: Federated) -> tuple[torch.Tensor, torch.Tensor]:
    """All clients' inputs and labels on the device; not to be changed.

    Kept on a GPU for the next who asks: there they must be brought, here they lie already.
    """
    shapes = sorted({tuple(record.inputs.shape[1:]) for record in federated.records})
    if len(shapes) > 1:
        raise InvalidInput(
            f"all clients must train the same model, but their inputs have shapes {shapes}."
        )
    here = torch.device(federated.device).type == "cpu"
    return (_pooled.__wrapped__ if here else _pooled)(_SameRows(federated))


class _SameRows:
    """A federation as itself: it need not be hashable, nor comparable with another."""

    def __init__(self, federated: Federated) -> None:
        self.federated = federated

    def __hash__(self) -> int:
        return id(self.federated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameRows) and other.federated is self.federated


@lru_cache(maxsize=1)
def _pooled(same: _SameRows) -> tuple[torch.Tensor, torch.Tensor]:
    federated = same.federated
    inputs = torch.cat([record.inputs for record in federated.records]).to(federated.device)
    labels = torch.cat([record.labels for record in federated.records]).to(federated.device)
    return inputs, labels


def drawn_cohort(draws: Seeded, everyone: int, per_round: int, number: int) -> tuple[int, ...]:
    """The clients of a round, in rising order."""
    if per_round == everyone:
        return tuple(range(everyone))
    draw = draws.generator("cohort", number)
    return tuple(sorted(draw.choice(everyone, per_round, replace=False).tolist()))
