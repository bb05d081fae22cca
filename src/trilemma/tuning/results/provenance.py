"""Where a verdict comes from: keyed hash of the data, code and library versions."""

from __future__ import annotations

import hashlib
import hmac
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.estimation.scenario import Scenario
    from trilemma.work.journal import Run

__all__ = ["data_hash", "require_same_data", "versions"]

_LIBRARIES = ("trilemma", "torch", "numpy", "scipy", "dp-accounting", "cryptography", "gmpy2")


def data_hash(scenario: Scenario, key: bytes) -> str:
    """HMAC-SHA256 of all records: tells the same data again to who holds the key.

    Without the key it tells nothing; a plain hash would let anyone test whether a record that he
    guesses was there.
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for records in (*scenario.records, scenario.test_records):
        for tensor in (records.inputs, records.labels):
            digest.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def require_same_data(run: Run, tag: str) -> None:
    """A resumed run must not mix units of different data."""
    stored = run.committed("data hash")
    if not stored:
        run.commit("data hash", 0, tag.encode())
    elif stored[0] != tag.encode():
        raise InvalidInput(
            f"the data is not that of the run in {run.folder}; bring it back to resume, choose "
            f"another folder, or start over with --fresh."
        )


@cache
def versions() -> dict[str, str]:
    """Versions of what computed the numbers, and a hash of this package's own files."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return {**found, "code": digest.hexdigest()[:16]}
