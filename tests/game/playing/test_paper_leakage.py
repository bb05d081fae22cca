"""The paper's leakage from beliefs: 0 for who learns nothing, near 1 for who knows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.game.playing.small_observer import observer, scenario

from trilemma.attacks import get
from trilemma.beliefs.belief import leakage
from trilemma.errors import InvalidInput
from trilemma.game.playing.paper_leakage import paper_leakage


def test_who_knows_the_record_leaks_what_certainty_does() -> None:
    seen = observer(scenario())
    games = [seen.arena.draw(number, 3) for number in range(4)]
    found = paper_leakage(seen, games, [get("exact-posterior")], draws=2)["exact-posterior"]
    count = seen.arena.claim.candidates
    certain = leakage(np.eye(count)[0], np.full(count, 1 / count))
    assert found == pytest.approx([certain] * 4, abs=1e-3)


def test_strong_noise_leaks_little_and_the_average_less_than_one_look() -> None:
    loud = observer(scenario(), "randomization:variance=1")
    games = [loud.arena.draw(number, 3) for number in range(6)]
    attack = get("exact-posterior")
    once = paper_leakage(loud, games, [attack], draws=1)[attack.name]
    often = paper_leakage(loud, games, [attack], draws=12)[attack.name]
    assert often.mean() < once.mean(), "beliefs that point elsewhere each time average out"
    assert often.mean() < 0.2


def test_an_attack_without_a_belief_is_refused() -> None:
    seen = observer(scenario())
    with pytest.raises(InvalidInput, match="gives no belief"):
        paper_leakage(seen, [seen.arena.draw(0, 3)], [get("analytic")], draws=1)
    with pytest.raises(InvalidInput, match="at least 1, got 0"):
        paper_leakage(seen, [seen.arena.draw(0, 3)], [get("exact-posterior")], draws=0)
