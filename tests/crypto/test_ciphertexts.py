from __future__ import annotations

from typing import TYPE_CHECKING

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.crypto.ciphertexts import HEADER_BYTES, Ciphertexts
from trilemma.entropy import System
from trilemma.errors import ForeignCiphertext, InvalidInput

if TYPE_CHECKING:
    from trilemma.crypto.paillier import PrivateKey, PublicKey


def vector(key: PublicKey, *words: int) -> Ciphertexts:
    made = tuple(gmpy2.mpz(word) for word in words)
    return Ciphertexts(made, 1, key.fingerprint, key.ciphertext_bytes)


def test_the_wire_carries_exactly_the_stated_bytes(real: PrivateKey) -> None:
    encrypted = real.encrypt([1, 2, 3], System())
    message = encrypted.to_bytes()
    assert len(message) == HEADER_BYTES + 3 * real.public.ciphertext_bytes
    assert real.public.ciphertext_bytes == 512
    assert real.public.receive(message) == encrypted


def test_malformed_messages_are_refused(small: PrivateKey) -> None:
    public = small.public
    message = small.encrypt([1, 2], System()).to_bytes()
    with pytest.raises(ForeignCiphertext, match="not a Paillier vector"):
        public.receive(b"junk")
    with pytest.raises(ForeignCiphertext, match="cut or altered"):
        public.receive(message[:-1])
    with pytest.raises(ForeignCiphertext, match="0 summands"):
        public.receive(message[:24] + bytes(4) + message[28:])
    p, _, _ = small.reveal()
    for bad in (0, public.n**2, public.n**2 + 1):
        with pytest.raises(ForeignCiphertext, match="outside"):
            public.receive(vector(public, 5, bad).to_bytes())
    for bad in (p, public.n, 3 * p):
        with pytest.raises(ForeignCiphertext, match="shares a factor"):
            public.receive(vector(public, 5, bad, 7).to_bytes())


@pytest.mark.parametrize("summands", [0, -1, 1 << 32])
def test_impossible_numbers_of_summands_are_refused(summands: int, small: PrivateKey) -> None:
    with pytest.raises(InvalidInput, match="summands must lie in"):
        Ciphertexts((), summands, small.public.fingerprint, 64)


@given(
    start=st.sampled_from([b"", b"TPC1", b"TPC1" + bytes(16), b"TPC1" + bytes(20) + b"\1\0\0\0"]),
    rest=st.binary(max_size=120),
)
def test_any_bytes_are_a_vector_that_round_trips_or_refused(start: bytes, rest: bytes) -> None:
    try:
        found = Ciphertexts.from_bytes(start + rest)
    except InvalidInput:
        return
    assert found.to_bytes() == start + rest


@given(
    width=st.sampled_from([0, 1, 2, 64, (1 << 32) - 1]),
    summands=st.integers(0, (1 << 32) - 1),
    count=st.one_of(st.integers(0, 3), st.integers(0, (1 << 64) - 1)),
    body=st.binary(max_size=130),
    exact=st.booleans(),
)
def test_any_header_is_a_vector_that_round_trips_or_refused(
    width: int, summands: int, count: int, body: bytes, exact: bool, small: PrivateKey
) -> None:
    numbers = width.to_bytes(4, "little") + summands.to_bytes(4, "little")
    if exact:  # a header that fits its body, so that most are read
        count = len(body) // width if width else count % 4
        body = body[: count * width]
    message = b"TPC1" + small.public.fingerprint + numbers + count.to_bytes(8, "little") + body
    try:
        found = Ciphertexts.from_bytes(message)
    except InvalidInput:
        assert not summands or len(body) != count * width or not width
        return
    assert (found.summands, found.width, len(found.words)) == (summands, width, count)
    assert found.to_bytes() == message
    try:
        received = small.public.receive(message)
    except InvalidInput:
        return
    assert len(small.decrypt(received)) == count


@given(place=st.integers(0, HEADER_BYTES + 2 * 64 - 1), bit=st.integers(0, 7), cut=st.booleans())
def test_damaged_messages_are_other_ciphertexts_or_refused(
    place: int, bit: int, cut: bool, small: PrivateKey
) -> None:
    message = bytearray(vector(small.public, 5, 7).to_bytes())
    message[place] ^= 1 << bit
    try:
        received = small.public.receive(bytes(message[:place] if cut else message))
    except InvalidInput:
        return
    assert not cut
    assert place >= 24  # the form and the key are checked; a count and a ciphertext are believed
    assert received.to_bytes() == bytes(message)
