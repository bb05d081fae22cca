"""The suite of some knowledge plays the same games; who fails names those that did better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import binomtest
from tests.cli.own_scenario import small
from tests.tuning.simulating import Simulated

from trilemma.errors import InvalidInput
from trilemma.game.estimates import success_rate
from trilemma.game.playing.claims import Claim
from trilemma.protection.specs import parse_protection
from trilemma.tuning import attack_rates

EFFORT: dict[str, Any] = {"units": 24, "restarts": 1, "seed": 0}


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_rates, "JobRunner", Simulated)


def test_every_attack_of_the_rung_without_and_under_a_protection() -> None:
    noise = parse_protection("randomization:variance=0.001")
    found = attack_rates.rate(small, knows="candidates", protection=noise, **EFFORT)
    assert {item.attack for item in found.rated} == {
        *(
            "gaussian-posterior",
            "linkage",
            "map",
            "dlg",
            "inverting-gradients",
            "idlg",
            "analytic",
        ),
    }
    assert all(item.won == item.units == 24 for item in found.rated)
    lead = next(item for item in found.rated if item.attack == "gaussian-posterior")
    assert lead.protected is not None
    assert 5 <= lead.protected <= 19, "half, by the law of the simulation"
    assert lead.protected_success is not None
    exact = binomtest(lead.protected, 24).proportion_ci(0.95)
    assert lead.protected_success.high == pytest.approx(exact.high)
    assert found.claim.candidates == 80
    assert found.pictures is None
    assert found.failed() == []


def test_pictures_of_what_may_be_shown() -> None:
    shown = small(show_records=True)
    found = attack_rates.rate(shown, knows="nothing", attacks=["analytic"], **EFFORT)
    assert found.pictures is not None
    assert len(found.pictures["analytic"]["none"].target) == 8


def test_who_fails_names_the_better_ones() -> None:
    def rated(name: str, won: int) -> attack_rates.Rated:
        return attack_rates.Rated(name, "nothing", 20, won, success_rate(won, 20))

    three = rated("map", 18), rated("dlg", 1), rated("idlg", 0)
    made = attack_rates.Ratings(small(), "nothing", "none", Claim(1, 100), three, None)
    dlg, idlg = made.failed()
    assert dlg.startswith("dlg is right in 1 of 20 games without protection, not shown to be")
    assert dlg.endswith("better: map (18 of 20).")
    assert idlg.endswith("better: map (18 of 20), dlg (1 of 20).")
    alone = replace(made, rated=(rated("dlg", 0),))
    assert alone.failed()[0].endswith("no other attack does better.")


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match=r"units .games to play. must be at least 1, got 0"):
        attack_rates.rate(small, knows="nothing", units=0, restarts=1, seed=0)
    with pytest.raises(InvalidInput, match="needs the knowledge"):
        attack_rates.rate(small, knows="nothing", attacks=["map"], **EFFORT)
