"""The arithmetic against rounds of real transports: the same mean to the bit, same refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from tests.protection.five import CLIENTS, PAILLIER, SIZE, a_round, updates

from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import Seeded, System
from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.protection import round_arithmetic
from trilemma.protection.protection import Protection
from trilemma.protection.round_arithmetic import Arithmetic, is_exact
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import MechanismInfo, SparseUpdate, Transform
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

TRANSFORMS = (
    "",
    "compression:keep=0.4+",
    "randomization:variance=0.04+",
    "randomization:variance=0.04,clip=1.0+compression:keep=0.6+",
    "compression:keep=0.5,unbiased=false+randomization:variance=0.04+",
)
TRANSPORTS = (
    "secret-sharing:clip_range=3.0",
    "secret-sharing:clip_range=8.1,precision_bits=27,ring_bits=64",
    f"{PAILLIER},clip_range=8.1",
    f"{PAILLIER},clip_range=8.1,precision_bits=8,mode=blind",
    "plain",
)
WEIGHTS = [3, 1, 4, 1, 5]


def exact_mean(
    protection: Protection,
    rows: torch.Tensor,
    weights: list[int] = WEIGHTS,
    info: RoundInfo | None = None,
) -> torch.Tensor:
    assert is_exact(protection)
    given = protection, rows.unbind(), weights, info or a_round()
    return Arithmetic(*given, Seeded(4)).exact_mean()


def real_mean(
    protection: Protection,
    rows: torch.Tensor,
    weights: list[int] = WEIGHTS,
    key: PrivateKey | None = None,
    info: RoundInfo | None = None,
) -> torch.Tensor:
    secret = key if protection.transport.brings == "key" else None
    info = info or a_round()
    return run_round(protection, rows, weights, info, entropy=Seeded(4), secret=secret).mean


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("transforms", TRANSFORMS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_mean_is_that_of_a_real_round(
    transport: str,
    transforms: str,
    dtype: torch.dtype,
    key: PrivateKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(round_arithmetic, "_BLOCK", 16)  # whole blocks, and one that is not
    protection = parse_protection(transforms + transport)
    rows = updates(dtype)
    kept = rows.clone()
    found = exact_mean(protection, rows)
    assert found.dtype == dtype
    assert torch.equal(found, real_mean(protection, rows, key=key))
    assert torch.equal(rows, kept), "the updates themselves must not change"
    assert found.abs().max() > 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("transforms", TRANSFORMS[:3])
def test_a_gpu_computes_the_same_mean(transforms: str) -> None:
    protection = parse_protection(transforms + TRANSPORTS[0])
    found = exact_mean(protection, updates(torch.float32).cuda())
    assert found.is_cuda
    assert torch.equal(found.cpu(), exact_mean(protection, updates(torch.float32)))


def test_clients_may_have_any_numbers() -> None:
    protection = parse_protection("randomization:variance=0.01+secret-sharing:clip_range=8.0")
    info, rows = RoundInfo.new((2, 5, 9), Seeded(1)), updates()[:3]
    real = real_mean(protection, rows, [1, 2, 3], info=info)
    assert torch.equal(exact_mean(protection, rows, [1, 2, 3], info), real)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_lies_beyond_the_range_counts_as_its_edge(dtype: torch.dtype, bits: int) -> None:
    """And halves of a unit, which products and quotients of doubles round to either side."""
    transport = SecretSharing(clip_range=0.1, precision_bits=bits, ring_bits=64)
    draw, levels = torch.Generator().manual_seed(5), transport.fixed.levels
    units = torch.randint(-levels, levels, (CLIENTS, 4000), generator=draw).double() + 0.5
    rows = (units * transport.fixed.step).to(dtype)
    rows[2, :4], rows[4, 7], rows[1, 0] = -0.3, 3e38, 0.1
    protection = Protection((), transport)
    assert torch.equal(exact_mean(protection, rows), real_mean(protection, rows))


def test_sums_are_whole_beyond_what_doubles_hold() -> None:
    """Units of 31 bits and weights of 27 make sums of up to 60, against Python's integers."""
    transport = SecretSharing(precision_bits=32, ring_bits=64, max_weight=1 << 29)
    weights = [(1 << 27) - 1, 3, (1 << 26) + 1, 1, (1 << 27) - 5]
    rows = updates().double() / updates().abs().max()
    found = exact_mean(Protection((), transport), rows, weights)
    unit = transport.fixed.step / sum(weights)
    for place, column in enumerate(rows.T.tolist()):
        units = [round(value / transport.fixed.step) for value in column]
        total = sum(weight * item for weight, item in zip(weights, units, strict=True))
        assert found[place].item() == total * unit
    assert torch.equal(found, real_mean(Protection((), transport), rows, weights))


def test_nothing_may_be_sent() -> None:
    """A mask that keeps no coordinate leaves a mean of zeros."""
    protection = parse_protection("compression:keep=1e-9+secret-sharing")
    assert torch.equal(exact_mean(protection, updates()), torch.zeros(SIZE, dtype=torch.float64))


@dataclass(frozen=True)
class Broken(Transform):
    """Of a third party, which sends no number."""

    name: ClassVar[str] = "broken"

    def apply(
        self, update: SparseUpdate, *, client: int, round: RoundInfo, entropy: Seeded | System
    ) -> SparseUpdate:
        return SparseUpdate(update.values * (math.nan if client == 2 else 1.0))

    def explain(self, mechanism: MechanismInfo, round: RoundInfo, size: int) -> MechanismInfo:
        return mechanism


def refuses_alike(protection: Protection, rows: torch.Tensor, sentence: str) -> None:
    with pytest.raises(TrilemmaError, match=sentence) as real:
        real_mean(protection, rows)
    with pytest.raises(real.type) as found:
        exact_mean(protection, rows)
    assert str(found.value) == str(real.value)


@pytest.mark.parametrize(
    ("protection", "bad", "sentence"),
    [
        (Protection((), SecretSharing()), math.nan, "client 4 contains NaN or inf"),
        (Protection((), SecretSharing()), math.inf, "client 4 contains NaN or inf"),
        (Protection((), SecretSharing()), 1.5, "2.98 % of the coordinates lay beyond"),
        (Protection((), SecretSharing(max_weight=4)), 0.0, "more records than max_w"),
        (Protection((), SecretSharing(max_weight=13)), 0.0, "add up to 14"),
        (Protection((Broken(),), SecretSharing()), 0.0, "client 2 .* magnitude nan"),
    ],
)
def test_the_arithmetic_refuses_what_a_real_round_refuses(
    protection: Protection, bad: float, sentence: str
) -> None:
    rows = updates() / updates().abs().max()
    rows[4, :5] = bad
    refuses_alike(protection, rows, sentence)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_rounding_puts_beyond_the_range_is_beyond_it(dtype: torch.dtype) -> None:
    """0.1 is less than what it is in these types; it is sent in 32 bits."""
    rows = torch.full((CLIENTS, SIZE), 0.1, dtype=dtype)
    refuses_alike(Protection((), SecretSharing(clip_range=0.1)), rows, "100 % of the coordinates")


def test_what_is_not_sent_may_be_beyond_all_numbers() -> None:
    """Of 1e38, ten times as much is infinite: which only matters where it is sent."""
    protection, info, one = parse_protection("compression:keep=0.1"), a_round(), torch.ones(SIZE)
    sent = [
        protection.apply(one, participant, info, Seeded(4)).known
        for participant in info.participants
    ]
    nobody = ~torch.stack([item for item in sent if item is not None]).any(0)
    rows = torch.zeros(len(sent), SIZE)
    rows[:, nobody] = 1e38
    assert bool(nobody.any())
    assert torch.equal(exact_mean(protection, rows), real_mean(protection, rows))


@pytest.mark.parametrize(
    "weights", [[0, 1, 1, 1, 1], [-1, 1, 1, 1, 1], [1.5, 1, 1, 1, 1], [True, 1, 1, 1, 1], [1, 1]]
)
def test_weights_are_refused_as_in_a_real_round(weights: list[int]) -> None:
    for spec in ("none", "secret-sharing:clip_range=3.0"):
        protection, rows = parse_protection(spec), updates(torch.float32)
        with pytest.raises(InvalidInput) as here:
            exact_mean(protection, rows, weights)
        with pytest.raises(InvalidInput) as there:
            real_mean(protection, rows, weights)
        assert str(here.value) == str(there.value)


def test_updates_of_unlike_lengths_are_refused() -> None:
    rows = [*updates(torch.float32).unbind()[:-1], torch.ones(1)]
    with pytest.raises(InvalidInput, match="one length"):
        Arithmetic(parse_protection("none"), rows, WEIGHTS, a_round(), Seeded(4))
