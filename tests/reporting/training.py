"""A verdict with leakage against rounds and a certificate, made up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.reporting import examples

from trilemma.estimation.claims import Participation
from trilemma.estimation.leakage import Estimate
from trilemma.tuning.request import Knows
from trilemma.tuning.results.verdict import Verdict


@dataclass(frozen=True)
class AfterRounds:
    """A point of leakage against rounds."""

    knows: Knows
    participation: Participation
    rounds: int
    leakage: Estimate
    certified: bool = False


def after_rounds() -> tuple[AfterRounds, ...]:
    """Two attackers and a proof, after more and more rounds, in no order."""
    counts: dict[tuple[Knows, Participation], tuple[int, ...]] = {
        ("anyone", "secret"): (9, 12, 25, 48),
        ("rest", "secret"): (7, 9, 18, 36),
        ("candidates", "known"): (6, 8, 14, 20),
    }
    made = [
        AfterRounds(knows, told, rounds, examples.leaks(hits, 200), knows == "anyone")
        for (knows, told), found in counts.items()
        for rounds, hits in zip((1, 10, 50, 150), found, strict=True)
    ]
    return tuple(reversed(made))


@dataclass(frozen=True)
class OverRounds(Verdict):
    """A verdict that holds leakage against rounds."""

    rounds: tuple[AfterRounds, ...] = ()


def over_rounds() -> Verdict:
    """The example with leakage against rounds and a certificate."""
    base = examples.verdict()
    proved = replace(base.candidates[0], certificate=examples.certificate())
    fields = {name: getattr(base, name) for name in base.__dataclass_fields__}
    fields |= {"candidates": (proved, *base.candidates[1:])}
    return OverRounds(**fields, rounds=after_rounds())
