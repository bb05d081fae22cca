from pathlib import Path

import numpy as np
import pytest
import torch
from tests.game.attackers import Backwards, Diverges, Division, Spy, small_scenario

from trilemma.beliefs.recovery import Criterion
from trilemma.execution.journal import Run
from trilemma.game.prepared_models import prepare_models
from trilemma.game.recovering.recoveries import Outcomes, measure
from trilemma.game.recovering.units import Measurement, draw_unit
from trilemma.learning import client_update
from trilemma.protection.specs import parse_protection

TWENTY = Criterion("psnr", 20.0)


def same(a: Outcomes, b: Outcomes) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_a_perfect_attack_recovers_all_and_noise_stops_it() -> None:
    asked = Measurement(Division(), parse_protection("randomization:variance=100.0"), units=20)
    protected, control = measure(small_scenario(), asked, TWENTY)
    assert control.target().all()
    assert protected is not None
    assert protected.target().mean() < 0.1
    assert (control.per_datum() == [1.0, 0.0]).all()


def test_without_protection_there_is_only_the_control() -> None:
    protected, control = measure(small_scenario(), Measurement(Division(), units=3), TWENTY)
    assert protected is None
    assert control.client.tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("says_so", [True, False])
def test_an_attack_that_diverges_counts_as_recovered_and_is_reported(says_so: bool) -> None:
    _, control = measure(small_scenario(), Measurement(Diverges(says_so), units=4), TWENTY)
    assert not control.recovered.any()
    assert control.failed.all()
    assert control.target().all()
    assert (control.per_datum() == [1.0, 0.0]).all()


def test_the_attack_sees_the_weights_of_the_update_and_literally_those_after_it() -> None:
    """E16: the paper hands the attack w' = w - η·g together with the gradient at w."""
    scenario = small_scenario(lr=0.5)
    for literal in (False, True):
        spy = Spy()
        asked = Measurement(spy, units=2, literal=literal, seed=3)
        measure(scenario, asked, TWENTY)
        for number, view in enumerate(spy.views):
            unit = draw_unit(scenario, asked, number)
            weights = prepare_models(scenario, [unit.model], seed=3)[0]
            records = unit.records
            update = client_update(
                scenario.task, weights, records.inputs, records.labels, scenario.local_training
            )
            expected = weights - 0.5 * update if literal else weights
            assert torch.allclose(view.weights, expected, atol=1e-6)
            assert torch.allclose(view.observation.update, update, atol=1e-6)


def test_a_batch_is_matched_as_a_set_and_literally_by_position() -> None:
    """E17: the same perfect recoveries, in another order than the records."""
    scenario = small_scenario(batch=2, clients=1, size=5)
    attack = Backwards(scenario.records[0].inputs, scenario.records[0].labels)
    _, found = measure(scenario, Measurement(attack, units=12, steps=0), TWENTY)
    assert found.recovered.all()
    in_order = [
        bool(np.all(np.diff(_rows(scenario.records[0].inputs, unit.records.inputs)) < 0))
        for unit in (draw_unit(scenario, Measurement(attack, units=12), n) for n in range(12))
    ]
    assert 0 < sum(in_order) < 12
    # The literal reading fixes one batch a client; take a seed whose batch is in the other order.
    for seed in range(10):
        asked = Measurement(attack, units=1, literal=True, seed=seed, steps=0)
        records = draw_unit(scenario, asked, 0).records
        if (
            _rows(scenario.records[0].inputs, records.inputs)[0]
            < _rows(scenario.records[0].inputs, records.inputs)[1]
        ):
            break
    _, literal = measure(small_scenario(2, 1, 5, lr=1e-9), asked, TWENTY)
    assert not literal.recovered.any()


def _rows(pool: torch.Tensor, inputs: torch.Tensor) -> list[int]:
    return [int((pool - row).abs().sum(1).argmin()) for row in inputs]


def test_beliefs_over_classes_sum_to_one_for_a_batch_of_one_class() -> None:
    """E15: four records of one class, all recovered, are belief 1 in it, not 4/|C|."""
    outcomes = Outcomes(
        client=np.zeros(2, dtype=np.int64),
        model=np.arange(2),
        labels=np.array([[1, 1, 1, 1], [0, 1, 2, 2]]),
        recovered=np.array([[[True] * 4, [True] * 4], [[True, False, True, False]] * 2]),
        similarity=np.zeros((2, 2, 4)),
        failed=np.zeros((2, 2), dtype=bool),
        pictures=np.zeros((0, 4, 1), dtype=np.float32),
    )
    assert outcomes.per_class(3).tolist() == [[0, 1, 0, 0], [0.25, 0, 0.25, 0.5]]
    assert outcomes.per_datum().tolist() == [
        [0.25, 0.25, 0.25, 0.25, 0],
        [0.25, 0, 0.25, 0, 0.5],
    ]


@pytest.mark.slow
def test_workers_and_interruptions_change_nothing(tmp_path: Path) -> None:
    scenario = small_scenario()
    asked = Measurement(
        Division(), parse_protection("randomization:variance=0.01"), units=12, chunk=5, steps=3
    )
    plain = measure(scenario, asked, TWENTY)
    spread = measure(scenario, asked, TWENTY, workers=2)
    with Run.open(tmp_path, asked.settings()) as run:
        stopped = Measurement(Spy(stop_at=4), asked.protection, units=12, chunk=5, steps=3)
        with pytest.raises(KeyboardInterrupt):
            measure(scenario, stopped, TWENTY, run=run)
        held = [run.committed(f"chunk {chunk} of control") for chunk in range(5)]
        assert [item is not None for item in held] == [True] * 3 + [False] * 2
        resumed = measure(scenario, asked, TWENTY, run=run)
        replicate_spy = Spy()
        again = Measurement(replicate_spy, asked.protection, units=12, chunk=5, steps=3)
        repeated = measure(scenario, again, TWENTY, run=run)
    assert replicate_spy.calls == []
    for other in (spread, resumed, repeated):
        assert plain[0] is not None
        assert other[0] is not None
        assert same(plain[0], other[0])
        assert same(plain[1], other[1])


def test_attempts_are_counted_apart_and_one_unit_stays_one_trial() -> None:
    asked = Measurement(Division(), units=3, attempts=4)
    _, control = measure(small_scenario(), asked, TWENTY)
    assert control.recovered.shape == (6, 4, 1)
    assert control.target().shape == (6,)


def test_no_record_reaches_the_outcomes_unless_the_scenario_shows_them() -> None:
    _, control = measure(small_scenario(), Measurement(Division(), units=2), TWENTY)
    assert control.pictures.size == 0
