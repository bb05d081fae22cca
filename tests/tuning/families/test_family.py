"""Families: a larger x protects more, and transports fit what they carry."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.tuning.small_families import CLAIM, P_MAX, SETTING

from trilemma.errors import InvalidInput, UnknownName
from trilemma.observations import Adversary
from trilemma.protection.specs import parse_protection
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing
from trilemma.tuning.calibration.outcomes import UNPROTECTED
from trilemma.tuning.families.calibrator import streams
from trilemma.tuning.families.family import FAMILIES, Family, families_asked
from trilemma.tuning.families.family import families as made_of
from trilemma.tuning.request import Request


def families(adversary: Adversary, names: list[str] | None = None) -> tuple[Family, ...]:
    return made_of(SETTING, CLAIM, P_MAX, adversary, names)


@pytest.mark.parametrize("adversary", Adversary)
def test_every_protection_survives_its_text(adversary: Adversary) -> None:
    for family in families(adversary):
        for x in (UNPROTECTED, family.domain[0], 0.0, family.domain[1]):
            protection = family.protection(x)
            assert parse_protection(protection.describe()) == protection


@pytest.mark.parametrize("adversary", Adversary)
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6])
def test_small_updates_are_attacked_at_every_strength(adversary: Adversary, size: float) -> None:
    """Noise for them is finer than the grid of a transport that nobody fitted to it."""
    setting = replace(SETTING, spread=size, largest=0.3 * size)
    for family in made_of(setting, CLAIM, P_MAX, adversary):
        for x in (UNPROTECTED, family.domain[0], 0.0, family.domain[1]):
            attacked = family.attacked(x, adversary)
            assert parse_protection(attacked.describe()) == attacked
            assert attacked.transforms == family.protection(x).transforms


def test_stronger_is_larger_x_for_each_knob() -> None:
    for family in families(Adversary.SERVER):
        if family.mechanism is None:
            continue
        values = [family.strength(x) or 0.0 for x in (-0.3, 0.0, 0.3)]
        if family.symbol == "share kept":
            values = [-value for value in values]
        assert all(a < b for a, b in pairwise(values))


def test_compression_never_keeps_more_than_all() -> None:
    for name in ("compression", "compression+secret-sharing"):
        (family,) = families(Adversary.SERVER, [name])
        assert family.strength(family.domain[0]) == pytest.approx(1.0)


def test_a_transport_has_room_for_noise_and_for_rescaled_coordinates() -> None:
    for family in families(Adversary.SERVER):
        transport = family.protection(1.0).transport
        if isinstance(transport, SecretSharing | Paillier):
            reach = SETTING.largest
            if family.name == "compression+secret-sharing":
                reach /= family.strength(1.0) or 1.0
            if family.symbol == "noise variance":
                reach += 6 * (family.strength(1.0) or 0.0) ** 0.5
            assert transport.clip_range >= reach
            assert transport.max_weight == SETTING.weight_cap


def test_what_the_server_reads() -> None:
    seen = {family.name: family.seen for family in families(Adversary.SERVER)}
    assert seen["randomization"] == "message"
    assert seen["randomization+paillier"] == "sum"
    assert seen["paillier"] == "nothing"
    assert {f.seen for f in families(Adversary.CLIENT)} == {"sum"}


def test_places_set_compressed_messages_apart_from_compressed_sums() -> None:
    """To a curious client, too: what a plain mean holds of a coordinate is who sent it."""
    names = ["compression", "compression+secret-sharing"]
    plain, summed = families(Adversary.CLIENT, names)
    assert streams([plain, summed]) == 1 + 1
    assert plain.attacked(0.0, Adversary.CLIENT).own_places
    assert not summed.attacked(0.0, Adversary.CLIENT).own_places
    # nine others: 1 - (1 - ρ)⁹ of the coordinates come through, where a common ρ does
    assert 1 - (1 - plain.warm) ** 9 == pytest.approx(summed.warm)


def test_the_grid_follows_the_noise() -> None:
    """A transport whose step drowns the noise would end the whole tuning."""
    for name in ("randomization+secret-sharing", "randomization+paillier"):
        (family,) = families(Adversary.SERVER, [name])
        for x in family.domain:
            protection = family.protection(x)
            variance = family.strength(x)
            assert variance is not None
            assert protection.transport.step_size() <= variance**0.5 / 2


def test_bad_names_and_lone_clients() -> None:
    with pytest.raises(UnknownName, match="did you mean 'compression'"):
        families(Adversary.SERVER, ["compresion"])
    with pytest.raises(InvalidInput, match="cancel"):
        families(Adversary.CLIENT, ["bounded-masks"])
    assert list(FAMILIES) == [family.name for family in families(Adversary.SERVER)]
    assert families(Adversary.SERVER, ["bounded-masks"])[0].name == "bounded-masks"


def test_of_a_presets_families_those_stay_that_can_be_run_or_proved() -> None:
    quick, proof = Request(preset="quick"), Request(preset="quick", knows="anyone")
    assert families_asked(quick, 2) == quick.families
    assert families_asked(quick, 1) == ("randomization",), "one client has no sum to hide in"
    assert families_asked(proof, 2) == ("randomization", "randomization+secret-sharing")
    assert families_asked(proof, 1) == ("randomization",), "nothing is proved without noise"
    named = Request(families=("secret-sharing",))
    assert families_asked(named, 1) == named.families, "what was asked for is refused elsewhere"
    assert families_asked(Request(), 2) is None
