from __future__ import annotations

import pytest

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System


@pytest.fixture(scope="session")
def entropy() -> System:
    return System()


@pytest.fixture(scope="session")
def small(entropy: System) -> PrivateKey:
    """A key for speed alone."""
    return PrivateKey.generate(entropy, bits=256, insecure=True)


@pytest.fixture(scope="session")
def real(entropy: System) -> PrivateKey:
    """A key at the floor."""
    return PrivateKey.generate(entropy, bits=2048)
