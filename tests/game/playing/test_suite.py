"""Which attacks there are: those of less knowledge too, the strongest first, if they apply."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cli.own_scenario import small
from tests.game.playing.small_games import scenario
from torch import nn

from trilemma.attacks import KnowledgeLevel, get
from trilemma.attacks.base import KNOWLEDGE_LEVELS
from trilemma.errors import InvalidInput, UnknownName
from trilemma.game.playing.suite import (
    Suite,
    analytic_applies,
    leading,
    suite_of,
    why_not,
)
from trilemma.learning import LocalTraining
from trilemma.learning.precision import LARGE
from trilemma.scenarios.medical_tables import breast_cancer
from trilemma.scenarios.text import Reader, text


@pytest.mark.parametrize("knows", KNOWLEDGE_LEVELS)
def test_the_leading_attack_is_of_that_knowledge_itself(knows: KnowledgeLevel) -> None:
    suite = suite_of(small(), knows)
    assert get(suite.lead).knows == knows
    assert leading(small(), knows, 1) == Suite(knows, (suite.lead,))
    assert suite.attacks[0] == suite.lead
    ranks = [KNOWLEDGE_LEVELS.index(get(name).knows) for name in suite.attacks]
    assert ranks == sorted(ranks, reverse=True)


def test_over_rounds_the_attack_leads_that_links_them() -> None:
    assert suite_of(small(), "public").attacks[:2] == ("map", "linkage")
    assert suite_of(small(), "public", rounds=9).attacks[:2] == ("linkage", "map")
    assert leading(small(), "public", 9) == Suite("public", ("linkage",))


def test_a_large_model_is_not_linked() -> None:
    """Whole updates of 400 records, 18 GB for 11 million parameters, are never held at once."""
    wide = nn.Sequential(nn.Linear(6, 1200), nn.Tanh(), nn.Linear(1200, 900), nn.Linear(900, 3))
    made = replace(scenario(), model=wide)
    assert made.task.layout.size > LARGE
    assert suite_of(made, "public", rounds=9).attacks[0] == "map"
    assert leading(made, "public", 9) == Suite("public", ("map",))
    assert "linkage" not in suite_of(made, "candidates").attacks
    with pytest.raises(InvalidInput, match=r"for 1,092,003 parameters each.*leave 'linkage' out"):
        suite_of(made, "public", ("linkage",))


def test_what_would_search_more_than_twice_what_is_read_is_left_out() -> None:
    """Nine clients of four records of six numbers: 24 numbers in a message, 216 in a sum."""
    made = scenario(sizes=(40,) * 9)
    read, four = made.task.layout.size, LocalTraining(batch=4)
    one = replace(made, local_training=four)
    assert 24 <= 2 * read < 216
    suite = suite_of(one, "public")
    assert suite.lost == {"dlg", "inverting-gradients", "idlg"}, "the leading one is tried on all"
    assert suite.on("message") == suite.attacks
    assert suite.on("sum") == ("map", "linkage", "analytic")
    whole = replace(made, local_training=LocalTraining(batch=40))
    assert suite_of(whole, "public").attacks == ("linkage", "analytic")
    assert "here 240 numbers behind 21" in (why_not(whole, "map") or "")


def test_who_knows_more_attacks_as_those_who_know_less() -> None:
    nothing, public, candidates = (
        set(suite_of(small(), knows).attacks) for knows in ("nothing", "public", "candidates")
    )
    assert nothing < public < candidates
    assert suite_of(small(), "rest").attacks == ("exact-posterior",), "which nothing beats"


def test_an_attack_that_does_not_apply_is_left_out_or_refused() -> None:
    made = scenario()
    assert analytic_applies(made)
    unbiased = type(made)(nn.Linear(6, 3, bias=False), made.loss, made.clients, made.test)
    assert not analytic_applies(unbiased)
    assert "analytic" not in suite_of(unbiased, "nothing").attacks
    frozen = nn.Sequential(nn.Linear(6, 4).requires_grad_(False), nn.Sigmoid(), nn.Linear(4, 3))
    assert "starts with a trained linear layer" in (
        why_not(replace(made, model=frozen), "analytic") or ""
    )
    with pytest.raises(InvalidInput, match="which this Linear does not"):
        suite_of(unbiased, "nothing", ("analytic",))


def test_tables_and_texts_have_attacks_of_their_own() -> None:
    table, written = breast_cancer(clients=2), text(clients=2)
    assert suite_of(table, "public").attacks == ("map", "linkage", "tableak", "analytic")
    assert suite_of(written, "candidates").attacks == ("gaussian-posterior", "tokens")
    assert leading(written, "public", 1) is None, "nothing is searched that an embedding looks up"
    assert leading(table, "nothing", 1) == Suite("nothing", ("tableak",))
    assert "the candidates are compared instead" in (why_not(written, "dlg") or "")
    assert why_not(written, "exact-posterior") is None
    assert "needs a table's columns" in (why_not(small(), "tableak") or "")
    with pytest.raises(InvalidInput, match=r"dlg searches over real numbers.*leave 'dlg' out"):
        suite_of(written, "nothing", ("dlg",))
    fixed = Reader(402, 12, 4)
    fixed.token.weight.requires_grad_(False)
    with pytest.raises(InvalidInput, match=r"reads texts off the gradient.*knows='candidates'"):
        suite_of(replace(written, model=fixed), "nothing")


def test_attacks_that_are_asked_for() -> None:
    assert suite_of(small(), "candidates", ("analytic", "dlg", "analytic")).attacks == (
        "analytic",
        "dlg",
    )
    with pytest.raises(InvalidInput, match=r"needs the knowledge 'candidates'.*know 'public'"):
        suite_of(small(), "public", ("gaussian-posterior",))
    with pytest.raises(InvalidInput, match="at least one attack"):
        suite_of(small(), "public", ())
    with pytest.raises(UnknownName, match="'dgl'"):
        suite_of(small(), "public", ("dgl",))
