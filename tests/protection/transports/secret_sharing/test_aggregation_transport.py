"""Secure aggregation as a whole: every dropout, what a masked update looks like, refusals."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.protection.transports.secret_sharing.lying import true_mean
from tests.protection.transports.secret_sharing.playing import (
    SHARING,
    a_round,
    open_clients,
    payload,
    play,
)

from trilemma.entropy import Seeded, System
from trilemma.errors import (
    InvalidInput,
    ProtocolViolation,
)
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.transports.base import Aggregate, Payload
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import HEADER_BYTES


def check_pattern(pattern: tuple[int, ...]) -> bool:
    """Whether the round ended with a sum, which must be that of integer arithmetic."""
    drops = {client: step for client, step in enumerate(pattern) if step < 4}
    outcome, _ = play(a_round(), drops)
    alive = [sum(step > stage for step in pattern) for stage in range(4)]
    if min(alive) < 3:
        assert outcome is None
        return False
    assert outcome is not None
    survivors = tuple(c for c, step in enumerate(pattern) if step > 2)
    assert outcome.clients == survivors
    assert outcome.weight == sum(c + 1 for c in survivors)
    units = sum(
        (c + 1) * np.rint(payload(c).values / SHARING.step_size()).astype(object)
        for c in survivors
    )
    exact = np.array(units, dtype=np.float64) * SHARING.step_size() / outcome.weight
    np.testing.assert_allclose(outcome.mean, exact, rtol=1e-14, atol=1e-300)
    return True


def test_every_pattern_of_dropouts_at_every_step() -> None:
    """Five clients, threshold three, each silent from step 0, 1, 2 or 3 on, or never."""
    ended = Counter(check_pattern(pattern) for pattern in itertools.product(range(5), repeat=5))
    # A sum needs three clients that stay to the end: C(5,3)·4² + C(5,4)·4 + 1 of 5⁵ patterns.
    assert ended == {True: 181, False: 2944}


@pytest.mark.parametrize("step", range(6))
def test_pinned_clients_that_drop_out_are_survived_but_for_those_who_shared_nothing(
    step: int,
) -> None:
    info = a_round(4, 3)
    outcome, sent = play(info, {3: step}, who=Identity.pinned(info.participants, System()))
    if step == 1:
        assert outcome is None
        return
    assert outcome is not None
    left = (0, 1, 2) if step < 3 else (0, 1, 2, 3)
    assert outcome.clients == left
    np.testing.assert_allclose(outcome.mean, true_mean(left), atol=SHARING.step_size())
    there, lists = (3 if step == 0 else 4), ([64] if step == 2 else [])  # signed once more
    expected = [128, (there - 1) * 180, 64 + 16, *lists, there * 84]
    assert [len(item) - HEADER_BYTES for item in sent[0]] == expected


def masked_words(number: int, values: float, size: int = 4000) -> np.ndarray[Any, Any]:
    info = a_round(3, 2, number)
    clients, server = open_clients(info), SHARING.server(info)
    keys = server.step({c: clients[c].step(b"") for c in clients})
    assert not isinstance(keys, Aggregate)
    boxes = server.step({c: clients[c].step(keys[c]) for c in clients})
    assert not isinstance(boxes, Aggregate)
    sent = clients[0].step(boxes[0], Payload(np.full(size, values), 1))
    assert isinstance(sent, bytes)
    return np.frombuffer(sent[HEADER_BYTES:], "<u4")


@pytest.mark.parametrize("values", [0.0, 1.0, -0.3])
def test_a_single_masked_update_is_uniform_whatever_the_update(values: float) -> None:
    words = np.concatenate([masked_words(number, values) for number in range(5)])
    for shift in (0, 24):  # the lowest and the highest byte of each word
        counts = np.bincount((words >> shift) & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6


def test_two_rounds_of_the_same_update_share_no_mask() -> None:
    first, second = masked_words(0, 0.25), masked_words(1, 0.25)
    again = masked_words(0, 0.25)  # fresh keys even where run and number repeat
    for other in (second, again):
        # Equal masks would give a constant difference; independent ones agree by accident only.
        assert len(np.unique(first - other)) > 0.99 * len(first)


def test_a_masked_update_takes_four_bytes_a_parameter() -> None:
    _, sent = play(a_round(), {}, size=1000)
    assert len(sent[0][2]) == HEADER_BYTES + 4 * 1001


def test_clients_with_unlike_settings_cannot_be_summed() -> None:
    info = a_round(3, 2)
    finer = SecretSharing(clip_range=1.0, precision_bits=12)
    adverts = {
        0: SHARING.client(0, info, None, System()).step(b""),
        1: finer.client(1, info, None, System()).step(b""),
        2: SHARING.client(2, info, None, System()).step(b""),
    }
    with pytest.raises(ProtocolViolation, match="the settings differ"):
        SHARING.server(info).step(adverts)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_threshold_of_half_or_less_is_refused(threshold: int) -> None:
    info = a_round(4, threshold)
    for make in (lambda: SHARING.server(info), lambda: SHARING.client(0, info, None, System())):
        with pytest.raises(InvalidInput, match="above half of the 4 clients"):
            make()


def test_a_threshold_above_all_clients_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"1 .. 4"):
        a_round(4, 5)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"clip_range": 0.0}, "clip_range"),
        ({"ring_bits": 48}, "32 or 64"),
        ({"precision_bits": 40}, "bits"),
        ({"max_weight": 10**6}, "wrap round"),
        ({"corrupt": 1.0}, r"corrupt .* must lie in 0 .. 1, below 1, got 1"),
        ({"corrupt": -0.1}, r"corrupt .* got -0.1"),
        ({"corrupt": float("nan")}, "corrupt"),
    ],
)
def test_impossible_transports_are_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        SecretSharing(**settings)


def test_sixty_four_bits_carry_large_weights() -> None:
    wide = Protection((), SecretSharing(ring_bits=64, precision_bits=24, max_weight=10**9))
    info = RoundInfo.new(range(3), Seeded(0))
    updates = torch.rand((3, 50), generator=torch.Generator().manual_seed(1)).double() * 2 - 1
    weights = [10**8, 3, 7 * 10**8]
    mean = run_round(wide, updates, weights, info).mean
    exact = sum(w * u for w, u in zip(weights, updates, strict=True)) / sum(weights)
    assert torch.allclose(mean, torch.as_tensor(exact), atol=wide.transport.step_size() / 2)
