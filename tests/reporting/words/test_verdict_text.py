"""Verdicts on a terminal: within 80 columns, the headline first, each thing once."""

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
        verdict.headline,
        "Verdict use noise of variance 0.00127 inside secret sharing",
        "spec randomization:variance=0.00127 + secret-sharing:",
        "rests on measured: tested with fresh games",
        "Guessed right in 18 of 100 games",
        "93.6 % → 93.2 %. A loss of 0.4 points [0.2, 0.6]",
        "The same bits, 1.1 times the CPU seconds",
        "gaussian-posterior 16 of 90 yes 24 of 24",
        "2= noise inside Paillier",
        "secret sharing alone: The bare sum leaks more than the budget",
        "Not covered",
        *verdict.limits,
    ]
    places = [text.index(item) for item in order]
    assert places == sorted(places)
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
    assert "0.0 points [0.0, 0.0]" in text


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
        None: "use nothing was shown to keep the budget asked for A server that has a list",
        "paillier": "Nothing without the key.",
    }
    assert expected[verdict.chosen] in text


def test_a_single_client_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown = examples.verdict()
    show_verdict(replace(shown, federation=replace(shown.federation, clients=1)))
    assert ": 1 client," in printed(capsys)
