"""Which tokens were in a batch: those whose rows of the embedding have a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import torch

from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View, common_view
from trilemma.attacks.labels import tensor_slices
from trilemma.attacks.matching import ViewTensors
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.learning import Task
    from trilemma.records.range import InputSpec

__all__ = ["Tokens", "presence_of"]

_ZERO: Final = 1e-6  # of the largest row: less is rounding
_STEPS: Final = 30  # of the mixture's fit


@dataclass(frozen=True)
class Tokens:
    """A token that no record holds leaves its row of the embedding's gradient at zero.

    Under noise of deviation s a row of d known entries is N(0, s² I) where its token is absent
    and N(0, (s² + t²) I) where it is present; t and the share of present tokens are fitted to all
    rows by EM, and tell how probable it is that a token was there. Neither order nor sentences
    are found: a candidate set is decided by the share of a candidate's tokens that were there.
    """

    name: ClassVar[str] = "tokens"
    knows: ClassVar[KnowledgeLevel] = "nothing"

    @staticmethod
    def applies(task: Task, spec: InputSpec) -> bool:
        """Whether the model has a trained table of tokens that is used for nothing else."""
        return spec.vocabulary is not None and _table(task, spec) is not None

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        view = common_view(views)
        spec, place = view.input_spec, _table(view.task, view.input_spec)
        if spec.vocabulary is None or place is None:
            raise InvalidInput(
                f"the attack {self.name!r} reads the rows of a trained embedding that looks up "
                f"tokens and does nothing else, which this {type(view.task.model).__name__} has "
                f"not; attack with 'gaussian-posterior'."
            )
        units = ViewTensors.of(views, "double")
        where, table = place
        rows = units.update[:, where].reshape(len(units), table.num_embeddings, -1)
        known = units.known[:, where].reshape(rows.shape)
        presence = torch.stack(
            [presence_of(*group) for group in zip(rows, known, units.noise.tolist(), strict=True)]
        )
        if table.padding_idx is not None:
            presence[:, table.padding_idx] = 1.0  # is never trained, and tells nothing
        failed = ~torch.isfinite(rows).flatten(1).all(1)
        presence[failed] = 0.5
        loss = torch.zeros(len(units), device=rows.device)
        return Reconstructions(
            _likeliest(presence, view),
            None,
            loss,
            failed,
            tokens=presence,
        )


def _table(task: Task, spec: InputSpec) -> tuple[slice, torch.nn.Embedding] | None:
    """Where the gradient of the table that looks up tokens lies in the update, and the table."""
    slices, model = tensor_slices(task), task.model
    shared: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            shared[id(parameter)] = shared.get(id(parameter), 0) + 1
    for prefix, module in model.named_modules():
        name = f"{prefix}.weight".lstrip(".")
        if not isinstance(module, torch.nn.Embedding) or name not in slices:
            continue
        if module.num_embeddings >= (spec.vocabulary or 0) and shared[id(module.weight)] == 1:
            return slices[name], module
    return None


def presence_of(rows: torch.Tensor, known: torch.Tensor, noise: float) -> torch.Tensor:
    """How probable it is that each token [V] was there, of rows [V, d] read where known."""
    energy, size = rows.square().sum(1), known.sum(1)
    if noise == 0:
        there = energy.sqrt() > _ZERO * energy.max().sqrt()
        return torch.where(size > 0, there.to(rows), 0.5)
    absent = noise**2
    share, present = 0.1, max(float(energy.max() / size.clamp(min=1).max()), 2 * absent)
    for _ in range(_STEPS):
        odds = 0.5 * energy * (1 / absent - 1 / present) - 0.5 * size * torch.log(
            torch.tensor(present / absent)
        )
        there = torch.sigmoid(odds + torch.logit(torch.tensor(share).to(odds)))
        share = min(max(float(there.mean()), 1e-3), 0.9)
        total = float((there * size).sum())
        present = max(float((there * energy).sum()) / max(total, 1e-9), 1.01 * absent)
    return there


def _likeliest(presence: torch.Tensor, view: View) -> torch.Tensor:
    """The likeliest tokens, to be shown: [U, S, *shape], in no order and without repetition."""
    spec = view.input_spec
    count = view.records * spec.size
    order = presence.argsort(dim=1, descending=True, stable=True)
    order = order[:, torch.arange(count, device=order.device) % order.shape[1]]
    order = torch.where(presence.gather(1, order) < 0.5, order[:, :1], order)
    found: torch.Tensor = order.reshape(len(presence), view.records, *spec.shape)
    return found
