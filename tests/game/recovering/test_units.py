"""Units: who is drawn, what is seen of a sum, and what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest
from tests.game.attackers import Division, small_scenario

from trilemma.attacks import get
from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput
from trilemma.game.recovering.recoveries import measure
from trilemma.game.recovering.units import Measurement, draw_unit
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.scenarios import load_scenario


def test_every_unit_has_its_own_batch_and_model_unless_models_are_shared() -> None:
    scenario = small_scenario(batch=3)
    own = Measurement(Division(), units=50)
    units = [draw_unit(scenario, own, number) for number in range(100)]
    assert len({unit.model for unit in units}) == 100
    assert len({tuple(unit.records.inputs.flatten().tolist()) for unit in units}) > 90
    shared = Measurement(Division(), units=50, models=4)
    models = [draw_unit(scenario, shared, number).model for number in range(100)]
    assert np.bincount(models).tolist() == [26, 26, 24, 24]
    for unit in units:
        assert len({tuple(row.tolist()) for row in unit.records.inputs}) == 3


@pytest.mark.parametrize(
    "changes", [{"units": 0}, {"restarts": 0}, {"attempts": 0}, {"models": 0}, {"seed": -1}]
)
def test_a_measurement_checks_itself(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        Measurement(Division(), **changes)  # type: ignore[arg-type]


def test_a_sum_of_clients_is_attacked_as_one_batch() -> None:
    """Under secure aggregation the server reads the sum: all clients' records are sought."""
    scenario = load_scenario("digits-mlp", clients=2, batch=1)
    asked = Measurement(protection=parse_protection("secret-sharing"), units=6, restarts=3)
    protected, control = measure(scenario, asked, Criterion())
    assert protected is not None
    assert control.recovered.shape == (12, 1, 1)
    assert protected.recovered.shape == (12, 1, 2)
    # A sum of two is no protection: DLG finds both records in most units.
    assert protected.target().mean() > 0.6
    first = draw_unit(scenario, asked, 0)
    assert protected.labels[0, 0] == first.records.labels[0], "the unit's own record comes first"


def test_a_curious_client_takes_its_own_part_out_of_the_sum() -> None:
    scenario = load_scenario("digits-mlp", clients=2, batch=1)
    asked = Measurement(adversary=Adversary.CLIENT, units=6, restarts=2)
    protected, _ = measure(scenario, asked, Criterion())
    assert protected is not None
    assert protected.recovered.shape == (12, 1, 1)
    assert protected.target().mean() > 0.9, "what is left of the mean is the other's update"
    alone = load_scenario("digits-mlp", clients=1, batch=1)
    with pytest.raises(InvalidInput, match="got 1 client; use 2 or more"):
        measure(alone, asked, Criterion())


def test_who_has_public_records_recovers_from_them() -> None:
    scenario = load_scenario("digits-mlp", clients=2, batch=1)
    _, control = measure(scenario, Measurement(get("map"), units=4, restarts=1), Criterion())
    assert control.recovered.shape == (8, 1, 1)
    assert control.target().mean() > 0.6


@pytest.mark.parametrize("name", ["linkage", "gaussian-posterior", "exact-posterior"])
def test_what_singles_one_record_out_recovers_no_batch(name: str) -> None:
    knows = get(name).knows
    with pytest.raises(InvalidInput, match=f"'{name}' singles one record out.*--knows {knows}"):
        Measurement(get(name))


def test_what_nobody_can_read_is_not_attacked() -> None:
    with pytest.raises(InvalidInput, match="reads nothing"):
        Measurement(protection=parse_protection("paillier:mode=blind"))
