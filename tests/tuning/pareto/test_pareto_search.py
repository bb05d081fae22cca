"""Measured fronts: what they hold, that they resume, and that a file is what was written."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest
from tests.cli.own_scenario import small
from tests.tuning.simulating import simulate

from trilemma.errors import InvalidInput, UnknownName
from trilemma.execution.journal import Run
from trilemma.tuning.families.family_setting import Setting
from trilemma.tuning.pareto.front_geometry import hypervolume
from trilemma.tuning.pareto.front_result import REFERENCE
from trilemma.tuning.pareto.pareto_search import pareto
from trilemma.tuning.results.pareto_front import Front

ROOT = Path(__file__).parents[3]
ASKED: dict[str, Any] = {"attacks": ("gaussian-posterior",), "seeds": 2, "steps": 2}
NAMES = ("randomization", "bounded-masks", "secret-sharing", "paillier")


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch)


@pytest.fixture(scope="module")
def front() -> Front:
    with pytest.MonkeyPatch.context() as patch:
        simulate(patch)
        return pareto(small, families=NAMES, evaluations=8, units=10, **ASKED)


def test_what_a_front_holds(front: Front) -> None:
    names = [point.family for point in front.points]
    assert names[0] == "none"
    assert sorted(names[1:3]) == ["paillier", "secret-sharing"]
    assert (len(names), front.evaluations, front.wanted) == (9, 8, 8)
    for point in front.points:
        assert point.units == (0 if point.family == "paillier" else 10)
        if point.leakage is not None:
            assert point.leakage.low <= point.leakage.value <= point.leakage.high
    noise = {point.place: point for point in front.points if point.family == "randomization"}
    assert noise[0.0].recovered > noise[1.0].recovered
    best = [front.points[place].objectives for place in front.front]
    assert front.knee in front.front
    assert front.hypervolume == hypervolume([item for item in best if item], REFERENCE)
    assert front.attacks == ("gaussian-posterior",)
    assert (front.claim.rounds, front.claim.candidates) == (60, 21)


def test_the_limits_say_that_a_front_is_an_estimate(front: Front) -> None:
    assert "not a certificate" in front.limits[0]
    assert front.limits[-1].endswith("what a curious client gets is not measured.")


def test_a_front_survives_its_file(front: Front, tmp_path: Path) -> None:
    front.save(tmp_path / "pareto.json")
    assert Front.load(tmp_path / "pareto.json") == front
    document = json.loads((tmp_path / "pareto.json").read_text())
    jsonschema.validate(document, Front.schema())
    assert document["schema_version"] == 4


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "docs" / "pareto.schema.json").read_text())
    assert published == Front.schema(), "write Front.schema() to docs/pareto.schema.json"


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda text: text[: len(text) // 2], "not a whole JSON file"),
        (lambda text: "3", "no front of version 4"),
        (
            lambda text: text.replace('"schema_version": 4', '"schema_version": 3'),
            "of version 3, .* run the same trilemma pareto command again with --fresh",
        ),
        (lambda text: text.replace('"sampler": "grid"', '"sampler": "dice"'), "sampler"),
        (lambda text: text.replace('"knee"', '"need"'), "is wrong"),
    ],
)
def test_a_truncated_or_foreign_file_gets_one_sentence(
    front: Front, tmp_path: Path, spoil: Any, word: str
) -> None:
    path = tmp_path / "pareto.json"
    front.save(path)
    text = path.read_text()
    assert spoil(text) != text
    path.write_text(spoil(text))
    with pytest.raises(InvalidInput, match=word) as error:
        Front.load(path)
    assert "\n" not in str(error.value)


def test_a_front_goes_on_where_it_was(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although what is measured of the federation differs from process to process."""
    seen: list[Front] = []
    measured_before = Setting.of

    def measured(evaluations: int) -> Front:
        with Run.open(tmp_path, {}) as run:
            return pareto(
                small,
                families=NAMES,
                evaluations=evaluations,
                units=10,
                storage=f"sqlite:///{tmp_path / 'study.sqlite'}",
                run=run,
                report=seen.append,
                **ASKED,
            )

    few = measured(3)

    def otherwise(*arguments: Any, **given: Any) -> Setting:
        found = measured_before(*arguments, **given)
        return replace(found, spread=1.001 * found.spread)

    monkeypatch.setattr(Setting, "of", otherwise)
    all_ = measured(8)
    assert few.points == all_.points[: len(few.points)]
    assert all_.points == front.points
    assert [item.evaluations for item in seen] == list(range(1, 9)), "told after every point"


@pytest.mark.parametrize("sampler", ["motpe", "nsga2"])
def test_optuna_picks_points_against_a_curious_client(sampler: Any) -> None:
    found = pareto(
        small,
        families=("randomization", "secret-sharing"),
        adversary="client",
        evaluations=4,
        units=4,
        sampler=sampler,
        **ASKED,
    )
    assert found.evaluations == 4
    assert all(0 <= (point.strength or 0) <= 1 for point in found.points)
    assert found.limits[-1].startswith("A curious client is the adversary")


def test_a_point_without_costs_is_not_on_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(monkeypatch, diverging=("randomization",))
    found = pareto(small, families=("randomization",), evaluations=2, units=4, **ASKED)
    lost = [n for n, point in enumerate(found.points) if point.family == "randomization"]
    assert len(lost) == 2
    assert not set(lost) & set(found.front)
    assert all("diverged" in found.points[n].note for n in lost)


def test_bad_arguments() -> None:
    with pytest.raises(UnknownName, match="sampler"):
        pareto(small, sampler="random", **ASKED)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="evaluations"):
        pareto(small, evaluations=0, **ASKED)
    with pytest.raises(InvalidInput, match="confidence"):
        pareto(small, confidence=1.0, **ASKED)
    with pytest.raises(InvalidInput, match="name at least one"):
        pareto(small, families=(), **ASKED)


def test_a_shared_study_holds_one_scenario_and_one_kind_of_settings(tmp_path: Path) -> None:
    """Another model, or another effort, on the same storage begins a study of its own."""
    asked: dict[str, Any] = {**ASKED, "families": ("secret-sharing",), "evaluations": 1}
    storage = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    pareto(small, storage=storage, units=4, **asked)
    for change in ({"units": 5}, {"units": 4, "restarts": 2}, {"units": 4, "seed": 1}):
        pareto(small, storage=storage, **{**asked, **change})
    pareto(partial(small, clients=3), storage=storage, units=4, **asked)
    pareto(replace(small(), server_decay=True), storage=storage, units=4, **asked)
    pareto(small, storage=storage, units=4, budget=0.5, **asked)  # a front has no budget
    names = optuna.get_all_study_names(storage)
    assert len(names) == 6


def test_no_front_is_measured_for_anyone() -> None:
    with pytest.raises(InvalidInput, match=r"measured.*tune with knows='anyone'"):
        pareto(small(), knows="anyone")
