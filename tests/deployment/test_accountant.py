"""The ledger as Flower's accountant: its protocol, its figures, and the stop that it drives."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

pytest.importorskip("flwr.supercore.privacy_accounting", reason="needs flwr 1.41 or later")

from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyAccountant,
    PrivacyConfig,
    RdpAccountant,
    SamplingMethod,
)
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from tests.deployment.flower.harness import DirectGrid

from trilemma.deployment.flower.accountant import LedgerAccountant
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import InvalidInput


def config(max_epsilon: float | None = None) -> PrivacyConfig:
    return PrivacyConfig(
        1e-5,
        3,
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        SamplingMethod.NO_AMPLIFICATION,
        max_epsilon,
    )


def release(z: float = 4.0) -> GaussianPrivacyEvent:
    return GaussianPrivacyEvent(z, sample_size=3, population_size=3)


def delta_of(mu: float, epsilon: float) -> float:
    """The analytic Gaussian mechanism's δ(ε)."""
    first = norm.cdf(mu / 2 - epsilon / mu)
    return float(first - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def test_it_has_all_that_the_protocol_names() -> None:
    names = {name for name in vars(PrivacyAccountant) if not name.startswith("_")}
    assert names <= set(dir(LedgerAccountant))


def test_its_figures_are_those_of_the_analytic_gaussian_mechanism() -> None:
    accountant, rdp = LedgerAccountant(config()), RdpAccountant(config())
    for own in (accountant, rdp):
        own.compose(release(4.0), 10)
        own.compose(release(8.0))
    mu = math.sqrt(10 / 16 + 1 / 64)
    spent = accountant.get_privacy_spent()
    assert (spent.num_releases, spent.delta) == (11, 1e-5)
    assert delta_of(mu, spent.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert accountant.get_delta(spent.epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert accountant.get_delta(1.0) == pytest.approx(delta_of(mu, 1.0), rel=1e-6)
    assert accountant.get_delta(1.0) >= delta_of(mu, 1.0)
    assert 0.8 * rdp.get_epsilon(1e-5) < spent.epsilon < rdp.get_epsilon(1e-5)


def test_nothing_released_costs_nothing() -> None:
    accountant = LedgerAccountant(config())
    assert (accountant.get_epsilon(1e-5), accountant.get_delta(0.0)) == (0.0, 0.0)
    assert accountant.num_releases == 0


def test_would_exceed_counts_nothing() -> None:
    accountant = LedgerAccountant(config())
    with pytest.raises(InvalidInput, match="no limit"):
        accountant.would_exceed(release())
    assert accountant.would_exceed(release(), max_epsilon=1e-3)
    assert not accountant.would_exceed(release(), max_epsilon=100.0, count=10)
    assert accountant.num_releases == 0


def test_a_ledger_in_a_file_counts_over_runs(tmp_path: Path) -> None:
    LedgerAccountant(config(), ledger=tmp_path / "ledger").compose(release(), 2)
    again = LedgerAccountant(config(), ledger=tmp_path / "ledger")
    again.compose(release())
    assert again.num_releases == 3
    state = again.state_dict()
    again.load_state_dict(state)
    fresh = LedgerAccountant(config(), ledger=tmp_path / "another")
    with pytest.raises(InvalidInput, match="more releases than the ledger"):
        fresh.load_state_dict(state)


def test_a_use_without_noise_leaves_nothing_to_spend(tmp_path: Path) -> None:
    accountant = LedgerAccountant(config(max_epsilon=5.0), ledger=tmp_path / "ledger")
    accountant.compose(release())
    state = accountant.state_dict()
    Ledger(tmp_path / "ledger").record("server", Event(0.0))
    assert accountant.get_epsilon(1e-5) == math.inf
    assert accountant.get_delta(5.0) == 1.0
    assert accountant.would_exceed(release())
    accountant.load_state_dict(state)
    assert accountant.num_releases == 2, "the ledger's own count stands"
    fresh = LedgerAccountant(config(), ledger=tmp_path / "another")
    with pytest.raises(InvalidInput, match="more releases than the ledger"):
        fresh.load_state_dict(accountant.state_dict())


def test_its_state_goes_on_elsewhere() -> None:
    first, second = LedgerAccountant(config()), LedgerAccountant(config())
    first.compose(release(), 5)
    second.load_state_dict(first.state_dict())
    assert second.get_privacy_spent() == first.get_privacy_spent()
    for state in ({}, {"kind": "other", "events": []}, {"kind": first.state_dict()["kind"]}):
        with pytest.raises(InvalidInput, match="no state"):
            second.load_state_dict(dict(state))


def test_sampling_that_it_does_not_count_is_refused() -> None:
    poisson = PrivacyConfig(1e-5, 3, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.POISSON)
    with pytest.raises(InvalidInput, match="use no-amplification"):
        LedgerAccountant(poisson)
    with pytest.raises(InvalidInput, match="population_size is 4"):
        LedgerAccountant(config()).compose(GaussianPrivacyEvent(1.0, 3, 4))


def test_flowers_strategy_stops_where_the_ledger_says() -> None:
    """Before the fourth release, which the analytic mechanism puts over the limit."""
    mu = [math.sqrt(rounds) / 4.0 for rounds in (3, 4)]
    accountant = LedgerAccountant(config(max_epsilon=_between(mu)))
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = ArrayRecord({"weight": Array(np.ones(3, np.float32))})
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    plain = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    strategy = DifferentialPrivacyServerSideFixedClipping(
        plain, 4.0, 1.0, 3, accountant=accountant
    )
    arrays = ArrayRecord({"weight": Array(np.zeros(3, np.float32))})
    with pytest.raises(Exception, match="would exceed max_epsilon"):
        strategy.start(grid=DirectGrid(app, nodes=range(3)), initial_arrays=arrays, num_rounds=9)
    assert accountant.num_releases == 3


def _between(mu: list[float]) -> float:
    """An ε between those of two Gaussian mechanisms at δ = 1e-5, by bisection."""
    epsilons = []
    for one in mu:
        low, high = 0.0, 100.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if delta_of(one, middle) > 1e-5 else (low, middle)
        epsilons.append(high)
    return sum(epsilons) / 2
