from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from trilemma.errors import InvalidInput
from trilemma.federation.deployment import Deployment
from trilemma.learning import LocalTraining

POISSON = LocalTraining(lr=0.5, batch=4, record_clip=0.5, sampling="poisson")
MEASURED = Deployment(
    POISSON,
    parameters=4810,
    clients=20,
    cohort=10,
    threshold=7,
    weighting="equal",
    rounds=150,
    sampling_rate=4 / 150,
    participation="secret",
    helpers=1,
)
OTHERS: dict[str, Any] = {
    "local_training": replace(POISSON, batch=5),
    "parameters": 4811,
    "clients": 21,
    "cohort": 11,
    "threshold": 8,
    "weighting": "records",
    "rounds": 151,
    "sampling_rate": 4 / 149,
    "participation": "known",
    "helpers": 2,
}


def test_a_deployment_survives_json_and_equals_itself() -> None:
    adapter = TypeAdapter(Deployment)
    again = adapter.validate_json(json.dumps(adapter.dump_python(MEASURED, mode="json")))
    assert again == MEASURED
    assert again.mismatches(MEASURED) == []


@pytest.mark.parametrize("name", [each.name for each in fields(Deployment)])
def test_each_field_that_differs_is_one_sentence_with_both_values(name: str) -> None:
    other = replace(MEASURED, **{name: OTHERS[name]})
    (sentence,) = MEASURED.mismatches(other)
    assert sentence.startswith(name)
    assert "when measured and is" in sentence
    assert "; " in sentence
    assert sentence.endswith(".")
    shown = (4, 5) if name == "local_training" else (getattr(MEASURED, name), OTHERS[name])
    for value in shown:
        assert repr(value) in sentence


def test_local_training_is_compared_field_by_field() -> None:
    other = replace(MEASURED, local_training=replace(POISSON, lr=0.1, record_clip=1.0))
    assert [each.split()[0] for each in MEASURED.mismatches(other)] == [
        "local_training.lr",
        "local_training.record_clip",
    ]


def test_a_share_that_was_written_out_is_the_same() -> None:
    other = replace(MEASURED, sampling_rate=0.026666666666666)
    assert MEASURED.mismatches(other) == []


def test_numpy_numbers_become_plain() -> None:
    changes: dict[str, Any] = {"rounds": np.int64(150), "sampling_rate": np.float64(4 / 150)}
    made = replace(MEASURED, **changes)
    assert made == MEASURED
    assert type(made.rounds) is int


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"parameters": 1.5}, "parameters must be a whole number, got 1.5"),
        ({"clients": True}, "clients must be a whole number"),
        ({"threshold": 11}, r"threshold \(11\), cohort \(10\) and clients"),
        ({"cohort": 21}, r"cohort \(21\) and clients \(20\) must rise"),
        ({"helpers": 7}, "helpers must leave an honest client of the 7"),
        ({"helpers": -1}, "helpers must be at least 0, got -1"),
        ({"sampling_rate": 1.01}, "sampling_rate must be at most 1, got 1.01"),
        ({"sampling_rate": float("nan")}, "sampling_rate .* must be positive"),
        ({"weighting": "size"}, "weighting must be 'equal' or 'records', got 'size'"),
        ({"participation": 1}, "participation must be 'secret' or 'known', got 1"),
        ({"local_training": LocalTraining()}, "participation is a secret under Poisson sampling"),
        ({"local_training": None}, "local_training must be a LocalTraining, got None"),
    ],
)
def test_a_deployment_checks_itself(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        replace(MEASURED, **changes)
