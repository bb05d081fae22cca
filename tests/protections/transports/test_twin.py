"""The twin of a cryptographic transport: the same grid, range and threshold, no secrecy."""

from __future__ import annotations

import pytest
import torch

from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, TooFewClients
from trilemma.protections.protection import Protection
from trilemma.protections.round_info import RoundInfo
from trilemma.protections.rounds import run_round
from trilemma.protections.sessions import ProtectedClient, ProtectedServer
from trilemma.protections.transports.paillier import Paillier
from trilemma.protections.transports.plain import Plain
from trilemma.protections.transports.secret_sharing.transport import SecretSharing

TWIN = Protection((), SecretSharing().twin())


def test_a_twin_has_the_grid_and_the_readers_of_its_original() -> None:
    for original in (
        SecretSharing(clip_range=3.0, precision_bits=20, max_weight=50),
        Paillier(mode="blind", clip_range=0.5),
    ):
        twin = original.twin()
        assert twin.fixed == original.fixed
        assert twin.server_reads == original.server_reads
        assert twin.twin() == twin
    assert Plain().twin() == Plain()


def test_the_twin_keeps_the_threshold_and_one_shape() -> None:
    round = RoundInfo.new(range(3), Seeded(0))
    with pytest.raises(TooFewClients, match="fewer than its threshold of 3"):
        run_round(TWIN, [torch.zeros(2)] * 3, None, round, drops={0: 0}, entropy=Seeded(0))
    server = ProtectedServer.start(TWIN, round, 2).session
    replies = {
        client: ProtectedClient.start(TWIN, client, round, size).step(b"", torch.zeros(size))
        for client, size in enumerate((2, 2, 3))
    }
    sent = {client: reply for client, reply in replies.items() if isinstance(reply, bytes)}
    with pytest.raises(InvalidInput, match="unlike sizes"):
        server.step(sent)


def test_the_twin_cannot_leave_its_process() -> None:
    round = RoundInfo.new(range(3), Seeded(0))
    with pytest.raises(InvalidInput, match="one process"):
        ProtectedClient.start(TWIN, 0, round, 2).export()
    with pytest.raises(InvalidInput, match="one process"):
        TWIN.transport.restore(b"", round, None, System())
