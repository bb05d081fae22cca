"""Paillier on more than one core: fresh processes that are handed the key once, as bytes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final

from gmpy2 import mpz

from trilemma.crypto.ciphertexts import Ciphertexts
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.crypto.sealed import Sealed
from trilemma.entropy import System
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Workers"]

_CHUNK: Final = 256  # words a task: a tenth of a second at 2048 bits


class Workers(Sealed):
    """Processes that encrypt and decrypt large updates under one key.

    They are spawned, not forked, so they inherit no secret but the key; each builds its own
    tables, which pays from some thousand ciphertexts on. Use it in a `with` statement, and in a
    script under `if __name__ == "__main__":`.
    """

    def __init__(self, key: PublicKey | PrivateKey, processes: int) -> None:
        if processes < 1:
            raise InvalidInput(f"processes must be at least 1, got {processes}.")
        self._private: Final = isinstance(key, PrivateKey)
        self._public: Final = key.public if isinstance(key, PrivateKey) else key
        numbers = key.reveal() if isinstance(key, PrivateKey) else (key.n, key.h)
        self._pool: Final = ProcessPoolExecutor(
            processes,
            multiprocessing.get_context("spawn"),
            _start,
            ([_to_bytes(number) for number in numbers], self._public.insecure),
        )

    def encrypt(self, words: Sequence[int]) -> Ciphertexts:
        """As the key's `encrypt`, with the system's entropy in every worker."""
        self._public.check_words(words)
        chunks = [
            [_to_bytes(int(word)) for word in words[start : start + _CHUNK]]
            for start in range(0, len(words), _CHUNK)
        ]
        made = [self._public.receive(part) for part in self._pool.map(_encrypt, chunks)]
        joined = tuple(word for part in made for word in part.words)
        return Ciphertexts(joined, 1, self._public.fingerprint, self._public.ciphertext_bytes)

    def decrypt(self, vector: Ciphertexts) -> list[mpz]:
        """As the private key's `decrypt`."""
        if not self._private:
            raise InvalidInput(
                "these workers hold a public key; decrypting needs the private one."
            )
        self._public.check(vector)
        chunks = [
            replace(vector, words=vector.words[start : start + _CHUNK]).to_bytes()
            for start in range(0, len(vector.words), _CHUNK)
        ]
        return [_to_mpz(word) for part in self._pool.map(_decrypt, chunks) for word in part]

    def close(self) -> None:
        """Ends the processes, and with them their copies of the key."""
        self._pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_key: PublicKey | PrivateKey  # of a worker process


def _start(numbers: list[bytes], insecure: bool) -> None:
    global _key
    key = [int(_to_mpz(number)) for number in numbers]
    if len(key) == 3:
        _key = PrivateKey(*key, insecure=insecure)
    else:
        n, h = key
        _key = PublicKey(n, h, insecure)


def _encrypt(words: list[bytes]) -> bytes:
    return _key.encrypt([_to_mpz(word) for word in words], System()).to_bytes()


def _decrypt(message: bytes) -> list[bytes]:
    if not isinstance(_key, PrivateKey):
        raise InvalidInput("this worker holds a public key; decrypting needs the private one.")
    return [_to_bytes(int(word)) for word in _key.decrypt(Ciphertexts.from_bytes(message))]


def _to_bytes(number: int) -> bytes:
    return number.to_bytes(-(-number.bit_length() // 8), "little")


def _to_mpz(data: bytes) -> mpz:
    return mpz(int.from_bytes(data, "little"))
