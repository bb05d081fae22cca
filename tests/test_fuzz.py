"""The first of the inputs that `benchmarks/fuzz.py` makes: nothing breaks, and not all is refused.

`python benchmarks/fuzz.py --only KIND --number N` tries one input again.
"""

from __future__ import annotations

import pytest
from benchmarks.fuzz import DOORS, SEED
from benchmarks.fuzzing.judging import ACCEPTED, REFUSED, tried

SHARE = {
    "command lines": 500, "settings": 1100, "specs": 1250, "verdicts": 400, "journals": 250,
    "keys": 350, "wire messages": 450, "names": 350, "budgets": 350,
}  # fmt: skip


def test_all_kinds_add_up() -> None:
    assert sum(count for _, count in DOORS.values()) == 100_000
    assert min(count for _, count in DOORS.values()) >= 5_000
    assert sum(SHARE[kind] for kind in DOORS) == 5_000


@pytest.mark.parametrize("kind", DOORS)
def test_no_input_breaks_a_door(kind: str) -> None:
    door, _ = DOORS[kind]
    count = SHARE[kind]
    tally = tried(door, SEED, kind, range(count))
    assert not tally.broken, tally.broken[:5]
    # A door that refuses everything, or nothing, would be tested by nothing.
    assert min(tally.counts[ACCEPTED], tally.counts[REFUSED]) >= count // 20
