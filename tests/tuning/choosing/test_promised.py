"""The paper's own choice: the least objective among what a federation may run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.commands.own_scenario import small
from tests.tuning.families.test_pricing import pricing
from tests.tuning.simulating import Simulated, runner

from trilemma.estimation.leakage import Estimate
from trilemma.tuning.choosing.promised import promised_candidate
from trilemma.tuning.results.candidates import Candidate
from trilemma.tuning.results.promises import Promise

NOISE = "randomization:variance=0.001"


def promise(mechanism: str, objective: float | None, **changes: Any) -> Promise:
    made = Promise(
        mechanism, "corrected", "s", 1e-3, 1e-3, NOISE, 0.3, Estimate(0.2, 0.1, 0.4), 12, 3,
        objective, "",
    )  # fmt: skip
    return replace(made, **changes)


def promised(*promises: Promise) -> Candidate:
    run = runner(Simulated(small, None, 1, 2, 0))
    return run(promised_candidate(promises, pricing()))


def test_the_papers_choice_is_that_of_least_objective() -> None:
    found = promised(promise("randomization", 0.2), promise("compression", 0.1))
    assert (found.name, found.basis, found.feasible) == (
        "surrogate compression",
        "surrogate",
        True,
    )
    assert "no guarantee: it promises a leakage of 0.3" in found.statement
    assert "3 of 12 games" in found.statement
    assert found.costs is not None


def test_the_papers_choice_is_refused_where_attacks_contradict_it() -> None:
    bad = promise("randomization", 0.2, measured=Estimate(0.9, 0.31, 1.0), successes=11)
    assert not promised(bad).feasible


def test_what_no_federation_should_run_is_not_the_papers_choice() -> None:
    masks = promise("secret-sharing", 0.01)
    printed = promise("randomization", 0.01, form="printed")
    unrun = promise("paillier", 0.01, protection=None, measured=None)
    blank = promise("compression", None)
    assert promised(masks, printed, unrun, promise("compression", 0.5)).name.endswith(
        "compression"
    )
    none = promised(masks, printed, unrun, blank)
    assert (none.feasible, none.costs) == (False, None)
    assert none.statement.startswith("No optimum of the paper's closed forms can be run")
