"""Where a verdict comes from: versions of what computed it, and of this code."""

from __future__ import annotations

from importlib.metadata import version

from trilemma.game.scenario_identity import code_hash
from trilemma.tuning.results.provenance import versions


def test_versions_are_those_of_the_libraries_and_of_this_code() -> None:
    found = versions()
    assert found["torch"] == version("torch")
    assert found["code"] == code_hash()
    assert {"python", "trilemma", "numpy", "scipy"} <= found.keys()
