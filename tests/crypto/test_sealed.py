from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from trilemma.crypto.masking import KeyPair, Seed
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.crypto.shamir import Share
from trilemma.entropy import System
from trilemma.errors import SecretExposure

if TYPE_CHECKING:
    from trilemma.crypto.sealed import Sealed


@pytest.fixture
def secrets(small: PrivateKey) -> list[tuple[Sealed, list[int]]]:
    p, q, _ = small.reveal()
    seed, pair = Seed.generate(System()), KeyPair.generate(System())
    return [
        (small, [p, q]),
        (seed, [int.from_bytes(seed.reveal(), "big")]),
        (pair, [int.from_bytes(pair.reveal(), "big")]),
        (Share(1, 123456789), [123456789]),
        (small._tables[0], [p]),
    ]


@pytest.mark.parametrize(
    "show",
    [repr, str, "{}".format, lambda s: f"{[s]} {{'key': {s!r}}}"],
)
def test_secrets_show_nothing(
    secrets: list[tuple[Sealed, list[int]]], show: Callable[[object], str]
) -> None:
    for secret, numbers in secrets:
        text = show(secret)
        assert type(secret).__name__ in text
        assert "hidden" in text
        for number in numbers:
            assert str(number) not in text
            assert f"{number:x}" not in text


def test_logs_show_nothing(
    secrets: list[tuple[Sealed, list[int]]], caplog: pytest.LogCaptureFixture
) -> None:
    for secret, numbers in secrets:
        logging.getLogger("test").warning("holding %s and %r", secret, [secret])
        assert not any(str(n) in caplog.text or f"{n:x}" in caplog.text for n in numbers)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_secrets_refuse_to_be_pickled(
    secrets: list[tuple[Sealed, list[int]]], protocol: int
) -> None:
    for secret, _ in secrets:
        for wrapped in (secret, [secret], {"key": secret}):
            with pytest.raises(SecretExposure, match="refuses to be pickled"):
                pickle.dumps(wrapped, protocol)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: s.__getstate__()])
def test_secrets_refuse_to_be_copied(
    secrets: list[tuple[Sealed, list[int]]], duplicate: Callable[[object], object]
) -> None:
    for secret, _ in secrets:
        with pytest.raises(SecretExposure):
            duplicate(secret)


def test_public_keys_travel_without_their_tables(small: PrivateKey) -> None:
    public = PublicKey(small.public.n, small.public.h, insecure=True)
    bare = len(pickle.dumps(public))
    public.encrypt([1], System())
    assert len(pickle.dumps(public)) == bare
    assert pickle.loads(pickle.dumps(public)) == public
    assert str(public.n) not in repr(public)
