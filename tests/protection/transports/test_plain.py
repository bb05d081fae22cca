"""The plain transport: what was altered is named, and a stage is answered once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.protection.five import a_round

from trilemma.errors import (
    ProtocolViolation,
    TrilemmaError,
)
from trilemma.protection.protection import Protection
from trilemma.protection.sessions import ProtectedClient, ProtectedServer


def test_plain_messages_that_were_altered_are_named() -> None:
    info = a_round()
    made = {c: ProtectedClient.start(Protection(), c, info, 4) for c in range(3)}
    replies: dict[int, Any] = {
        c: value.step(b"", torch.full((4,), float(c))) for c, value in made.items()
    }
    with pytest.raises(ProtocolViolation, match="each stage is answered once"):
        made[0].step(b"", torch.zeros(4))
    for forged, why in (
        (replies[0][:40], "cut short"),
        (replies[0][:-1], "whole numbers"),
        (replies[1], "must send 'PLN' now, got 'PLN' of sender 1"),
        (replies[0][:-4], "all must train the same model"),
    ):
        with pytest.raises(TrilemmaError, match=why):
            ProtectedServer.start(Protection(), info, 4).step({**replies, 0: forged})
    other: Any = ProtectedClient.start(Protection(), 0, a_round(number=1), 4)
    replies[0] = other.step(b"", torch.zeros(4))
    with pytest.raises(ProtocolViolation, match="another round"):
        ProtectedServer.start(Protection(), info, 4).step(replies)
    state = made[0].export()
    with pytest.raises(ProtocolViolation, match="answered once"):
        ProtectedClient.start(Protection(), 0, info, 4, state=state).step(b"", torch.zeros(4))
