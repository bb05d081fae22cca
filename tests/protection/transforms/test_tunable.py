"""One free parameter: where to begin, how far to go, what a transport must then carry."""

from __future__ import annotations

import math

import pytest
import torch
from tests.protection.foreign import Shift
from tests.protection.transforms.applying import a_round, apply, some_values

from trilemma.protection.specs import TUNABLE
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.tunable import Start, Tunable

START = Start(noise=1e-4, unknowns=73, coordinates=5000)
CLASSES = [*TUNABLE.values(), Shift]


@pytest.mark.parametrize("mechanism", CLASSES)
def test_the_span_runs_from_weak_to_strong_around_the_warm_start(mechanism: type[Tunable]) -> None:
    warm, (weakest, strongest) = mechanism.warm(START), mechanism.span(START)
    parameter = mechanism.parameter
    assert parameter.decades(weakest, warm) > 0
    assert parameter.decades(warm, strongest) > 0
    low, high = parameter.domain
    for value in (weakest, warm, strongest):
        assert low <= value <= high
        assert mechanism.at(value).describe() != mechanism.at(0.9 * warm).describe()


@pytest.mark.parametrize("mechanism", CLASSES)
@pytest.mark.parametrize("decades", [-1.0, 0.0, 0.5])
def test_a_transport_must_carry_what_is_sent(mechanism: type[Tunable], decades: float) -> None:
    """The largest of 20,000 coordinates: 8 deviations of noise, 1/ρ, or the mask's bound more."""
    transform = mechanism.at(mechanism.parameter.moved(mechanism.warm(START), decades))
    values = 0.1 * some_values(20_000).clamp(-3, 3)
    largest = float(values.abs().max())
    sent = float(apply(transform, values, info=a_round(clients=4)).values.abs().max())
    assert sent <= transform.reach(largest)
    assert transform.reach(largest) <= 20 * sent, "and not much more"


def test_where_ours_begin() -> None:
    assert Randomization.warm(START) == 1e-4
    assert Randomization.span(START) == pytest.approx((1e-6, 1e-2))
    mask = BoundedMask.at(BoundedMask.warm(START))
    assert mask.scale**2 == pytest.approx(1e-4), "as much noise, in another shape"
    assert Compression.warm(START) == pytest.approx(1.6 * 73 / 5000)
    assert Compression.warm(Start(1.0, unknowns=9000, coordinates=5000)) == pytest.approx(0.9)


def test_compression_ends_where_one_coordinate_is_left() -> None:
    weakest, strongest = Compression.span(START)
    assert weakest == 1.0
    assert strongest == pytest.approx(Compression.warm(START) / 100)
    small = Start(1.0, unknowns=5, coordinates=40)
    assert Compression.span(small)[1] == pytest.approx(1 / 40)
    assert Compression.at(1.0 + 1e-12) == Compression(1.0), "rounding on the way is no error"


@pytest.mark.parametrize("senders", [1, 3, 9])
def test_senders_of_their_own_places_show_as_much_together_as_one_would(senders: int) -> None:
    """1 - (1 - ρ)ⁿ of the coordinates are sent by someone: counted over drawn masks."""
    keep = Compression.warm(Start(1.0, unknowns=73, coordinates=500, senders=senders))
    seen = torch.zeros(20_000, dtype=torch.bool)
    for client in range(senders):
        made = apply(Compression.at(keep), torch.ones(20_000), info=a_round().of_client(client))
        assert made.known is not None
        seen |= made.known
    expected = 1.6 * 73 / 500
    spread = math.sqrt(expected * (1 - expected) / 20_000)
    assert abs(float(seen.double().mean()) - expected) < 5 * spread
