"""Verdicts and fronts on a terminal: within 80 columns, each thing said once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reporting.examples import front, verdict
from tests.tuning.test_certificate import SETTING

from trilemma.estimation.leakage import Estimate
from trilemma.observations import Adversary
from trilemma.reporting.front import show_front
from trilemma.reporting.verdict import show_verdict
from trilemma.tuning.choosing.advice import advice
from trilemma.tuning.problem import Problem
from trilemma.tuning.results.verdict import Candidate


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    return text


def test_what_is_said_of_several_candidates_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = verdict()
    idle = Candidate("one", "measured", True, True, "Not needed here.")
    others = (idle, replace(idle, name="two"), replace(idle, name="three"))
    show_verdict(replace(shown, candidates=(*shown.candidates, *others)))
    text = printed(capsys)
    assert text.count("Not needed here.") == 1
    assert "one, two, three: Not needed here." in text


def test_nothing_is_never_negative_and_large_costs_are_plain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = verdict()
    first = shown.candidates[0]
    assert first.costs is not None
    costs = replace(
        first.costs,
        utility_loss=Estimate(0.0001, 0.0, 0.0),
        efficiency_reduction=Estimate(131.7, 100.0, 150.0),
    )
    show_verdict(replace(shown, candidates=(replace(first, costs=costs), *shown.candidates[1:])))
    text = printed(capsys)
    assert "+132" in text
    assert "-0.000 " not in text
    assert "e+0" not in text.partition("All candidates")[2].partition("\n\n")[0]


def test_a_front_and_a_single_client(capsys: pytest.CaptureFixture[str]) -> None:
    show_front(front())
    printed(capsys)
    shown = verdict()
    show_verdict(replace(shown, federation=replace(shown.federation, clients=1)))
    text = printed(capsys)
    assert ": 1 client," in text
    assert "(s)" not in text.splitlines()[0]


@pytest.mark.parametrize("adversary", Adversary)
def test_advice_names_only_what_was_not_tried_and_would_help(adversary: Adversary) -> None:
    tried = Candidate("secret-sharing", "measured", False, True, "", smallest_leakage=0.7)
    text = advice([tried], Problem(0.3), SETTING, adversary)
    assert "0.7, by secret-sharing" in text
    assert "randomization+secret-sharing" in text
    assert ("paillier" in text) is (adversary is Adversary.SERVER), "a client holds the key too"
    combined = replace(tried, name="randomization+secret-sharing")
    again = advice([tried, combined], Problem(0.3), SETTING, adversary)
    assert "a combined protection" not in again
