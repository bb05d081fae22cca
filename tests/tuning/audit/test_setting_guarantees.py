"""What settings prove, against closed forms and dp-accounting."""

from __future__ import annotations

import math

import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from scipy.optimize import brentq
from scipy.stats import norm
from tests.cli.own_scenario import small

from trilemma.accounting.guarantee import prove
from trilemma.tuning.audit.framework_setting import Setting
from trilemma.tuning.audit.setting_guarantees import DELTA, Guaranteed, guarantees, noise_needed

ROUNDS = 60


def proved(text: str, clients: int = 2) -> dict[tuple[str, str], Guaranteed]:
    scenario = small(clients)
    found = guarantees(Setting.parse(text).run(scenario), scenario, rounds=ROUNDS, candidates=21)
    return {(item.against, item.level): item for item in found}


def gaussian_epsilon(mu: float) -> float:
    """Of the Gaussian mechanism, by Balle and Wang's formula."""

    def excess(eps: float) -> float:
        tail = math.exp(eps + norm.logcdf(-mu / 2 - eps / mu))
        return float(norm.cdf(mu / 2 - eps / mu)) - tail - DELTA

    return float(brentq(excess, 0.0, 10 * mu**2 + 100))


def local_dp(clip: float, deviation: float) -> str:
    sensitivity = deviation / math.sqrt(2 * math.log(1.25e5))
    given = f"clipping_norm={clip},sensitivity={sensitivity},epsilon=1,delta=1e-5"
    return f"flower.LocalDpMod:{given}"


def test_local_dp_hides_a_client_by_the_clip_whatever_it_says_of_sensitivity() -> None:
    found = proved(local_dp(0.5, 20.0))["server", "client"]
    mu = math.sqrt(ROUNDS) * 0.5 / 20.0
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-6)
    assert found.success == pytest.approx(float(norm.cdf(norm.ppf(1 / 21) + mu)), rel=1e-9)


def test_stock_local_dp_is_not_what_its_epsilon_says() -> None:
    stock = "flower.LocalDpMod:clipping_norm=1,sensitivity=1e-4,epsilon=10,delta=1e-5"
    found = proved(stock)
    assert found["server", "client"].epsilon > 1e9
    assert found["server", "client"].success == found["server", "record"].success == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "none",
        "randomization:variance=1e-3",
        "clipping:norm=1",
        "top-k:keep=0.1",
        "quantisation:bits=2",
        "nvflare.PercentilePrivacy",
        "nvflare.ExcludeVars:exclude_vars=0.bias",
        "flower.fixedclipping_mod:clipping_norm=1",
        "flower.SecAggPlus",
        "compression:keep=0.5+randomization:variance=1",
    ],
)
def test_without_noise_on_what_is_clipped_nothing_is_proved(text: str) -> None:
    assert proved(text) == {}


def test_what_comes_behind_the_noise_takes_nothing_away() -> None:
    alone = proved("clipping:norm=0.5+randomization:variance=25")
    assert alone == proved("randomization:variance=25,clip=0.5") != {}
    assert proved("randomization:variance=25,clip=0.5+top-k:keep=0.5") == alone


def test_noise_of_the_server_is_for_others() -> None:
    name = "flower.DifferentialPrivacyServerSideFixedClipping"
    found = proved(f"{name}:noise_multiplier=8,clipping_norm=0.3")
    assert set(found) == {("others", "client"), ("others", "record")}
    mu = math.sqrt(ROUNDS) / 8
    assert found["others", "client"].epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-6)


def test_the_count_of_the_clipped_costs_besides() -> None:
    """z⁻² = z_u⁻² + (2σ_b)⁻² is Flower's; a whole client moves the count by one, not a half."""
    name = "flower.DifferentialPrivacyServerSideAdaptiveClipping"
    text = f"{name}:noise_multiplier=2,clipped_count_stddev=4,clip_norm_lr=1e-6"
    found = proved(text)["others", "client"]
    left = (2**-2 - 8**-2) ** -0.5
    mu = math.sqrt(ROUNDS * (left**-2 + 4**-2))
    assert found.epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-4)


def test_secure_aggregation_shares_the_noise_of_the_honest() -> None:
    """Two of three clients end a round, and one of them may help: one noise counts."""
    text = "randomization:variance=25,clip=0.5"
    alone = proved(text, clients=9)["server", "client"]
    summed = proved(f"{text}+secret-sharing", clients=9)["server", "client"]
    mu = math.sqrt(ROUNDS) * 0.5 / (5 * math.sqrt(6))  # 7 of 9 end it, 6 are honest
    assert summed.epsilon == pytest.approx(gaussian_epsilon(mu), rel=1e-6)
    assert summed.epsilon < alone.epsilon


def test_opacus_is_dp_sgd_by_dp_accounting() -> None:
    found = proved("opacus.PrivacyEngine:noise_multiplier=0.8,max_grad_norm=1.0")
    losses = privacy_loss_distribution.from_gaussian_mechanism(0.8, sampling_prob=1 / 80)
    expected = losses.self_compose(ROUNDS).get_epsilon_for_delta(DELTA)
    assert found["server", "record"].epsilon == pytest.approx(expected, rel=2e-3)


def test_the_sparse_vector_technique_costs_its_values_in_every_round() -> None:
    """Against dp-accounting's composition, which is tighter than zero-concentration."""
    found = proved("nvflare.SVTPrivacy:epsilon=0.1,fraction=0.1,noise_var=0.1")
    scenario = small()
    m = scenario.task.layout.size
    n = math.ceil(m / 10)
    values = privacy_loss_distribution.from_laplace_mechanism(10.0).self_compose(ROUNDS * n)
    ratio = (2 * n) ** (2 / 3)
    choice = 0.1 / (1 + ratio) + 0.1 * ratio / (1 + ratio) * m / n
    chosen = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(choice, 0.0)
    ).self_compose(ROUNDS)
    expected = values.compose(chosen).get_epsilon_for_delta(DELTA)
    own = found["server", "client"]
    assert expected <= own.epsilon <= 1.3 * expected
    assert own.success == 1.0


def test_the_noise_that_is_needed_is_that_of_prove() -> None:
    scenario = small()
    run = Setting.parse("randomization:variance=0.01,clip=0.1").run(scenario)
    factor = noise_needed(run, scenario, rounds=ROUNDS, budget=0.3)
    assert factor is not None
    own = prove(clients=2, rounds=ROUNDS, budget=0.3, transport="plain", algorithm="fedavg")
    client = own.training.noise_multiplier * 0.1 / 0.1  # clips of 0.1 behind deviation 0.1
    assert factor <= client * 1.002, "a record is hidden by less noise, or by as much"
    enough = Setting.parse("randomization:variance=0.01,clip=0.1").noisier(factor)
    assert enough is not None
    levels = guarantees(enough.run(scenario), scenario, rounds=ROUNDS, candidates=21)
    assert 0.299 < min(level.leakage for level in levels) <= 0.3
    assert noise_needed(enough.run(scenario), scenario, rounds=ROUNDS, budget=0.3) == 1.0
    bare = Setting.parse("randomization:variance=0.01").run(scenario)
    assert noise_needed(bare, scenario, rounds=ROUNDS, budget=0.3) is None
