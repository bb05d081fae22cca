"""Clipping against Flower's own function, and schedules round by round."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.protection.transforms.applying import some_values

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import SparseUpdate
from trilemma.protection.transforms.update_clipping import Clipping, ClippingSchedule
from trilemma.testing import check_mechanism


def sent(
    transform: Clipping | ClippingSchedule, values: torch.Tensor, number: int = 0
) -> torch.Tensor:
    info = RoundInfo("run", number, (0,), 1, 0)
    return transform.apply(SparseUpdate(values), client=0, round=info, entropy=Seeded(0)).values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_thousand_updates_bit_for_bit_as_flower_clips_them(dtype: type[np.floating]) -> None:
    flower = pytest.importorskip("flwr.supercore.differential_privacy")
    draw = np.random.default_rng(0)
    for _ in range(1000):
        update = (draw.normal(size=draw.integers(1, 400)) * 10 ** draw.uniform(-4, 2)).astype(
            dtype
        )
        norm = float(10 ** draw.uniform(-3, 2))
        theirs = [update.copy()]
        flower.compute_clip_model_update(theirs, [np.zeros_like(update)], norm)
        ours = sent(Clipping(norm), torch.from_numpy(update))
        assert np.array_equal(ours.numpy(), theirs[0])


def test_of_several_arrays_to_rounding_as_flower_clips_them() -> None:
    """Flower adds up the arrays' norms; the flat update has one."""
    flower = pytest.importorskip("flwr.supercore.differential_privacy")
    draw = np.random.default_rng(1)
    for _ in range(100):
        arrays = [draw.normal(size=shape).astype(np.float32) for shape in ((8, 5), (5,), (3, 5))]
        whole = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
        flower.clip_inputs_inplace(arrays, 1.5)
        theirs = np.concatenate([array.ravel() for array in arrays])
        np.testing.assert_allclose(sent(Clipping(1.5), whole).numpy(), theirs, rtol=3e-7)


def test_zero_stays_zero() -> None:
    assert not sent(Clipping(1.0), torch.zeros(5)).any()


def test_a_schedule_has_a_norm_for_each_round() -> None:
    schedule, values = ClippingSchedule((2.0, 0.5)), some_values(100) * 100
    norms = [float(sent(schedule, values, number).norm()) for number in (0, 1, 7)]
    assert norms == pytest.approx([2.0, 0.5, 0.5])


@pytest.mark.parametrize("text", ["clipping:norm=0.5", "clipping-schedule:norms=0.5/0.25"])
def test_contract(text: str) -> None:
    check_mechanism(
        parse_protection(text),
        refused=[
            lambda: Clipping(0.0),
            lambda: ClippingSchedule(()),
            lambda: parse_protection("clipping-schedule:norms=1/-1"),
        ],
        tolerance=1e-7,
    )


def test_an_unreadable_schedule_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        parse_protection("clipping-schedule:norms=1/x")
