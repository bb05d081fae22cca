"""The clients' side of training in one process: who takes part, on which records, what comes out.

Everything is drawn from paths of one seed that name the round and the client, so that runs with
and without protection meet the same cohorts and the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

import torch

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.federation.cohort_updates import Sending
from trilemma.federation.server import Labelled
from trilemma.learning import Task, draw_rows, stack_rows

if TYPE_CHECKING:
    from trilemma.learning import LocalTraining

__all__ = ["Cohorts", "Federated", "drawn_cohort", "pooled"]

_FEW_ROWS: Final = 10_000  # of a round, up to which they are kept


class Federated(Protocol):
    """What can be trained: every `estimation.Scenario` is one."""

    @property
    def task(self) -> Task: ...

    @property
    def records(self) -> Sequence[Labelled]: ...

    @property
    def test_records(self) -> Labelled: ...

    @property
    def device(self) -> str: ...


class Cohorts:
    """Samples clients and their records, and has their updates computed."""

    def __init__(self, federated: Federated, sending: Sending, per_round: int, seed: int) -> None:
        self.sending, self.per_round, self.draws = sending, per_round, Seeded(seed)
        self.sizes = [each.inputs.shape[0] for each in federated.records]
        self.starts = torch.tensor([0, *self.sizes[:-1]]).cumsum(0)

    def sample(self, number: int) -> tuple[int, ...]:
        """The clients of a round, in rising order."""
        return drawn_cohort(self.draws, len(self.sizes), self.per_round, number)

    def updates(self, weights: torch.Tensor, number: int, clients: Sequence[int]) -> torch.Tensor:
        """The clients' updates [K, m] at `weights` [m] for the batches of this round."""
        return self.sending.updates(weights, *self._rows(number, clients))

    def update(self, weights: torch.Tensor, number: int, client: int) -> torch.Tensor:
        """One client's update [m], computed by itself as on a machine of its own."""
        rows, present = self._rows(number, [client])
        return self.sending.alone(weights, rows[0], None if present is None else present[0])

    def _rows(
        self, number: int, clients: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The records [K, B] of the clients' units, as rows of the pool, and who takes part."""
        sizes = tuple(self.sizes[client] for client in clients)
        # A client alone may be timed, which a draw from memory would spoil.
        training = self.sending.training
        few = len(clients) * training.unit_size <= _FEW_ROWS
        draw = _drawn if few and len(clients) > 1 else _drawn.__wrapped__
        own, here = draw(self.draws, number, tuple(clients), sizes, training)
        rows, device = own + self.starts[list(clients), None], self.sending.inputs.device
        return rows.to(device), None if here is None else here.to(device)


def pooled(federated: Federated) -> tuple[torch.Tensor, torch.Tensor]:
    """All clients' inputs and labels on the device; not to be changed.

    Kept on a GPU for the next who asks: there they must be brought, here they lie already.
    """
    shapes = sorted({tuple(each.inputs.shape[1:]) for each in federated.records})
    if len(shapes) > 1:
        raise InvalidInput(
            f"all clients must train the same model, but their inputs have shapes {shapes}."
        )
    here = torch.device(federated.device).type == "cpu"
    return (_pooled.__wrapped__ if here else _pooled)(_Same(federated))


class _Same:
    """A federation as itself: it need not be hashable, nor comparable with another."""

    def __init__(self, federated: Federated) -> None:
        self.federated = federated

    def __hash__(self) -> int:
        return id(self.federated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.federated is self.federated


@lru_cache(maxsize=1)
def _pooled(same: _Same) -> tuple[torch.Tensor, torch.Tensor]:
    federated = same.federated
    inputs = torch.cat([each.inputs for each in federated.records]).to(federated.device)
    labels = torch.cat([each.labels for each in federated.records]).to(federated.device)
    return inputs, labels


def drawn_cohort(draws: Seeded, everyone: int, per_round: int, number: int) -> tuple[int, ...]:
    """The clients of a round, in rising order."""
    if per_round == everyone:
        return tuple(range(everyone))
    draw = draws.generator("cohort", number)
    return tuple(sorted(draw.choice(everyone, per_round, replace=False).tolist()))


@lru_cache(maxsize=512)
def _drawn(
    draws: Seeded,
    number: int,
    clients: tuple[int, ...],
    sizes: tuple[int, ...],
    training: LocalTraining,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The places [K, B] that clients of these sizes draw in a round, and who takes part.

    Kept, because trainings under other protections draw the same: not to be changed.
    """
    each = zip(clients, sizes, strict=True)
    return stack_rows(
        [draw_rows(training, n, draws.generator("batch", number, k)) for k, n in each]
    )
