"""Families of a small federation, and the claim that they are tested for."""

from __future__ import annotations

from trilemma.game.playing.claims import Claim
from trilemma.observations import Adversary
from trilemma.tuning.families.family import Family, families
from trilemma.tuning.families.family_setting import Setting

SETTING = Setting(
    parameters=2410,
    clients=10,
    records=(150,) * 10,
    unit_size=4,
    unknowns=292,
    spread=1.0,
    largest=0.3,
)


CLAIM = Claim(1, 100)


P_MAX = 0.212


def family(name: str = "randomization") -> Family:
    return families(SETTING, CLAIM, P_MAX, Adversary.SERVER, [name])[0]
