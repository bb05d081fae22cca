from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
