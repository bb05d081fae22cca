"""Time left: units that are left times what was measured, or its next of kin."""

from __future__ import annotations

import pytest

from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.forecasting.forecast import Forecast
from trilemma.tuning.forecasting.kinds import Kind

ONE = Kind("games", ("dlg",), 1, "plain")
LONG = Kind("games", ("dlg",), 100, "plain")
BOTH = Kind("games", ("map", "dlg"), 1, "plain")
TRAIN = Kind("trainings", (), 100, "plain")
VIEWS = {1: 1.0, 100: 4.0}


def games(stream: str, kind: Kind, count: int = 16) -> AttackJob:
    return AttackJob(stream, "none", kind.attacks, Adversary.SERVER, kind.rounds, 0, count)


def test_what_was_measured_is_multiplied_by_what_is_left() -> None:
    forecast = Forecast({ONE: 40, TRAIN: 3}, VIEWS, workers=2)
    assert forecast.left() is None
    forecast.finished(games("x", ONE), 8.0)
    forecast.finished(TrainJob("none", 0, 100), 5.0)
    assert forecast.left() == pytest.approx(((40 - 16) * 0.5 + 2 * 5.0) / 2)
    forecast.kept(games("x", ONE, 24))
    assert forecast.left() == pytest.approx(5.0), "what an earlier process did costs nothing more"
    forecast.kept(games("x", ONE, 24))
    assert forecast.left() == pytest.approx(5.0), "more than expected is not negative"


def test_what_was_not_measured_follows_its_next_of_kin() -> None:
    forecast = Forecast({LONG: 10}, VIEWS)
    forecast.finished(games("control", BOTH), 32.0)
    assert forecast.speed(ONE) == pytest.approx(1.0), "two attacks share their time"
    assert forecast.left() == pytest.approx(10 * 4.0), "four views a game"
    forecast.finished(games("x", ONE, 1), 3.0)
    assert forecast.left() == pytest.approx(10 * 12.0), "its own time is better evidence"
    forecast.finished(games("x", LONG, 1), 5.0)
    assert forecast.left() == pytest.approx(9 * 5.0)
    half = Kind("trainings", (), 50, "plain")
    assert forecast.speed(half) == 0.0
    forecast.finished(TrainJob("none", 0, 100), 6.0)
    assert forecast.speed(half) == pytest.approx(3.0)


def test_the_forecast_is_news_once_and_after_the_control() -> None:
    forecast = Forecast({BOTH: 16, ONE: 1200}, VIEWS)
    forecast.finished(games("noise, attempt 0", ONE), 16.0)
    assert forecast.news() == ""
    forecast.finished(games("control", BOTH), 32.0)
    assert forecast.news() == "about 20 min from here with one process: some 1,216 games in all"
    assert forecast.news() == ""


def test_what_is_expected_is_asked_anew_after_the_control_and_ever_more_seldom() -> None:
    answers = iter(({ONE: 100}, None, {ONE: 60}))
    forecast = Forecast({BOTH: 16, ONE: 1200}, VIEWS, anew=lambda: next(answers))
    forecast.finished(games("x", ONE, 10), 10.0)
    assert forecast.expected[ONE] == 1200, "not before the control is done"
    forecast.finished(games("control", BOTH), 32.0)
    assert forecast.left() == pytest.approx(90.0)
    forecast.finished(games("x", ONE, 10), 10.0)
    assert forecast.expected[ONE] == 100, "a course that is not taken changes nothing"
    forecast.finished(games("x", ONE, 10), 10.0)
    assert forecast.left() == pytest.approx(30.0)
    forecast.finished(games("x", ONE, 1), 1.0)
    assert forecast.expected[ONE] == 60, "five tasks are not much more than four"


def test_tasks_in_words() -> None:
    forecast = Forecast({ONE: 60}, VIEWS)
    forecast.kept(games("x", ONE, 24))
    noise = "randomization:variance=0.00312345"
    task = AttackJob("noise, attempt 0", noise, ("dlg",), Adversary.SERVER, 1, 0, 16)
    assert forecast.said(task) == (
        "testing noise of variance 0.00312 with dlg over one round: 24 of about 60 games"
    )
    control = games("control", BOTH)
    assert forecast.said(control) == "attacking unprotected updates with 2 attacks over one round"
    for other, said in (
        (TrainJob(noise, 0, 9), "training under noise of variance 0.00312"),
        (CostJob(noise, 6), "timing rounds under noise of variance 0.00312"),
        (games("gallery, verdict", ONE), "drawing unprotected updates with dlg"),
        (games("rounds", ONE), "measuring unprotected updates with dlg"),
        (
            BeliefJob("b", noise, ("map",), Adversary.SERVER, 1, 0, 1, 1),
            "asking map what they believe",
        ),
    ):
        assert forecast.said(other).startswith(said)
