"""The contract that ships: our mechanisms meet it, and broken ones are found out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from tests.protection.foreign import Shift

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protection.parameter import Parameter
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.testing import check_mechanism


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return PrivateKey.generate(System(), bits=2048)


RISING = [
    ["none", "randomization:variance=1e-4", "randomization:variance=1e-3"],
    ["randomization:variance=1e-4,clip=2.0", "randomization:variance=1e-2,clip=2.0"],
    ["none", "compression:keep=0.9", "compression:keep=0.3", "compression:keep=0.01"],
    ["compression:keep=0.5,unbiased=false", "compression:keep=0.1,unbiased=false"],
    ["top-k:keep=0.5", "top-k:keep=0.1"],
    ["secret-sharing:bound=0.1", "secret-sharing:bound=1.0"],
    ["none", "secret-sharing", "compression:keep=0.5+secret-sharing"],
    ["secret-sharing", "randomization:variance=1e-3+secret-sharing"],
    ["paillier:bits=2048", "paillier:bits=2048,mode=blind"],
    ["compression:keep=0.5+randomization:variance=1e-4", "compression:keep=0.1"],
]


@pytest.mark.parametrize("texts", RISING, ids=lambda texts: texts[-1])
def test_our_mechanisms_meet_the_contract(texts: list[str], key: PrivateKey) -> None:
    rising = [parse_protection(text) for text in texts]
    for number, protection in enumerate(rising):
        check_mechanism(
            protection,
            stronger=rising[number + 1 :],
            secret=key if "paillier" in texts[number] else None,
            size=500,
            refused=[lambda: parse_protection("compression:keep=2")],
        )


def test_a_third_partys_transform_can_be_checked() -> None:
    rising = [Protection((Shift(by),)) for by in (0.01, 0.1, 1.0)]
    check_mechanism(rising[0], stronger=rising[1:])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("nothing", "tells of no noise"),
        ("half", "times that"),
        ("biased", "has mean"),
        ("changes its input", "off the weighted mean"),
        ("no text", "cannot be read back"),
        ("another text", "read back as another"),
    ],
)
def test_a_broken_transform_is_found_out(told: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_mechanism(Protection((Shift(0.1, told),)))


@dataclass(frozen=True)
class Backwards(Shift):
    """Says that less noise protects more."""

    parameter: ClassVar[Parameter] = replace(Shift.parameter, stronger="smaller")


@dataclass(frozen=True)
class Short(Shift):
    """Says that noise adds nothing to what a transport must carry."""

    def reach(self, largest: float) -> float:
        return largest


@dataclass(frozen=True)
class Narrow(Shift):
    """Begins outside its own domain."""

    parameter: ClassVar[Parameter] = replace(Shift.parameter, domain=(0.0, 1e-9))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Backwards(0.1), "should protect more than"),
        (Short(0.1), "beyond its reach"),
        (Narrow(0.1), r"must keep within 0 \.\. 1e-09"),
    ],
)
def test_a_broken_parameter_is_found_out(broken: Shift, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_mechanism(Protection((broken,)))


def test_strength_the_wrong_way_round_is_found_out() -> None:
    weak, strong = (parse_protection(f"compression:keep={keep}") for keep in (0.9, 0.1))
    with pytest.raises(AssertionError, match="should protect more than"):
        check_mechanism(strong, stronger=[weak])


def test_accepted_nonsense_is_found_out() -> None:
    def accepts() -> Any:
        return None

    with pytest.raises(AssertionError, match="number 0 in refused"):
        check_mechanism(Protection(), refused=[accepts])


def test_a_transport_that_counts_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from trilemma.protection.transcripts import Transcript

    monkeypatch.setattr(Transcript, "bits_up", property(lambda _: 8))
    with pytest.raises(AssertionError, match="counts 8 bits up"):
        check_mechanism(Protection())


def test_input_out_of_range_is_an_error_of_its_own() -> None:
    with pytest.raises(InvalidInput, match="clip_range"):
        check_mechanism(parse_protection("secret-sharing"), scale=2.0)
