from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trilemma.crypto.workers import Workers
from trilemma.entropy import System
from trilemma.errors import ForeignCiphertext, InvalidInput

if TYPE_CHECKING:
    from trilemma.crypto.paillier import PrivateKey


def test_workers_encrypt_and_decrypt_in_order(small: PrivateKey) -> None:
    words = [7 * i for i in range(600)]
    with Workers(small, processes=2) as workers:
        encrypted = workers.encrypt(words)
        assert small.decrypt(encrypted) == words
        assert workers.decrypt(small.public.encrypt(words, System())) == words
        assert workers.decrypt(workers.encrypt([])) == []
        with pytest.raises(InvalidInput, match="plaintext 0"):
            workers.encrypt([-1])
    assert len(set(encrypted.words)) == len(words)


def test_workers_with_the_public_key_cannot_decrypt(small: PrivateKey) -> None:
    with Workers(small.public, processes=1) as workers:
        encrypted = workers.encrypt([3, 4])
        assert small.decrypt(encrypted) == [3, 4]
        with pytest.raises(InvalidInput, match="needs the private one"):
            workers.decrypt(encrypted)


def test_workers_refuse_bad_arguments(small: PrivateKey, real: PrivateKey) -> None:
    with pytest.raises(InvalidInput, match="processes"):
        Workers(small, processes=0)
    with Workers(small, processes=1) as workers, pytest.raises(ForeignCiphertext):
        workers.decrypt(real.encrypt([1], System()))
