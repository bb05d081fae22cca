"""Easy controls for attacks: unprotected updates of single records, of each kind of record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from trilemma.attacks.base import Knowledge, Reconstructions, View
from trilemma.entropy import Seeded
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.observations import Observation
from trilemma.records.columns import Column, column_hits
from trilemma.records.range import InputSpec
from trilemma.records.records import Records

__all__ = ["Control", "Kind"]

Kind = Literal["numbers", "table", "text", "sentences"]

_CLASSES = 4
_PSNR = 20.0  # dB at which a record of numbers counts as recovered
_COLUMNS = 0.8  # of a table's
_VOCABULARY, _WORDS, _WIDE = 40, 6, 24
_LEVELS = (2, 4)  # of a table's categories, behind ten numbers


@dataclass(frozen=True, eq=False)
class Control:
    """Views of one record each, with the knowledge of every knowledge, and the records' inputs."""

    kind: Kind
    views: list[View]
    inputs: torch.Tensor

    @classmethod
    def of(cls, kind: Kind, units: int, seed: int) -> Control:
        """A candidate set of all units' records, as many public ones, and the rest.

        A sigmoid network of 16 inputs; for text an embedding of 40 words, and their mean; for
        sentences a causal attention over such words and their places.
        """
        spec = _spec(kind)
        task = Task(_model(kind), nn.functional.cross_entropy, _CLASSES)
        candidate_set = _records(kind, units, seed)
        public = _records(kind, max(units, 4), seed + 1)
        knowledge = Knowledge(
            public, candidate_set, public, candidate_set[torch.zeros(1, dtype=torch.long)]
        )
        training = LocalTraining()
        views = []
        for unit in range(units):
            generator = Seeded(seed).torch_generator("weights", unit)
            weights = torch.rand(task.layout.size, generator=generator, dtype=torch.float64) - 0.5
            own = candidate_set[torch.tensor([unit])]
            update = client_update(task, weights, own.inputs, own.labels, training)
            views.append(View(task, weights, Observation(update), training, spec, knowledge))
        return cls(kind, views, candidate_set.inputs)

    def recovered(self, found: Reconstructions) -> float:
        """The share of units whose record was found: 20 dB, 80 % of columns, or every word."""
        made = found.inputs[:, 0]
        if self.kind == "numbers":
            mse = (made - self.inputs).square().flatten(1).mean(1)
            right = mse < 10 ** (-_PSNR / 10)
        elif self.kind == "table":
            hits = column_hits(self.views[0].input_spec.columns, made, self.inputs)
            right = hits.double().mean(1) >= _COLUMNS
        elif found.tokens is not None:
            right = (found.tokens.gather(1, self.inputs) > 0.5).all(1)
        else:
            right = (made == self.inputs).all(1)
        return float(right.double().mean())


def _spec(kind: Kind) -> InputSpec:
    if kind in ("text", "sentences"):
        return InputSpec((_WORDS,), 0.0, _VOCABULARY - 1.0, vocabulary=_VOCABULARY)
    numbers = [
        Column(f"number {k}", mean=0.5, deviation=0.29, low=0.0, high=1.0) for k in range(10)
    ]
    levels = [tuple(f"level {k}" for k in range(count)) for count in _LEVELS]
    categories = [
        Column(f"category of {len(level)}", "category", level, low=0.0, high=1.0)
        for level in levels
    ]
    return InputSpec((16,), 0.0, 1.0, (*numbers, *categories) if kind == "table" else ())


def _model(kind: Kind) -> nn.Module:
    if kind == "text":
        return _Words()
    if kind == "sentences":
        return _Sentences()
    return nn.Sequential(nn.Linear(16, 24), nn.Sigmoid(), nn.Linear(24, _CLASSES))


class _Words(nn.Module):
    """The mean of the words' vectors, and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_VOCABULARY, 8)
        self.head = nn.Linear(8, _CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [B, T] -> scores [B, classes]."""
        scores: torch.Tensor = self.head(self.words(tokens).mean(1))
        return scores


class _Sentences(nn.Module):
    """Two causal attentions over words and their places, and classes of the last."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(_VOCABULARY, _WIDE), nn.Embedding(_WORDS, _WIDE)
        self.keys = nn.ModuleList([nn.Linear(_WIDE, 3 * _WIDE) for _ in range(2)])
        self.head = nn.Linear(_WIDE, _CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [B, T] -> scores [B, classes]."""
        x = self.words(tokens) + self.places.weight
        behind = torch.ones(_WORDS, _WORDS, dtype=torch.bool, device=x.device).triu(1)
        for keys in self.keys:
            queries, held, values = keys(x).chunk(3, -1)
            weights = (queries @ held.mT / _WIDE**0.5).masked_fill(behind, -torch.inf).softmax(-1)
            x = x + weights @ values
        scores: torch.Tensor = self.head(x[:, -1])
        return scores


def _records(kind: Kind, count: int, seed: int) -> Records:
    """Inputs [count, 16] or tokens [count, 6], and labels [count]."""
    source = Seeded(seed)
    draw = source.torch_generator("inputs")
    labels = torch.randint(0, _CLASSES, (count,), generator=source.torch_generator("labels"))
    if kind in ("text", "sentences"):
        return Records(torch.randint(0, _VOCABULARY, (count, _WORDS), generator=draw), labels)
    inputs = torch.rand(count, 16, generator=draw, dtype=torch.float64)
    if kind == "table":
        for places in torch.split(torch.arange(10, 16), list(_LEVELS)):
            level = inputs[:, places].argmax(1)
            inputs[:, places] = nn.functional.one_hot(level, len(places)).to(inputs)
    return Records(inputs, labels)
