"""The ranking's figure: the ranked families in their order."""

from __future__ import annotations

from tests.reporting import examples

from trilemma.reporting.figures.ranking import draw_ranking
from trilemma.reporting.words.protection_text import family


def test_ranked_families_only_and_a_key_has_no_leakage() -> None:
    verdict = examples.verdict()
    leaks, costs = draw_ranking(verdict).axes
    ranked = [candidate for candidate in verdict.candidates if candidate.rank is not None]
    labels = [text.get_text() for text in leaks.get_yticklabels()]
    assert labels == [
        f"{item.rank}{'=' if item.tied else ''}  {family(item.name)}" for item in ranked
    ]
    notes = [text.get_text() for text in leaks.texts]
    assert notes == ["rests on the key"]
    assert not costs.texts, "every ranked family has a price"
