"""What attackers know, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trilemma.tuning.request import Knows

__all__ = ["KNOWS", "WHAT_IS_KNOWN"]

WHAT_IS_KNOWN: Final[dict[Knows, str]] = {
    "nothing": "nothing",
    "public": "public records",
    "candidates": "the candidates",
    "rest": "the rest",
    "anyone": "anyone",
}
KNOWS: Final[dict[Knows, str]] = {
    "nothing": "the model, the protocol and the messages",
    "public": "besides, records of the same kind that belong to no client",
    "candidates": "besides, the candidate set itself",
    "rest": "besides, every other record of every client, and which of them each round used",
    "anyone": "whatever there is to know: no attack, a proof",
}
