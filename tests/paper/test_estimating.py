import json
import math

import numpy as np
import pytest
from tests.estimation.attackers import Division, small_scenario

from trilemma.beliefs.blind import BlindGuess
from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput
from trilemma.estimation.leakage import mean_leakage
from trilemma.estimation.recovering.recoveries import Outcomes, measure
from trilemma.estimation.recovering.units import Measurement
from trilemma.paper.estimating import (
    Guess,
    choose_criterion,
    constants_of,
    largest_log_ratio,
    literal_constants,
)
from trilemma.protections.specs import parse_protection

KAPPA = BlindGuess(20.0, "mean", 5, 500, 0.004, 0.05, 0.95)
GUESS = Guess(Criterion(), KAPPA)


def outcomes(hits: list[int], trials: int, size: int = 1) -> Outcomes:
    clients = len(hits)
    client = np.arange(clients * trials) % clients
    turn = np.arange(clients * trials) // clients
    recovered = np.repeat((turn < np.array(hits)[client])[:, None, None], size, axis=2)
    return Outcomes(
        client=client,
        model=np.arange(len(client)),
        labels=np.zeros((len(client), size), dtype=np.int64),
        recovered=recovered,
        similarity=np.where(recovered, 30.0, 10.0),
        failed=np.zeros((len(client), 1), dtype=bool),
        pictures=np.zeros((0, size, 1), dtype=np.float32),
    )


def test_counts_become_constants_per_client_and_overall() -> None:
    found = constants_of(outcomes([15, 5], 20), GUESS)
    assert [c.successes for c in found.clients] == [15, 5]
    assert found.success.value == 0.5
    assert found.c1 == mean_leakage([15, 5], 20)
    assert found.c1_max.value == found.clients[0].c1.value
    # ξ: largest of |log(p/κ)| and |log((1-p)/(1-κ))|, κ = .01.
    assert found.ratio.xi == pytest.approx(math.log(75))
    assert found.ratio.c2 == pytest.approx((75**2 - 1) / (2 * math.sqrt(math.log(2))))
    assert not found.attack_failed


@pytest.mark.parametrize(
    ("hits", "kappa", "reason"),
    [
        ([20, 5], KAPPA, "recovered from all of 20 updates"),
        ([0, 5], KAPPA, "recovered from none of 20 updates"),
        ([5, 5], BlindGuess(20.0, "mean", 0, 500, 0.0, 0.05, 0.95), "no blind guess succeeded"),
        ([5, 5], BlindGuess(20.0, "mean", 500, 500, 0.9, 1.0, 0.95), "always succeeded"),
        ([5, 5], None, "known for PSNR only"),
    ],
)
def test_c2_is_not_finite_with_a_reason_and_a_smoothed_value(
    hits: list[int], kappa: BlindGuess | None, reason: str
) -> None:
    ratio = largest_log_ratio(hits, 20, kappa)
    assert ratio.xi is None
    assert ratio.c2 is None
    assert ratio.reason is not None
    assert reason in ratio.reason
    assert math.isfinite(ratio.c2_smoothed)
    assert ratio.xi_smoothed > 0


def test_json_holds_no_nan_and_the_promised_keys() -> None:
    found = constants_of(outcomes([20, 20], 20), Guess(Criterion("ssim", 0.5), None))
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert document["c1"].keys() == {"value", "low", "high"}
    assert document["xi"] is None
    assert document["c2"] is None
    assert "PSNR only" in document["c2_reason"]
    assert document["units"] == 40
    assert len(document["clients"]) == 2
    assert document["kappa"] is None


def test_the_error_bound_uses_the_worst_relative_error_inside_the_interval() -> None:
    client = constants_of(outcomes([500], 1000), GUESS).clients[0]
    rates = np.linspace(client.success.low, client.success.high, 10_001)
    worst = max(np.max(np.abs(0.5 - rates) / rates), np.max(np.abs(0.5 - rates) / (1 - rates)))
    assert client.relative_error == pytest.approx(worst, rel=1e-6)
    assert client.error_corrected is not None
    assert client.error_printed is not None
    assert client.error_corrected < client.error_printed
    certain = constants_of(outcomes([20], 20), GUESS).clients[0]
    assert certain.relative_error is None


def test_a_failing_control_is_called_a_failed_attack() -> None:
    assert constants_of(outcomes([3, 2], 20), GUESS).attack_failed


def test_success_of_a_batch_any_and_all() -> None:
    batch = outcomes([0], 10, size=2)
    batch.recovered[:5, 0, 1] = True
    found = constants_of(batch, GUESS)
    assert (found.success.value, found.success_any.value, found.success_all) == (0.0, 0.5, 0.25)


def test_the_literal_reading_is_inverted() -> None:
    """Never and always successful at S = 4: 0.65 and 0.27 nats, against a uniform prior."""
    never, always = (
        literal_constants(outcomes([hits], 10, size=4)).c1 * math.sqrt(math.log(2))
        for hits in (0, 10)
    )
    assert never == pytest.approx(0.65, abs=0.005)
    assert always == pytest.approx(0.27, abs=0.005)
    assert literal_constants(outcomes([10], 10, size=4)).xi is None
    mixed = literal_constants(outcomes([5], 10, size=4))
    assert mixed.xi == pytest.approx(math.log(0.5 * 5))


def test_a_criterion_is_the_one_asked_for_the_scenarios_own_or_the_default() -> None:
    scenario = small_scenario()
    assert choose_criterion(scenario, Criterion("psnr", 33.0)).criterion.threshold == 33.0
    assert choose_criterion(scenario).criterion.threshold in (20.0, 25.0, 30.0)
    with pytest.raises(InvalidInput, match="window of 11x11"):
        choose_criterion(scenario, Criterion("ssim", 0.5))


@pytest.mark.slow
def test_c1_lies_in_its_interval_across_seeds() -> None:
    """Noisy updates, so that about half of the records are recovered; truth from 1,000 units."""
    scenario = small_scenario(clients=1, size=60)
    noise = parse_protection("randomization:variance=4e-3")

    def hits(seed: int, units: int) -> int:
        asked = Measurement(Division(), noise, units=units, seed=seed, steps=0, chunk=500)
        protected, _ = measure(scenario, asked, Criterion())
        assert protected is not None
        return int(protected.tagged().sum())

    truth = mean_leakage([hits(10_000, 1000)], 1000).value
    assert 0.3 < truth < 0.95
    repeats = 30
    covered = sum(truth in mean_leakage([hits(seed, 40)], 40) for seed in range(repeats))
    assert covered / repeats >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / repeats)


def test_estimate_end_to_end() -> None:
    scenario = small_scenario()
    guess = choose_criterion(scenario)
    _, control = measure(scenario, Measurement(Division(), units=5), guess.criterion)
    found = constants_of(control, guess)
    assert found.c1.value == 1.0
    assert found.units == 10
