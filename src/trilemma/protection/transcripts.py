"""What is left of a round: its messages, what was released, what one client knows of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transports.wire import SERVER

__all__ = ["Message", "OwnUpdate", "Released", "RoundResult", "Seconds", "Transcript"]


@dataclass(frozen=True)
class Released:
    """The weighted mean [m] of the clients that took part to the end.

    `known` are the coordinates that some client of the round was to send, as everyone can tell
    (None: all of them). `saturated` is the share of them that lay beyond the transport's range
    and were moved to its edge, on the clients' weighted average.
    """

    mean: torch.Tensor
    clients: tuple[int, ...]
    weight: int
    known: torch.Tensor | None = None
    saturated: float = 0.0


@dataclass(frozen=True)
class Message:
    """One message on the wire, at a step of the round; the server's number is `wire.SERVER`."""

    step: int
    sender: int
    receiver: int
    body: bytes


@dataclass(frozen=True)
class OwnUpdate:
    """What a curious client knows it added to the sum."""

    client: int
    values: torch.Tensor
    weight: int


@dataclass(frozen=True)
class Transcript:
    """Everything that was sent in a round, what was released, and a curious client's own part.

    `weights` are those of the clients in `released`. An adversary is granted them even where the
    transport hides them: record counts are easily guessed.
    """

    round: RoundInfo
    size: int
    messages: tuple[Message, ...]
    released: Released
    weights: tuple[int, ...]
    own: OwnUpdate | None = None

    @property
    def bits_up(self) -> int:
        """Bits that all clients sent."""
        return 8 * sum(len(message.body) for message in self.messages if message.sender != SERVER)

    @property
    def bits_down(self) -> int:
        """Bits that the server sent."""
        return 8 * sum(len(message.body) for message in self.messages if message.sender == SERVER)


@dataclass(frozen=True)
class Seconds:
    """Work of a round whose clients work at once: a step lasts the mean over its clients.

    CPU seconds; wall seconds where the updates lie on a GPU.

    protect: clients, until their updates have left; combine: the server; finish: clients after
    that (opening or unmasking the sum).
    """

    protect: float
    combine: float
    finish: float


@dataclass(frozen=True)
class RoundResult:
    """The mean [m], the transcript of how it came about, and what it took."""

    mean: torch.Tensor
    transcript: Transcript
    seconds: Seconds
