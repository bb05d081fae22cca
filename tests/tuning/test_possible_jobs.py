"""What a tuning may want, against what simulated ones want."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from tests.cli.own_scenario import small
from tests.tuning.simulating import Simulated, runner

from trilemma.game.jobs import Job
from trilemma.tuning.choice.choose import attacked, certain, choose, controls
from trilemma.tuning.plan import Plan
from trilemma.tuning.possible_jobs import possible_further, possible_jobs
from trilemma.tuning.request import Request
from trilemma.tuning.time_left import Work, amount_of, kind_of
from trilemma.tuning.tuning_run import further_procedures

SOURCE = partial(small, 3, show_records=True)
ALL = ("randomization", "secret-sharing", "compression", "randomization+paillier", "paillier")


def amounts(jobs: list[Job]) -> Counter[str]:
    """Units of work, each job once."""
    work: Counter[str] = Counter()
    for job in {job.key: job for job in jobs}.values():
        work[kind_of(job).what] += amount_of(job)
    return work


def bounds(works: dict[str, Work], end: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for work in works.values():
        for kind, count in work.items():
            total[kind.what] += count[end]
    return total


@pytest.mark.parametrize(
    "settings",
    [
        {"families": ALL}, {"families": ALL, "basis": "measured"},
        {"families": ALL, "basis": "measured", "preset": "quick"},
        {"families": ALL[:2], "basis": "measured", "adversary": "client"},
        {"knows": "anyone", "participation": "known", "families": ("randomization",)},
    ],
)  # fmt: skip
def test_no_less_is_wanted_than_is_said_and_hardly_ever_more(settings: dict[str, Any]) -> None:
    attacks = None if settings.get("knows") == "anyone" else ("gaussian-posterior", "analytic")
    plan = Plan.of(SOURCE, Request(attacks=attacks, steps=2, seeds=2, strengths=2, **settings))
    first: list[Job] = []
    run = runner(Simulated(SOURCE, None, 1, 2, 0), first)
    procedures = {**certain(plan), **attacked(plan)}
    choice = choose(plan, {name: run(item) for name, item in procedures.items()}, {})
    possible = possible_jobs(plan, pictures=True)
    after = possible_further(plan, pictures=True)
    before = {name: work for name, work in possible.items() if name not in after}
    assert set(possible) == {*before, *after}
    wanted, least, most = amounts(first), bounds(before, 0), bounds(before, 1)
    for what in ("games", "trainings", "timings"):
        assert least[what] <= wanted[what] <= most[what], what
    further: list[Job] = []
    run = runner(Simulated(SOURCE, None, 1, 2, 0), further)
    rest = {**further_procedures(plan, choice, pictures=True), **controls(plan)}
    for procedure in rest.values():
        run(procedure)
    assert choice.chosen is not None
    more = amounts([job for job in further if job.key not in {item.key for item in first}])
    for what, units in more.items():
        assert units <= bounds(after, 1)[what], what
