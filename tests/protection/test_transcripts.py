"""Bits of a round, by who sent them."""

from __future__ import annotations

import torch

from trilemma.protection.round_info import RoundInfo
from trilemma.protection.transcripts import Message, Released, Transcript
from trilemma.protection.transports.wire import SERVER


def test_bits_are_counted_by_sender() -> None:
    messages = (
        Message(0, 0, SERVER, b"12345"), Message(0, 1, SERVER, b"123"),
        Message(1, SERVER, 0, b"1234567"),
    )  # fmt: skip
    released = Released(torch.zeros(2), (0, 1), 2)
    made = Transcript(RoundInfo("run", 0, (0, 1), 1, 0), 2, messages, released, (1, 1))
    assert (made.bits_up, made.bits_down) == (64, 56)
