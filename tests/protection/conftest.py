"""One key for all tests of protections: it takes a second to make."""

from __future__ import annotations

import pytest

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System


@pytest.fixture(scope="session")
def key() -> PrivateKey:
    return PrivateKey.generate(System(), bits=2048)
