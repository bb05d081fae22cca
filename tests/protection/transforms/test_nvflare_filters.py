"""NVFlare's filters, re-implemented, against NVFlare's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import kstest, laplace
from tests.protection.transforms.applying import apply

from trilemma.entropy import Seeded
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.base import SparseUpdate, Transform
from trilemma.protection.transforms.percentile import Percentile
from trilemma.protection.transforms.sparse_vector import SparseVector
from trilemma.testing import check_mechanism

Arrays = dict[str, NDArray[Any]]


def by_nvflare(kind: str, update: Arrays, steps: int = 1, **args: Any) -> Arrays:
    """What NVFlare's own filter makes of weight differences."""
    dxo = pytest.importorskip("nvflare.apis.dxo")
    fl_context = pytest.importorskip("nvflare.apis.fl_context")
    shareable = pytest.importorskip("nvflare.apis.shareable")
    module = {"PercentilePrivacy": "percentile_privacy", "SVTPrivacy": "svt_privacy"}[kind]
    filters = pytest.importorskip(f"nvflare.app_common.filters.{module}")
    meta = {dxo.MetaKey.NUM_STEPS_CURRENT_ROUND: steps}
    copy = {name: array.copy() for name, array in update.items()}
    given = dxo.DXO(dxo.DataKind.WEIGHT_DIFF, data=copy, meta=meta)
    made = getattr(filters, kind)(**args).process_dxo(
        given, shareable.Shareable(), fl_context.FLContext()
    )
    filtered: Arrays = (given if made is None else made).data
    return filtered


def flat(update: Arrays) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in update.values()])


def some(draw: np.random.Generator, dtype: type = np.float32) -> Arrays:
    scale = 10 ** draw.uniform(-4, 0)
    shapes = {"0.weight": (7, 9), "0.bias": (7,), "2.weight": (3, 7)}
    return {name: (draw.normal(size=s) * scale).astype(dtype) for name, s in shapes.items()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_thousand_updates_bit_for_bit_through_percentile_privacy(dtype: type) -> None:
    draw = np.random.default_rng(0)
    for _ in range(1000):
        update, steps = some(draw, dtype), int(draw.integers(1, 30))
        args = {
            "percentile": float(draw.uniform(0, 100)),
            "gamma": float(10 ** draw.uniform(-5, 0)),
        }
        theirs = flat(by_nvflare("PercentilePrivacy", update, steps, **args))
        ours = apply(Percentile(**args, steps=steps), torch.from_numpy(flat(update)))
        assert ours.values.numpy().dtype == theirs.dtype
        assert np.array_equal(ours.values.numpy(), theirs)


@pytest.mark.parametrize(
    "args", [{"gamma": 0.0}, {"gamma": -1.0}, {"percentile": 101}, {"percentile": -1}]
)
def test_percentile_privacy_fails_open_and_so_does_ours(args: dict[str, Any]) -> None:
    update = some(np.random.default_rng(1))
    assert np.array_equal(flat(by_nvflare("PercentilePrivacy", update, **args)), flat(update))
    ours = apply(Percentile(**args), torch.from_numpy(flat(update)))
    assert np.array_equal(ours.values.numpy(), flat(update))


SETTINGS: list[dict[str, Any]] = [
    {},
    {"epsilon": 500.0, "noise_var": 40.0, "gamma": 1e-2, "tau": 5e-3},
    {"epsilon": 300.0, "fraction": 0.3, "gamma": 1e-2, "tau": 1e-3, "replace": False},
    {
        "epsilon": 200.0,
        "epsilon_query": 150.0,
        "epsilon_release": 900.0,
        "gamma": 1e-3,
        "steps": 10,
    },
]


def ours_by_svt(values: NDArray[Any], times: int, **args: Any) -> NDArray[Any]:
    transform = SparseVector(**args)
    info = RoundInfo("run", 0, (0,), 1, 0)
    return np.stack(
        [
            transform.apply(
                SparseUpdate(torch.from_numpy(values)),
                client=0,
                round=info,
                entropy=Seeded(number),
            ).values.numpy()
            for number in range(times)
        ]
    )


@pytest.mark.parametrize("args", SETTINGS)
def test_a_thousand_draws_are_distributed_as_those_of_svt_privacy(args: dict[str, Any]) -> None:
    """How many are sent, which, and what is sent of them, at a level of 10⁻⁴ a test."""
    draw, times = np.random.default_rng(2), 1000
    values = np.concatenate([draw.normal(size=30) * 2e-2, draw.normal(size=90) * 2e-3])
    np.random.seed(3)  # noqa: NPY002 - NVFlare draws from numpy's global generator
    given = {name: value for name, value in args.items() if name != "steps"}
    steps = args.get("steps", 1)
    theirs = np.stack(
        [flat(by_nvflare("SVTPrivacy", {"w": values}, steps, **given)) for _ in range(times)]
    )
    ours = ours_by_svt(values, times, **args)
    counts = [(value != 0).sum(1) for value in (ours, theirs)]
    assert kstest(*counts).pvalue > 1e-4
    for part in (slice(0, 30), slice(30, None)):  # large and small coordinates
        sent = [value[:, part] for value in (ours, theirs)]
        chosen = [(item != 0).sum(1) for item in sent]
        assert kstest(*chosen).pvalue > 1e-4, "they are chosen as often"
        edge = args.get("gamma", 1e-5) * steps
        clipped = np.clip(values[part], -edge, edge)
        left = [(item - clipped)[item != 0] for item in sent]
        assert kstest(*left).pvalue > 1e-4, "with the same noise"
        told = SparseVector(**args).released(len(values)) * steps
        assert kstest(left[0], laplace(scale=told).cdf).pvalue > 1e-4, "that it tells of"


def test_svt_privacys_own_ledger_has_the_budgets_that_ours_spends() -> None:
    module = pytest.importorskip("nvflare.app_common.filters.svt_privacy")
    dxo = pytest.importorskip("nvflare.apis.dxo")
    fl_context = pytest.importorskip("nvflare.apis.fl_context")
    shareable = pytest.importorskip("nvflare.apis.shareable")
    for args in SETTINGS:
        theirs = module.SVTPrivacy(**{n: v for n, v in args.items() if n != "steps"})
        given = dxo.DXO(
            dxo.DataKind.WEIGHT_DIFF, data={"w": np.random.default_rng(0).normal(size=2410)}
        )
        theirs.process_dxo(given, shareable.Shareable(), fl_context.FLContext())
        (entry,) = theirs.get_privacy_ledger()
        parts = (entry[f"epsilon_{part}"] for part in ("threshold", "query", "release"))
        assert SparseVector(**args).budgets(2410) == pytest.approx(tuple(parts))


def test_without_replacement_the_number_sent_is_exact() -> None:
    values = np.random.default_rng(0).normal(size=50)
    sent = ours_by_svt(values, 50, replace=False, fraction=0.25)
    assert ((sent != 0).sum(1) == 13).all()


@pytest.mark.parametrize(
    "protection",
    ["percentile:percentile=25.0,gamma=0.05", "sparse-vector:gamma=0.01,noise_var=0.5"],
)
def test_contract(protection: str) -> None:
    made: Transform = parse_protection(protection).transforms[0]
    check_mechanism(
        parse_protection(protection),
        refused=[
            lambda: Percentile(steps=0),
            lambda: SparseVector(fraction=0.0),
            lambda: SparseVector(fraction=1.5),
            lambda: SparseVector(epsilon=-1.0),
            lambda: SparseVector(epsilon_threshold=0.05, epsilon_query=0.2),
            lambda: SparseVector(epsilon_threshold=0.2),
            lambda: parse_protection(f"{protection}+secret-sharing"),
        ],
        tolerance=1e-6,
    )
    assert made.caveat
