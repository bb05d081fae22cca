from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.crypto.keyfiles import load_private, load_public, save_private, save_public
from trilemma.entropy import System
from trilemma.errors import InvalidInput, WeakKey

if TYPE_CHECKING:
    from trilemma.crypto.paillier import PrivateKey


def test_keys_survive_the_disk(small: PrivateKey, tmp_path: Path) -> None:
    save_private(small, tmp_path / "key")
    save_public(small.public, tmp_path / "key.pub")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    public = load_public(tmp_path / "key.pub", insecure=True)
    assert public == small.public
    private = load_private(tmp_path / "key", insecure=True)
    assert private.reveal() == small.reveal()
    assert private.decrypt(public.encrypt([42], System())) == [42]


def test_the_public_file_holds_no_secret(small: PrivateKey, tmp_path: Path) -> None:
    save_public(small.public, tmp_path / "key.pub")
    text = (tmp_path / "key.pub").read_text()
    p, q, _ = small.reveal()
    assert f"{small.public.n:x}" in text
    assert f"{p:x}" not in text
    assert f"{q:x}" not in text


def test_nothing_is_overwritten(small: PrivateKey, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("precious")
    with pytest.raises(InvalidInput, match="exists already"):
        save_private(small, path)
    with pytest.raises(InvalidInput, match="exists already"):
        save_public(small.public, path)
    assert path.read_text() == "precious"


def test_unreachable_paths_are_named(small: PrivateKey, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written"):
        save_private(small, tmp_path / "no" / "key")
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_private(tmp_path / "absent")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_key_that_others_can_read_is_refused(small: PrivateKey, tmp_path: Path) -> None:
    save_private(small, tmp_path / "key")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(InvalidInput, match="chmod 600"):
        load_private(tmp_path / "key", insecure=True)


def test_the_floor_holds_for_files_too(small: PrivateKey, tmp_path: Path) -> None:
    save_private(small, tmp_path / "key")
    with pytest.raises(WeakKey):
        load_private(tmp_path / "key")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "trilemma paillier private key 1"}'])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="not a trilemma paillier private key;"):
        load_private(path)
    with pytest.raises(InvalidInput, match="not a trilemma paillier public key;"):
        load_public(path)


def written(path: Path, kind: str, **numbers: object) -> Path:
    """A key file with these numbers, unchecked."""
    path.write_text(json.dumps({"kind": f"trilemma paillier {kind} key 1", **numbers}))
    path.chmod(0o600)
    return path


def test_degenerate_keys_are_refused_when_read(real: PrivateKey, tmp_path: Path) -> None:
    p, q, h = real.reveal()
    prime = int(gmpy2.next_prime(1 << 2047))
    for n, base, why in (
        (p * q, 1, "h has a tiny order"),
        (p * q, p * q - 1, "h has a tiny order"),
        (p * q, p, "h is not a unit"),
        (prime, h % prime, "n is a prime"),
        (p * q * 2, h, "n has a small factor"),
        (p * p, h % p, "n is a power"),
        (15, 4, "below the floor"),
    ):
        path = written(tmp_path / "bad.pub", "public", n=hex(n), h=hex(base))
        with pytest.raises(InvalidInput, match=why):
            load_public(path)
    for base in (0, 1, p * q - 1, q):
        path = written(tmp_path / "bad.key", "private", p=hex(p), q=hex(q), h=hex(base))
        with pytest.raises(InvalidInput, match="h "):
            load_private(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        '{"kind": "trilemma paillier public key 1", "n": ' + "[" * 50_000,
        '{"kind": "trilemma paillier public key 1", "n": "0x' + "f" * 100_000 + '", "h": "0x4"}',
        '{"kind": "trilemma paillier public key 1", "n": 15, "h": 1e999}',
        '{"kind": "trilemma paillier public key 1", "n": NaN, "h": -Infinity}',
        '{"kind": "trilemma paillier public key 1", "n": "é", "h": "1"}',
    ],
)
def test_deep_long_and_odd_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a trilemma paillier public key;"):
        load_public(path)


NUMBERS = st.one_of(
    st.integers(-(1 << 300), 1 << 300).map(hex),
    st.integers(),
    st.floats(),
    st.text(),
    st.none(),
)


@given(content=st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_are_a_key_or_refused(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    for load in (load_public, load_private):
        with pytest.raises(InvalidInput, match="is not a"):
            load(path, insecure=True)


@given(n=NUMBERS, h=NUMBERS)
def test_any_numbers_are_a_key_that_round_trips_or_refused(
    n: object, h: object, small: PrivateKey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    for base in (h, hex(small.public.h)):
        for modulus in (n, hex(small.public.n)):
            path = written(folder / "key", "public", n=modulus, h=base)
            try:
                key = load_public(path, insecure=True)
            except InvalidInput:
                continue
            again = folder / f"again-{len(list(folder.iterdir()))}"
            save_public(key, again)
            assert load_public(again, insecure=True) == key
    assert load_public(path, insecure=True) == small.public  # the last pair is sound


@given(p=NUMBERS, q=NUMBERS, h=NUMBERS, keep=st.sets(st.sampled_from("pqh")))
def test_any_private_numbers_are_the_key_or_refused(
    p: object,
    q: object,
    h: object,
    keep: set[str],
    small: PrivateKey,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sound = dict(zip("pqh", map(hex, small.reveal()), strict=True))
    numbers = {"p": p, "q": q, "h": h} | {name: sound[name] for name in keep}
    path = written(tmp_path_factory.mktemp("keys") / "key", "private", **numbers)
    try:
        key = load_private(path, insecure=True)
    except InvalidInput:
        return
    assert {"p", "q"} <= keep
    assert key.decrypt(key.public.encrypt([42], System())) == [42]
