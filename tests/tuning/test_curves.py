"""Curves: where they are measured, what they hold, that they resume, and who is shown records."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.commands.own_scenario import shown, small
from tests.tuning.test_certificate import SETTING

from trilemma.beliefs.belief import bernoulli_leakage
from trilemma.beliefs.recovery import Criterion
from trilemma.errors import InvalidInput
from trilemma.estimation.fisher import predict
from trilemma.estimation.tasks import AttackTask, Bench
from trilemma.estimation.units import Measurement, unit_views
from trilemma.observations import Adversary
from trilemma.tuning.calibrating.outcomes import UNPROTECTED, Calibration, Outcome
from trilemma.tuning.calibrating.success_curve import CurveSummary
from trilemma.tuning.choosing.families import Family, families
from trilemma.tuning.fronts.curves import grid
from trilemma.tuning.fronts.points import Evaluated
from trilemma.tuning.plan import Effort
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.gallery import Gallery
from trilemma.tuning.results.verdict import Verdict
from trilemma.tuning.tune import tune
from trilemma.work.journal import Run

QUICK = Effort(restarts=1, rounds=2, seeds=2, strengths=3)
MECHANISMS = ["randomization", "bounded-masks", "secret-sharing", "paillier"]


def noise() -> Family:
    (family,) = families(SETTING, Adversary.SERVER, ["randomization"])
    return family


def calibration(x: float | None, curve: CurveSummary | None) -> Calibration:
    outcome = Outcome.NOT_CERTIFIED if x is None else Outcome.CERTIFIED
    return Calibration(outcome, 0.3, 0.05, x, (), 0, "", curve)


@pytest.mark.parametrize("x", [None, 0.3, -1.5, 1.9])
def test_a_grid_spans_the_fall_and_the_strength_found(x: float | None) -> None:
    curve = CurveSummary(mu=0.2, sd=0.1, floor=0.0, ceiling=1.0)
    found = grid(noise(), calibration(x, curve), 6)
    assert len(found) == 6
    assert np.allclose(np.diff(found, 2), 0)
    assert found[0] <= 0.0 < 0.4 <= found[-1], "two standard deviations either side"
    if x is not None:
        assert found[0] <= x <= found[-1]


@pytest.mark.parametrize("mu", [-3.0, 1.95, 3.0])
def test_a_grid_stays_where_the_mechanism_can_go(mu: float) -> None:
    low, high = noise().domain
    found = grid(noise(), calibration(None, CurveSummary(mu, 0.1, 0.0, 1.0)), 4)
    assert low <= found[0] < found[-1] <= high


def test_what_is_not_needed_has_no_grid() -> None:
    curve = CurveSummary(0.2, 0.1, 0.0, 1.0)
    assert grid(noise(), calibration(UNPROTECTED, curve), 6) == ()
    assert grid(noise(), calibration(0.2, None), 6) == ()
    assert grid(noise(), calibration(0.2, curve), 0) == ()


def tuned(folder: Path, source: Any = shown, effort: Effort = QUICK, **how: Any) -> Verdict:
    with Run(folder, {}) as run:
        return tune(
            source,
            Problem(0.6, efficiency_weight=0.0),
            **{"protections": MECHANISMS, "attacks": ["analytic", "idlg"], **how},
            effort=effort,
            run=run,
            data_key=run.key("data"),
        )


def chunks(folder: Path) -> dict[tuple[str, int], bytes]:
    with closing(sqlite3.connect(folder / "journal.sqlite")) as journal:
        rows = journal.execute("SELECT stage, chunk, payload FROM chunks").fetchall()
    return {(stage, chunk): payload for stage, chunk, payload in rows}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """First without curves, as a verdict of version 1 was made, then with them."""
    made: Path = tmp_path_factory.mktemp("run")
    tuned(made, effort=Effort(restarts=1, rounds=2, seeds=2, strengths=0)).save(made / "old.json")
    return made


@pytest.fixture(scope="module")
def verdict(folder: Path) -> Verdict:
    before, old = chunks(folder), Verdict.load(folder / "old.json")
    found = tuned(folder)
    assert before.items() <= chunks(folder).items(), "nothing is measured again"
    assert (old.candidates, old.chosen) == (found.candidates, found.chosen)
    assert (old.curves, old.predictions) == ((), ())
    found.save(folder / "verdict.json")
    return found


def curve(verdict: Verdict, mechanism: str) -> list[Evaluated]:
    return [each for each in verdict.curves if each.mechanism == mechanism]


def test_a_curve_shows_the_fall(verdict: Verdict) -> None:
    points = curve(verdict, "randomization")
    chosen = next(each for each in verdict.candidates if each.name == "randomization")
    at = [each for each in points if each.parameter == chosen.parameter]
    grid_points = [each for each in points if each.parameter != chosen.parameter]
    assert (len(at), len(grid_points)) == (1, 3)
    assert all(a.strength < b.strength for a, b in pairwise(points) if a.strength and b.strength)
    rates = [each.recovered / each.units for each in grid_points]
    assert rates[0] > 0.6
    assert rates[-1] < 0.4
    passed = [each for each in chosen.points if each.passed][-1]
    assert (at[0].recovered, at[0].units) == (passed.recovered, passed.units), "free of cost"
    assert at[0].leakage == chosen.leakage
    for each in points:
        assert set(each.by_attack) == {"analytic", "idlg"}
        assert max(each.by_attack.values()) <= each.recovered <= sum(each.by_attack.values())
        assert each.protection == f"randomization:variance={each.parameter!r}"


def test_points_without_a_strength(verdict: Verdict) -> None:
    (none,), (summed,), (key,) = (
        curve(verdict, name) for name in ("none", "secret-sharing", "paillier")
    )
    assert verdict.curves[0] == none
    assert none.recovered == none.units == 24
    assert none.utility_loss is not None
    assert none.efficiency_reduction is not None
    assert none.utility_loss.value == none.efficiency_reduction.value == 0
    costs = {each.name: each.costs for each in verdict.candidates}
    key_costs = costs["paillier"]
    assert key_costs is not None
    assert (none.metric, none.bits) == (key_costs.unprotected_metric, key_costs.unprotected.bits)
    assert (key.metric, key.bits) == (key_costs.protected_metric, key_costs.protected.bits)
    assert (key.basis, key.leakage, key.units) == ("cryptographic", None, 0)
    tested = next(each for each in verdict.candidates if each.name == "secret-sharing").points[-1]
    assert (summed.recovered, summed.units) == (tested.recovered, tested.units)
    assert summed.metric is not None
    assert not curve(verdict, "bounded-masks"), "not to be deployed"


def test_predictions_are_those_of_the_sensitivities(verdict: Verdict) -> None:
    ends = [each.parameter for each in curve(verdict, "randomization")]
    assert {each.mechanism for each in verdict.predictions} == {"randomization"}
    values = [each.parameter for each in verdict.predictions]
    assert (min(values), max(values)) == pytest.approx((ends[0], ends[-1]))
    scenario, threshold = shown(), verdict.federation.criterion.threshold
    found = predict(*unit_views(scenario, Measurement(seed=0), range(8)))
    width = scenario.input_spec.high - scenario.input_spec.low
    for each in verdict.predictions:
        mse = each.parameter * found.sensitivities.numpy()
        expected = np.mean(20 * np.log10(width / np.sqrt(mse)) > threshold)
        assert each.success == pytest.approx(float(expected))
        assert each.leakage == bernoulli_leakage(each.success)
    assert verdict.predictions[0].success > verdict.predictions[-1].success


def test_a_verdict_and_a_gallery_resume_to_the_same(folder: Path, verdict: Verdict) -> None:
    before, gallery = chunks(folder), Gallery.load(folder / "gallery.json")
    (folder / "gallery.json").unlink()
    assert tuned(folder).as_json() == verdict.as_json()
    assert chunks(folder) == before
    assert Gallery.load(folder / "gallery.json") == gallery


def test_a_gallery_shows_the_same_records_from_weak_to_strong(
    folder: Path, verdict: Verdict
) -> None:
    gallery = Gallery.load(folder / "gallery.json")
    labels = [each.label for each in gallery.columns]
    assert labels[:2] == ["unprotected", "paper's optimum"]
    assert labels.count("verdict") == 1
    assert labels.count("") == 3
    values = [each.parameter for each in gallery.columns[1:]]
    assert values == sorted(values, key=lambda value: value or 0.0)
    assert {each.mechanism for each in gallery.columns[1:]} == {"randomization"}
    assert verdict.chosen == "randomization"
    (choice,) = (each for each in gallery.columns if each.label == "verdict")
    assert verdict.protection is not None
    assert choice.protection == verdict.protection.describe()
    records = torch.cat([client.inputs for client in shown().records]).double()
    low, high = gallery.low, gallery.high
    levels = torch.round(255 * (records - low) / (high - low)).int().tolist()
    assert gallery.shape == (1, 1, 6)
    assert len(gallery.originals) == 4
    assert all(list(original) in levels for original in gallery.originals)
    for column in gallery.columns[2:]:
        error = np.array(column.recoveries, dtype=float) - np.array(gallery.originals)
        expected = 20 * np.log10(255) - 10 * np.log10((error**2).mean(axis=1))
        assert column.psnr == pytest.approx(expected, abs=0.5), "up to the rounding of levels"
    means = [np.mean(each.psnr) for each in gallery.columns]
    assert means[0] > 40 > means[-1]


def test_no_picture_is_made_or_journaled_where_records_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "gallery.json").write_text("{}")
    found = tuned(tmp_path, small, protections=["randomization"])
    assert found.protection is not None
    assert found.curves
    assert not found.show_records
    assert not (tmp_path / "gallery.json").exists(), "an old one goes too"
    for (stage, _), payload in chunks(tmp_path).items():
        assert "shown" not in stage
        assert b"originals" not in payload
        assert b"recoveries" not in payload
    task = AttackTask("x", "none", "analytic", Adversary.SERVER, 0, 6, pictures=4)
    asked = [json.loads(Bench(make, Criterion(), 1, 2, 0)()(task)) for make in (small, shown)]
    assert [("originals" in each, "recoveries" in each) for each in asked] == [
        (False, False),
        (True, True),
    ]


SUMMED = "compression+secret-sharing"


@pytest.mark.parametrize(
    ("mechanism", "adversary", "labels"),
    [
        ("paillier", Adversary.SERVER, ["unprotected"]),
        (SUMMED, Adversary.SERVER, ["", "", "paper's optimum", "unprotected", "verdict"]),
        (SUMMED, Adversary.CLIENT, ["", "", "paper's optimum", "unprotected", "verdict"]),
    ],
)
def test_a_gallery_of_sums_and_of_what_nobody_reads(
    tmp_path: Path, mechanism: str, adversary: Adversary, labels: list[str]
) -> None:
    many = partial(small, 3, show_records=True)
    effort = Effort(restarts=1, rounds=2, seeds=2, strengths=2)
    found = tuned(tmp_path, many, effort, protections=[mechanism], adversary=adversary)
    assert found.chosen == mechanism
    gallery = Gallery.load(tmp_path / "gallery.json")
    assert sorted(each.label for each in gallery.columns) == labels
    assert gallery.columns[0].label == "unprotected"
    shares = [each.parameter for each in gallery.columns[1:]]
    assert shares == sorted(shares, key=lambda share: -(share or 0.0)), "less and less is kept"


def test_a_certificate_has_a_gallery_but_no_curves(tmp_path: Path) -> None:
    effort = Effort(restarts=1, rounds=2, seeds=2, kappa=0.1)
    found = tuned(tmp_path, effort=effort, basis="certified", protections=None)
    assert (found.curves, found.predictions) == ((), ())
    gallery = Gallery.load(tmp_path / "gallery.json")
    assert [each.label for each in gallery.columns] == ["unprotected", "verdict"]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "[]", "no gallery of version 1"),
        (lambda text: text.replace('"gallery_version": 1', '"gallery_version": 2'), "version 1"),
        (lambda text: text.replace('"low"', '"floor"'), "is wrong"),
        (lambda text: text.replace('"low": 0', '"low": -', 1), "not a whole JSON file"),
        (lambda text: text.replace('"high": 0', '"high": [], "x": 0', 1), "is wrong"),
        (lambda text: text.replace('"psnr": [', '"psnr": [1.0,', 1), "one recovery a record"),
        (lambda text: text.replace('"recoveries": [', '"recoveries": [[999],', 1), "is wrong"),
    ],
)
def test_a_spoilt_gallery_gets_one_sentence(
    folder: Path, verdict: Verdict, tmp_path: Path, spoil: Any, word: str
) -> None:
    text = (folder / "gallery.json").read_text()
    assert spoil(text) != text
    (tmp_path / "gallery.json").write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Gallery.load(tmp_path / "gallery.json")
    assert "\n" not in str(error.value)
    assert "trilemma tune" in str(error.value)


def test_bad_strengths() -> None:
    with pytest.raises(InvalidInput, match="0 for none, or at least 2, got 1"):
        Effort(strengths=1)
