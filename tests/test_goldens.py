"""A few goldens of `make goldens` are kept, so that every run of the tests sees a change.

Where numbers are meant to change, `python -m tests.test_goldens` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.goldens.measuring import ITEMS

KEPT = Path(__file__).parent / "goldens.json"
NAMES = ("messages of unlike_clients", "history of digits_fedavg", "proof of tokens")


def measured(name: str) -> dict[str, Any]:
    """Its values, those of long vectors by their norms and their first entries."""
    torch.manual_seed(0)
    return {key: _short(value) for key, value in ITEMS[name]().items()}


def _short(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_short(item) for item in value]
    if not hasattr(value, "shape"):
        return value
    rows = torch.as_tensor(value).double()
    return [rows.norm().item(), *rows.flatten()[:4].tolist()]


def _floats(value: Any) -> list[Any]:
    return [x for item in value for x in _floats(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stay_as_they_are_kept(name: str) -> None:
    kept, now = json.loads(KEPT.read_text())[name], measured(name)
    assert now.keys() == kept.keys()
    for key, values in now.items():
        assert _floats(values) == pytest.approx(_floats(kept[key]), rel=1e-6, abs=1e-6), key


if __name__ == "__main__":
    KEPT.write_text(json.dumps({name: measured(name) for name in NAMES}, indent=1) + "\n")
