"""A scenario, a function or a name: all give the same scenario."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.cli.own_scenario import shown, small
from torch import nn

from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.scenarios.sources import source_of


def test_what_may_be_tuned() -> None:
    made = small()
    assert source_of(made) is made
    for given in (small, "tests.cli.own_scenario:small"):
        source = pickle.loads(pickle.dumps(source_of(given)))  # as a worker gets it
        assert isinstance(source(), Scenario)
        assert source().name == "small"
    assert source_of(shown)().show_records  # type: ignore[operator]


def test_what_may_not() -> None:
    for given in (3, None, [small]):
        wrong: Any = given
        with pytest.raises(InvalidInput, match="must be a Scenario, a function that makes one"):
            source_of(wrong)
    model: Any = nn.Linear(2, 2)
    with pytest.raises(InvalidInput, match=r"got Linear; wrap the model: Scenario\(model,"):
        source_of(model)
    kind: Any = Scenario
    with pytest.raises(InvalidInput, match="got type; call it"):
        source_of(kind)
    with pytest.raises(InvalidInput, match="'<lambda>' must return a trilemma Scenario, got int"):
        source_of(lambda: 3)()  # type: ignore[arg-type, return-value, operator]
