"""Sentences of a small grammar and a transformer that sorts them: nothing to download."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.entropy import Seeded
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.records import Records
from trilemma.scenarios.partition import partition

__all__ = ["Reader", "sentences", "text"]

_WARDS: Final = ("cardiology", "surgery", "neurology", "oncology")
_SHARED: Final = (
    *("the", "a", "of", "in", "on", "at", "with", "after", "before", "for", "was", "is", "has"),
    *("had", "and", "no", "since", "his", "her", "their", "patient", "woman", "man", "child"),
    *("doctor", "nurse", "team", "today", "yesterday", "twice", "daily", "again", "mild"),
    *("severe", "stable", "new", "old", "left", "right", "three", "seven", "ten"),
)
_OWN: Final = 90  # words of each ward, made of syllables
_LENGTH: Final = 12
_RECORDS: Final = 1200
_TEST: Final = 200
_WIDTH: Final = 64
_SYLLABLES: Final = (
    *("ca", "di", "lor", "mu", "ne", "pha", "quin", "ros", "tal"),
    *("ve", "xi", "zor", "ben", "gal", "hy", "jor", "kep"),
)


def text(
    *, clients: int = 4, batch: int = 8, alpha: float | None = None, seed: int = 0
) -> Scenario:
    """1,000 notes of 12 words over `clients` clients, and which of four wards wrote them.

    A transformer of one layer (m = 93,252); a word is a token of its own.
    """
    words, records = sentences(_RECORDS, seed=seed)
    train, test = records[torch.arange(_TEST, _RECORDS)], records[torch.arange(_TEST)]
    return Scenario(
        model=Reader(len(words), _LENGTH, len(_WARDS)),
        loss=cross_entropy,
        clients=partition(train, clients, alpha=alpha, minimum=batch, seed=seed),
        test=test,
        local_training=LocalTraining("fedsgd", lr=0.1, batch=batch),
        name="text",
        words=words,
        show_records=True,
        server_lr=0.4,
        server_decay=True,
        rounds=60,
    )


def sentences(count: int, *, seed: int) -> tuple[tuple[str, ...], Records]:
    """A vocabulary, and `count` notes as tokens [count, 12] with their wards.

    A note alternates small words, which all wards share, with words of its ward, the more often
    the lower their number; one in five comes from another ward.
    """
    draw = Seeded(seed).generator("grammar")
    own: dict[str, list[str]] = {}
    made = {*_SHARED}
    for ward in _WARDS:
        own[ward] = []
        while len(own[ward]) < _OWN:
            word = "".join(draw.choice(_SYLLABLES, size=int(draw.integers(2, 4))).tolist())
            if word not in made:
                made.add(word)
                own[ward].append(word)
    words = (*_SHARED, *(word for ward in _WARDS for word in own[ward]))
    place = {word: number for number, word in enumerate(words)}
    rank = 1 / (np.arange(_OWN) + 5.0)
    wards = draw.integers(len(_WARDS), size=count)
    notes = np.empty((count, _LENGTH), dtype=np.int64)
    for note, ward in zip(notes, wards, strict=True):
        for at in range(_LENGTH):
            if at % 2 == 0:
                note[at] = draw.integers(len(_SHARED))
                continue
            strays = draw.random() < 0.2
            said = int(draw.integers(len(_WARDS))) if strays else int(ward)
            note[at] = place[own[_WARDS[said]][int(draw.choice(_OWN, p=rank / rank.sum()))]]
    return words, Records(torch.from_numpy(notes), torch.from_numpy(wards))


class Reader(nn.Module):
    """Embeddings of tokens and of their places, one layer of attention, the mean, the classes."""

    def __init__(self, vocabulary: int, length: int, classes: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, _WIDTH)
        self.place = nn.Embedding(length, _WIDTH)
        self.attention = nn.MultiheadAttention(_WIDTH, 4, batch_first=True)
        self.first = nn.LayerNorm(_WIDTH)
        self.second = nn.LayerNorm(_WIDTH)
        self.wide = nn.Linear(_WIDTH, 6 * _WIDTH)
        self.narrow = nn.Linear(6 * _WIDTH, _WIDTH)
        self.head = nn.Linear(_WIDTH, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [B, T] -> scores [B, classes]."""
        h = self.token(tokens) + self.place.weight
        inner = self.first(h)
        h = h + self.attention(inner, inner, inner, need_weights=False)[0]
        h = h + self.narrow(torch.relu(self.wide(self.second(h))))
        scores: torch.Tensor = self.head(h.mean(1))
        return scores
