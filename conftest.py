"""What cannot be collected without an optional extra."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if find_spec("flwr") is None:
    collect_ignore_glob += [
        "src/trilemma/federation/flower/*",
        "tests/federation/flower/harness.py",
        "tests/federation/flower/simulate.py",
    ]
