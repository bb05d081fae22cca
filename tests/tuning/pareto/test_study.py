"""Studies: a grid by turns, trials that resume, owners that share, storages that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tuning.pareto.toy_points import toy

from trilemma.errors import InvalidInput
from trilemma.tuning.pareto.study import Study, grid_point
from trilemma.tuning.results.pareto_front import SamplerName
from trilemma.tuning.results.points import Point


def test_the_grid_takes_turns() -> None:
    found = [grid_point(["a", "b"], ["c"], number) for number in range(9)]
    assert [name for name, _ in found].count("c") == 1
    assert [strength for name, strength in found if name == "b"] == [0, 1, 0.5, 0.25]
    assert grid_point([], ["c", "d"], 3) == ("d", 0.0)


def study(path: Path, sampler: SamplerName, owner: str | None = None) -> Study:
    return Study(
        f"sqlite:///{path}",
        "test",
        sampler=sampler,
        tuned=["a", "b"],
        untuned=["c"],
        seed=3,
        owner=owner,
    )


def worked(trials: Study, count: int) -> list[tuple[str, float]]:
    while choices := trials.choices(count, at_once=1):
        for choice in choices:
            trials.finish(choice, toy(choice.family, choice.place))
    return [(point.family, point.place or 0.0) for point in trials.points()]


@pytest.mark.parametrize("sampler", ["grid", "motpe", "nsga2"])
def test_a_study_goes_on_as_if_it_had_never_stopped(tmp_path: Path, sampler: SamplerName) -> None:
    with study(tmp_path / "calm", sampler) as trials:
        calm = worked(trials, 13)
    for count in (3, 11):
        with study(tmp_path / "rough", sampler) as trials:
            worked(trials, count)
            trials.choices(count + 1, at_once=1)  # killed before it is finished
    with study(tmp_path / "rough", sampler) as trials:
        assert worked(trials, 13) == calm
    assert len(set(calm)) >= 11, "not the same point again and again"


@pytest.mark.parametrize("sampler", ["grid", "motpe"])
def test_two_owners_share_a_study(tmp_path: Path, sampler: SamplerName) -> None:
    with (
        study(tmp_path / "db", sampler, "me") as mine,
        study(tmp_path / "db", sampler, "you") as yours,
    ):
        (held,) = mine.choices(6, at_once=1)
        found = worked(yours, 5)
        assert (held.family, held.place) not in found, "no point is measured twice"
        (again,) = mine.choices(6, at_once=1)
        assert again.trial.number == held.trial.number
        mine.finish(again, Point(again.family, again.place, note="It diverged."))
        assert not yours.choices(6, at_once=1)
        assert [point.note for point in mine.points()].count("It diverged.") == 1
        assert len(mine.points()) == 6


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "no database URL"),
        ("sqlite:////no/such/folder/x.sqlite", "cannot use the storage"),
        ("oracle://scott:tiger@host/x", "driver that is not installed"),
    ],
)
def test_a_bad_storage_is_one_sentence_without_the_password(url: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error:
        Study(url, "x", sampler="grid", tuned=["a"], untuned=[], seed=0)
    assert "tiger" not in str(error.value)
    assert "\n" not in str(error.value)
