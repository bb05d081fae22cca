"""A verdict attacked once more, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import binom, binomtest
from tests.reporting import examples

from trilemma.attacks import KnowledgeLevel
from trilemma.game.estimates import success_rate
from trilemma.reporting.words.replication_text import show_again, summary
from trilemma.tuning.replication import Attacked, Replication


def attacked(knows: KnowledgeLevel, attack: str, hits: int, *, claimed: bool = True) -> Attacked:
    chance = float(binom.sf(hits - 1, 200, examples.P_MAX))
    after = tuple(round(hits * share) for share in (0.1, 0.2, 0.3, 0.5, 0.8, 1))
    return Attacked(knows, attack, claimed, 200, hits, success_rate(hits, 200), chance, after)


CALM = attacked("candidates", "gaussian-posterior", 52)
BEYOND = attacked("rest", "exact-posterior", 120, claimed=False)


def test_a_claim_is_contradicted_only_by_attacks_that_it_covers() -> None:
    verdict = examples.verdict()
    assert summary(verdict, [CALM]).startswith("No attack contradicts the claim")
    found = summary(verdict, [CALM, BEYOND])
    assert found.startswith("No attack of the claim contradicts it.")
    assert "(exact-posterior) guess right in more than 26 of 100 games" in found
    broken = attacked("public", "map", 75)
    assert "The claim is contradicted: map guessed right" in summary(verdict, [CALM, broken])


def test_the_level_is_shared_by_the_attacks_of_the_claim() -> None:
    """64 of 200 is odd for one attack (p = .03) and not for four together."""
    odd = attacked("public", "map", 64)
    assert 0.0125 < odd.p_value < 0.05
    verdict = examples.verdict()
    assert "contradicted" in summary(verdict, [odd])
    assert "contradicted" not in summary(verdict, [odd, CALM, CALM, CALM])


def test_it_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = examples.verdict()
    whole = replace(verdict, claim=replace(verdict.claim, rounds=150))
    show_again(Replication(whole, 0, (CALM, BEYOND)))
    text = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "the candidates gaussian-posterior 52 of 200" in " ".join(text.split())
    answers = text.split("What these games alone show")[1]
    (rest,) = (line.split() for line in answers.splitlines() if "the rest " in line)
    assert (rest[2], rest[-1]) == ("fails", "no")
    rates = text.split("Rate after so many rounds")[1].split("\n")
    assert [line.split() for line in rates[1:4]] == [
        ["attack", "1", "3", "7", "20", "55", "150"],
        ["gaussian-posterior", "0.03", "0.05", "0.08", "0.13", "0.21", "0.26"],
        ["exact-posterior", "0.06", "0.12", "0.18", "0.30", "0.48", "0.60"],
    ]
    one = replace(verdict, claim=replace(verdict.claim, rounds=1))
    show_again(Replication(one, 0, (CALM,)))
    assert "Rate after" not in capsys.readouterr().out


def test_who_knows_more_is_shown_to_win_no_less(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 200 games 180 are won with public records, and 52 with the candidates besides."""
    public = attacked("public", "map", 180)
    again = Replication(examples.verdict(), 0, (public, CALM, BEYOND))
    weak, middle, strong = again.by_knowledge
    assert weak.low <= middle.low <= strong.low
    assert weak.high <= middle.high <= strong.high
    sure = 1 - (1 - examples.verdict().request.confidence) / 3
    assert weak.low == binomtest(180, 200).proportion_ci(sure, method="exact").low
    assert weak.high == pytest.approx(binomtest(52, 200).proportion_ci(sure, method="exact").high)
    assert (weak.crossed, middle.crossed, strong.crossed) == (True, True, True)
    show_again(again)
    text = " ".join(capsys.readouterr().out.split())
    assert "At most 26 of 100 guesses right? What these games alone show" in text
    assert "contradictory: at least 0.8" in text
    calm = Replication(examples.verdict(), 0, (CALM, BEYOND)).by_knowledge
    assert not any(item.crossed for item in calm)


@pytest.mark.parametrize(("hits", "answer"), [(20, "holds"), (52, "undecided"), (120, "fails")])
def test_each_threat_model_gets_an_answer(hits: int, answer: str) -> None:
    """Of 200 games, where 26 of 100 may be right; by the exact binomial test at .05, two-sided."""
    (known,) = Replication(
        examples.verdict(), 0, (attacked("candidates", "gaussian-posterior", hits),)
    ).by_knowledge
    limits = binomtest(hits, 200).proportion_ci(0.95, method="exact")
    wanted = {"holds": limits.high <= examples.P_MAX, "fails": limits.low > examples.P_MAX}
    assert wanted.get(answer, not any(wanted.values()))
    assert known.claimed
    assert known.answer(examples.P_MAX) == answer
