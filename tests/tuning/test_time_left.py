"""Time left: units that are still possible times what a unit has taken; and what is not known."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from trilemma.execution.pool import Spent
from trilemma.game.jobs import AttackJob, BeliefJob, CostJob, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.time_left import Kind, Left, Range, Remaining, amount_of, kind_of

GAMES = AttackJob("s", "none", ("dlg",), Adversary.SERVER, 1, 0, 10)
DLG, MAP = (Kind("games", (name,)) for name in ("dlg", "map"))
TRAINING = Kind("trainings", rounds=60)


def test_jobs_that_cost_alike_are_of_one_kind_and_counted_in_its_units() -> None:
    summed = replace(GAMES, protection="randomization:variance=0.1+secret-sharing", first=10)
    assert kind_of(GAMES) == DLG
    assert kind_of(replace(GAMES, first=90, stream="t")) == DLG
    assert kind_of(summed) == Kind("games", ("dlg",), 1, "secret-sharing")
    assert amount_of(GAMES) == 10
    belief = BeliefJob("s", "none", ("map",), Adversary.SERVER, 8, 0, 4, 6)
    assert (kind_of(belief), amount_of(belief)) == (Kind("beliefs", ("map",), 8), 24)
    assert kind_of(TrainJob("secret-sharing", 3, 60)) == TRAINING
    assert amount_of(TrainJob("none", 0, 60)) == 1
    timed = CostJob("paillier", 6)
    assert (kind_of(timed), amount_of(timed)) == (Kind("timings", carrier="paillier"), 6)


def played(remaining: Remaining, procedure: str, job: AttackJob, cpu: float) -> None:
    remaining.begun(procedure, job)
    remaining.finished(job, Spent(cpu, cpu))


def test_what_is_left_is_what_is_possible_less_what_is_done() -> None:
    work = {"a": {DLG: Range(20, 50)}, "b": {DLG: Range(0, 40)}}
    remaining = Remaining(work, 2)
    assert remaining.left() is None
    assert remaining.said() == "20 to 90 games are usual"
    played(remaining, "a", GAMES, 5.0)  # half a second a game
    assert remaining.left() == Left(0.5 * 10 / 2, 0.5 * (40 + 40) / 2, ())
    assert remaining.said() == "2 to 20 s left"
    played(remaining, "b", replace(GAMES, stream="t"), 5.0)
    assert remaining.left() == Left(0.5 * 10 / 2, 0.5 * (40 + 30) / 2, ())
    remaining.ended("b")
    assert remaining.left() == Left(0.5 * 10 / 2, 0.5 * 40 / 2, ())
    remaining.ended("a")
    assert remaining.left() == Left(0.0, 0.0, ())


def test_work_ends_with_its_time() -> None:
    remaining = Remaining({"a": {DLG: Range(20, 90)}})
    played(remaining, "a", GAMES, 100.0)
    assert remaining.said() == "1.7 to 13 min left"
    remaining.end_at(time.monotonic() + 60.5)
    assert remaining.said() == "at most 60 s left"
    remaining.end_at(time.monotonic() - 5)
    assert remaining.said() == "at most 0 s left"
    remaining.end_at(None)
    assert remaining.said() == "1.7 to 13 min left"


def test_what_an_earlier_process_did_is_done_and_was_not_timed() -> None:
    remaining = Remaining({"a": {DLG: Range(20, 50)}})
    remaining.kept("a", GAMES)
    assert remaining.left() is None
    played(remaining, "a", replace(GAMES, first=10), 20.0)
    assert remaining.left() == Left(0.0, 2.0 * 30, ())


def test_a_search_that_has_taken_what_it_usually_does_may_take_as_much_again() -> None:
    remaining = Remaining({"a": {DLG: Range(5, 10)}})
    played(remaining, "a", GAMES, 10.0)
    assert remaining.left() == Left(0.0, 0.0, ())
    played(remaining, "a", replace(GAMES, first=10, count=15), 15.0)
    assert remaining.left() == Left(0.0, 5.0, ())


def test_what_was_not_timed_is_taken_from_its_next_of_kin_by_the_rounds_that_are_read() -> None:
    longer = replace(DLG, rounds=60)
    remaining = Remaining({"a": {DLG: Range(10, 10), longer: Range(5, 5)}}, share=0.1)
    played(remaining, "a", GAMES, 10.0)
    assert remaining.left() == Left(5 * 6.0, 5 * 6.0, ()), "six of sixty rounds hold the record"
    played(remaining, "a", replace(GAMES, stream="t", rounds=60, count=1), 2.0)
    assert remaining.left() == Left(4 * 2.0, 4 * 2.0, ()), "measured"
    assert remaining.seconds(MAP) == 1.0, "another attack, until it was made"
    assert remaining.seconds(Kind("games", ("map", "dlg"))) == 2.0


def test_what_is_like_nothing_that_was_timed_is_left_out_and_named() -> None:
    work = {"a": {DLG: Range(20, 20), TRAINING: Range(2, 4), Kind("timings"): Range(0, 0)}}
    remaining = Remaining(work)
    played(remaining, "a", GAMES, 10.0)
    assert remaining.left() == Left(10.0, 10.0, ("trainings",))
    assert remaining.said() == "about 10 s without trainings left"
    half = TrainJob("none", 0, 30)
    remaining.begun("a", half)
    remaining.finished(half, Spent(3.0, 3.0))
    assert remaining.left() == Left(10.0 + 2 * 6.0, 10.0 + 4 * 6.0, ()), "by its rounds"


def test_other_work_may_be_expected_and_units_keep_their_seconds() -> None:
    remaining = Remaining({"a": {DLG: Range(20, 20)}})
    played(remaining, "a", GAMES, 10.0)
    remaining.expect({"b": {DLG: Range(3, 3)}})
    assert remaining.left() == Left(3.0, 3.0, ())


def test_seconds_that_were_measured_before_count() -> None:
    assert Remaining({"a": {DLG: Range(2, 4)}}, seconds={DLG: 3.0}).left() == Left(6.0, 12.0, ())


@pytest.mark.parametrize(("wall", "busy"), [(11.0, False), (16.0, True)])
def test_a_busy_machine_is_told(wall: float, busy: bool) -> None:
    remaining = Remaining({"a": {DLG: Range(20, 20)}})
    remaining.begun("a", GAMES)
    remaining.finished(GAMES, Spent(wall, 10.0))
    assert remaining.left() == Left(10.0, 10.0, ()), "of CPU, whatever the clock says"
    assert ("; this machine is busy: " in remaining.said()) is busy
