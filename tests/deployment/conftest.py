from __future__ import annotations

from pathlib import Path

import pytest

from trilemma.crypto.keyfiles import save_private
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    """A Paillier key for speed alone."""
    return PrivateKey.generate(System(), bits=512, insecure=True)


@pytest.fixture
def key_file(key: PrivateKey, tmp_path: Path) -> Path:
    """The same key as a node would be given it."""
    save_private(key, tmp_path / "key")
    return tmp_path / "key"
