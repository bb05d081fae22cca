from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trilemma.deployment.nodes.metrics import decode_metrics, encode_metrics
from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

TRANSPORTS: list[Transport] = [Plain(), SecretSharing(), SecretSharing(clip_range=8.0)]
VALUES = st.lists(st.floats(-100, 100), min_size=1, max_size=4)


@given(values=VALUES, transport=st.sampled_from(TRANSPORTS))
def test_a_mean_of_metrics_comes_back_to_1e_7_of_the_range(
    values: list[float], transport: Transport
) -> None:
    rows = [encode_metrics({"loss": value}, ("loss",), 100.0, transport) for value in values]
    for row in rows:
        assert row.shape == (2,)
        assert float(row.abs().max()) <= getattr(transport, "clip_range", 1.0)
    carried = [_rounded(row, transport.step_size()) for row in rows]
    mean = torch.stack(carried).mean(0)
    found = decode_metrics(mean, ("loss",), 100.0, transport)["loss"]
    assert found == pytest.approx(math.fsum(values) / len(values), abs=1e-5)


def _rounded(row: torch.Tensor, step: float) -> torch.Tensor:
    return row if step == 0 else (row / step).round() * step


def test_several_metrics_keep_their_names() -> None:
    row = encode_metrics({"a": 1.5, "b": -2, "c": 9.0}, ("b", "a"), 10.0, Plain())
    found = decode_metrics(row, ("b", "a"), 10.0, Plain())
    assert found == {"b": pytest.approx(-2.0), "a": pytest.approx(1.5)}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (None, 0.0),
        (math.nan, 0.0),
        ("1", 0.0),
        ([1.0], 0.0),
        (math.inf, 10.0),
        (10.1, 10.0),
        (-(10**9), -10.0),
        (-(10**400), -10.0),
    ],
)
def test_no_number_counts_as_zero_and_what_is_out_of_range_as_its_edge(
    value: Any, sent: float, transport: Transport
) -> None:
    row = encode_metrics({"a": value}, ("a",), 10.0, transport)
    assert decode_metrics(row, ("a",), 10.0, transport) == {"a": sent}
