"""Plans of proofs, and the candidates that follow from them."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.cli.own_scenario import small
from tests.tuning.simulating import Simulated, runner

from trilemma.game.jobs import Job
from trilemma.tuning.plan import Plan
from trilemma.tuning.proof.proved_candidates import certified_candidate
from trilemma.tuning.request import Request
from trilemma.tuning.results.candidate import Candidate

SHARED = "randomization+secret-sharing"


# Known participation has a closed form; secret participation takes seconds.
QUICK: dict[str, Any] = {"knows": "anyone", "participation": "known", "seeds": 2, "helpers": 0}


@cache
def plan(**settings: Any) -> Plan:
    return Plan.of(small(4), Request(**{**QUICK, **settings}))


def found(
    name: str = SHARED, done: list[Job] | None = None, distributions: Any = None, **settings: Any
) -> Candidate:
    made = plan(**settings)
    job_runner = Simulated(made.source, None, 1, 2, 0, **(distributions or {}))
    (family,) = (item for item in made.families if item.name == name)
    return runner(job_runner, done)(certified_candidate(made, family))
