"""Leakage against rounds: one curve an attacker, in order."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.reporting import examples, training

from trilemma.reporting.page.page import verdict_page
from trilemma.reporting.page.rounds_plot import rounds_series


def test_one_curve_for_each_attacker_and_the_proof_last() -> None:
    series = rounds_series(training.after_rounds())
    assert [item.name for item in series] == [
        "knows the candidates, participation known",
        "knows the rest, participation secret",
        "proved for anyone, participation secret",
    ]
    assert [item.certified for item in series] == [False, False, True]
    for item in series:
        assert [rounds for rounds, _ in item.points] == [1, 10, 50, 150]
    known = [leakage for _, leakage in series[0].points]
    assert known == [examples.leaks(hits, 200) for hits in (6, 8, 14, 20)]


def test_a_sentence_says_why_nothing_is_proved() -> None:
    measured = [item for item in training.after_rounds() if not item.certified]
    page = verdict_page(replace(examples.verdict(), rounds=tuple(measured)))
    assert "No proof stands above these curves: no record is clipped and batches have a" in page


def test_the_section_is_there_where_the_verdict_holds_rounds() -> None:
    page = verdict_page(training.over_rounds())
    assert 'id="rounds-plot"' in page
    data = page.split('id="data">')[1].split("</script>")[0]
    drawn = json.loads(data)["rounds"]
    assert drawn["budget"] == 0.3
    assert drawn["series"][2]["points"][3][0] == 150
    assert drawn["series"][2]["points"][3][1]["high"] == examples.leaks(48, 200).high
    assert "No proof stands above" not in page
    without = verdict_page(examples.verdict())
    assert 'id="rounds-plot"' not in without
    assert "#rounds" not in without.split("<style>")[0]
