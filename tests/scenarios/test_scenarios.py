from pathlib import Path

import pytest

from trilemma.errors import InvalidInput, UnknownName
from trilemma.scenarios import SCENARIOS, load_scenario

OWN = """
import torch
from torch import nn
from trilemma.game.scenario import Scenario

def make(size=8):
    data = [(torch.rand(3), torch.tensor(i % 2)) for i in range(size)]
    return Scenario(nn.Linear(3, 2), nn.functional.cross_entropy, [data], data, name="own")

def wrong():
    return 3

def broken():
    raise OSError("no disk")

NUMBER = 3
READY = make()
"""


@pytest.fixture
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_scenario.py").write_text(OWN)
    (tmp_path / "my_broken_module.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_own_module")
def test_ones_own_function_with_a_batch_it_knows_nothing_of() -> None:
    scenario = load_scenario("my_own_scenario:make", batch=4, cohort=1, size=6)
    assert scenario.cohort == 1
    assert (scenario.name, scenario.local_training.batch) == ("own", 4)
    assert len(scenario.records[0]) == 6


@pytest.mark.usefixtures("_own_module")
@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module_here:make", "cannot be imported"),
        ("my_broken_module:make", "cannot be imported .ZeroDivisionError"),
        ("my_own_scenario:nothing", "has no object 'nothing'"),
        ("my_own_scenario:mak", "has no object 'mak'; did you mean 'make'"),
        ("my_own_scenario:wrong", "must return a trilemma Scenario, got int"),
        ("my_own_scenario:broken", "failed .OSError: no disk"),
        ("my_own_scenario.py", "name the function in it, my_own_scenario:make_scenario, say"),
        ("my_own_scenario", "names a file, .* name the function in it, my_own_scenario:make"),
        ("my_own_scenario.py:make", "write its module, my_own_scenario:make"),
        ("my_own_scenario:NUMBER", r"no function, but int; make a Scenario\("),
    ],
)
def test_ones_own_function_that_fails_is_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        load_scenario(spec)


@pytest.mark.usefixtures("_own_module")
def test_a_scenario_itself_may_be_named() -> None:
    assert load_scenario("my_own_scenario:READY", batch=2).local_training.batch == 2
    with pytest.raises(InvalidInput, match="does not take clients: it takes no options"):
        load_scenario("my_own_scenario:READY", clients=3)


@pytest.mark.usefixtures("_own_module")
def test_an_option_that_the_function_does_not_take() -> None:
    with pytest.raises(InvalidInput, match="does not take clients: it takes size"):
        load_scenario("my_own_scenario:make", clients=3)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean 'digits'") as raised:
        load_scenario("digts")
    for name in SCENARIOS:
        assert name in str(raised.value)
