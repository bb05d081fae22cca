"""A whole verdict on a terminal: within 80 columns, the summary first, each thing once."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.reporting import examples, training

from trilemma.game.estimates import Estimate
from trilemma.reporting.words.verdict_text import show_verdict
from trilemma.tuning.results.candidate import Candidate
from trilemma.tuning.results.verdict import Verdict


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text, "nothing is cut off"
    return text


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_a_verdict_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = examples.verdict()
    show_verdict(verdict)
    text = flat(printed(capsys))
    order = [
        flat(verdict.summary()),
        "digits-mlp: 10 clients",
        "randomization:variance=0.00127 + secret-sharing:",
        "0.22 [0.14, 0.31]; limit 0.3",
        "gaussian-posterior 0.194, most exposed client 0.331",
        "gaussian-posterior 16 of 90 yes 24 of 24",
        "2= noise inside Paillier",
        "secret sharing alone: The bare sum leaks more than the budget",
        "Not covered, in full",
        *verdict.limits,
    ]
    place = 0
    for item in order:
        place = text.index(item, place) + len(item)
    assert str(examples.VALUE) not in text


def test_what_is_said_of_several_candidates_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = examples.verdict()
    idle = Candidate("one", "measured", False, True, "Nothing passed here.")
    others = (idle, replace(idle, name="two"), replace(idle, name="three"))
    show_verdict(replace(shown, candidates=(*shown.candidates, *others)))
    text = printed(capsys)
    assert text.count("Nothing passed here.") == 1
    assert "one, two, three: Nothing passed here." in text


def test_large_costs_and_small_losses_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    shown = examples.verdict()
    first = shown.candidates[0]
    assert first.costs is not None
    costs = replace(
        first.costs,
        utility_loss=Estimate(-0.0001, -0.0002, 0.0),
        efficiency_reduction=Estimate(131.7, 100.0, 150.0),
    )
    show_verdict(replace(shown, candidates=(replace(first, costs=costs), *shown.candidates[1:])))
    text = flat(printed(capsys))
    assert "133 ×" in text
    assert "0.0 points lost (between 0.0 lost and 0.0 lost)" in text


@pytest.mark.parametrize(
    "verdict",
    [
        training.over_rounds(),
        examples.verdict(chosen=None, advice="Try more clients.", protection=None, leakage=None),
        examples.verdict(chosen="paillier", basis="cryptographic", leakage=None),
    ],
    ids=["certificate", "nothing", "key"],
)
def test_every_kind_of_verdict_fits(verdict: Verdict, capsys: pytest.CaptureFixture[str]) -> None:
    show_verdict(verdict)
    text = flat(printed(capsys))
    expected = {
        "randomization+secret-sharing": "Proved against anyone: noise inside secret sharing",
        None: "What helps Try more clients.",
        "paillier": "Yes, while the server does not hold the key",
    }
    assert expected[verdict.chosen] in text


def test_a_single_client_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown = examples.verdict()
    show_verdict(replace(shown, federation=replace(shown.federation, clients=1)))
    assert ": 1 client," in printed(capsys)
