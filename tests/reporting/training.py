"""A verdict with leakage against rounds and a certificate, made up."""

from __future__ import annotations

from dataclasses import replace

from tests.reporting import examples

from trilemma.game.playing.claims import Participation
from trilemma.tuning.request import Knows
from trilemma.tuning.results.verdict import RoundsPoint, Verdict


def after_rounds() -> tuple[RoundsPoint, ...]:
    """Two attackers and a proof, after more and more rounds, in no order."""
    counts: dict[tuple[Knows, Participation], tuple[int, ...]] = {
        ("anyone", "secret"): (9, 12, 25, 48),
        ("rest", "secret"): (7, 9, 18, 36),
        ("candidates", "known"): (6, 8, 14, 20),
    }
    made = [
        RoundsPoint(knows, told, rounds, examples.leaks(hits, 200), knows == "anyone")
        for (knows, told), found in counts.items()
        for rounds, hits in zip((1, 10, 50, 150), found, strict=True)
    ]
    return tuple(reversed(made))


def over_rounds() -> Verdict:
    """The example with leakage against rounds and a certificate."""
    base = examples.verdict()
    proved = replace(base.candidates[0], certificate=examples.certificate())
    return replace(base, candidates=(proved, *base.candidates[1:]), rounds=after_rounds())
