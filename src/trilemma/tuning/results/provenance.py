"""Where a verdict comes from: code and library versions."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import trilemma
from trilemma.game.scenario_identity import code_hash

__all__ = ["versions"]

_LIBRARIES = ("torch", "numpy", "scipy", "dp-accounting", "cryptography", "gmpy2")


@cache
def versions() -> dict[str, str]:
    """Versions of what computed the numbers, and a hash of this package's own files."""
    found = {"python": platform.python_version(), "trilemma": trilemma.__version__}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return {**found, "code": code_hash()}
