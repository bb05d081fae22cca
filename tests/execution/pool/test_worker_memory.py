"""Memory that was given back is there for the next tensors, without page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

_FAULTS = """
import resource, sys
import torch
from trilemma.execution.pool.worker_memory import keep_memory
if sys.argv[1] == "kept":
    keep_memory()
def written():
    return [torch.empty(3 * 2**19).fill_(1.0) for _ in range(8)]
written()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    written()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other allocators")
def test_tensors_are_written_where_the_last_ones_were() -> None:
    def faults(how: str) -> int:
        words = [sys.executable, "-c", _FAULTS, how]
        return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    # The system itself takes pages back at times, which only adds to them.
    assert min(faults("kept") for _ in range(3)) < faults("as it is") / 4
