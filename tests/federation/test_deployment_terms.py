from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment, ServerTraining, room_for
from trilemma.federation.server_parts import Origin, PublicRecords, WarmStart
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
    server=ServerTraining(6.5, decay=True),
    total_records=1875,
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
    "server": ServerTraining(1.0, decay=True),
    "total_records": 1876,
}


def test_a_deployment_survives_json_and_equals_itself() -> None:
    adapter = TypeAdapter(Deployment)
    again = adapter.validate_json(json.dumps(adapter.dump_python(MEASURED, mode="json")))
    assert again == MEASURED
    assert again.mismatches(MEASURED) == []


@pytest.mark.parametrize("name", [field.name for field in fields(Deployment)])
def test_each_field_that_differs_is_one_sentence_with_both_values(name: str) -> None:
    other = replace(MEASURED, **{name: OTHERS[name]})
    (sentence,) = MEASURED.mismatches(other)
    assert sentence.startswith(name)
    assert "when measured and is" in sentence
    assert "; " in sentence
    assert sentence.endswith(".")
    parts = {"local_training": (4, 5), "server": (6.5, 1.0)}
    shown = parts.get(name, (getattr(MEASURED, name), OTHERS[name]))
    for value in shown:
        assert repr(value) in sentence


def test_local_training_is_compared_field_by_field() -> None:
    other = replace(MEASURED, local_training=replace(POISSON, lr=0.1, record_clip=1.0))
    assert [mismatch.split()[0] for mismatch in MEASURED.mismatches(other)] == [
        "local_training.lr",
        "local_training.record_clip",
    ]


def test_a_share_that_was_written_out_is_the_same() -> None:
    other = replace(MEASURED, sampling_rate=0.026666666666666)
    assert MEASURED.mismatches(other) == []


def test_fewer_records_than_there_is_room_for_are_no_difference() -> None:
    assert MEASURED.mismatches(replace(MEASURED, total_records=1500)) == []
    assert room_for(1500) == 1875
    assert room_for(1) == 2


def test_the_servers_step_is_constant_or_falls_to_zero() -> None:
    assert [ServerTraining(2.0).step_in(round, 3) for round in range(3)] == [2.0] * 3
    falling = [ServerTraining(6.0, decay=True).step_in(round, 3) for round in range(5)]
    assert falling == pytest.approx([6.0, 4.0, 2.0, 0.0, 0.0])


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
        ({"total_records": 0}, "total_records must be at least 1, got 0"),
        ({"server": 6.5}, "server must be a ServerTraining, got 6.5"),
        ({"local_training": None}, "local_training must be a LocalTraining, got None"),
    ],
)
def test_a_deployment_checks_itself(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        replace(MEASURED, **changes)


SERVED = ServerTraining(
    6.5,
    decay=True,
    momentum=0.8,
    averaging=0.5,
    warm_start=WarmStart(300, 0.1, 0.9),
    public_weight=0.1,
    public=PublicRecords(149, "00" * 32, "5e88"),
    centring=(Origin("0", (0.25, 0.5)), Origin("2", (0.5,))),
)
CHANGED: dict[str, Any] = {
    "step": 7.0,
    "decay": False,
    "momentum": 0.7,
    "averaging": 0.0,
    "warm_start": WarmStart(300, 0.2, 0.9),
    "public_weight": 0.2,
    "public": PublicRecords(148, "00" * 32, "5e88"),
    "centring": (Origin("0", (0.25, 0.75)), Origin("2", (0.5,))),
}


@pytest.mark.parametrize("name", [field.name for field in fields(ServerTraining)])
def test_each_part_of_the_servers_side_is_compared(name: str) -> None:
    measured = replace(MEASURED, server=SERVED)
    adapter = TypeAdapter(Deployment)
    read = adapter.validate_json(json.dumps(adapter.dump_python(measured, mode="json")))
    assert read == measured
    other = replace(measured, server=replace(SERVED, **{name: CHANGED[name]}))
    (sentence,) = read.mismatches(other)
    assert sentence.startswith(f"server.{name} was ")
    assert repr(measured) != repr(other), "nodes compare the texts of their terms"


def test_centring_and_a_public_gradient_are_for_gradients_of_records() -> None:
    batches = LocalTraining(batch=4)
    known = replace(MEASURED, participation="known", server=SERVED)
    with pytest.raises(InvalidInput, match="centring is for gradients of single records"):
        replace(known, local_training=batches)
    with pytest.raises(InvalidInput, match=r"public_weight=0.1 mixes gradients, but fedavg"):
        replace(known, local_training=LocalTraining("fedavg", batch=4, sampling="poisson"))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"step": 0.0}, "step .* must be positive"),
        ({"step": 1.0, "decay": 1}, "decay must be"),
        ({"step": 1.0, "momentum": 1.0}, r"momentum \(of the server\) must lie in \[0, 1\)"),
        ({"step": 1.0, "averaging": -0.1}, r"averaging \(of the server\) must lie"),
        ({"step": 1.0, "public_weight": 0.1}, "must say which; give public="),
        ({"step": 1.0, "warm_start": WarmStart(3, 0.1)}, "must say which; give public="),
    ],
)
def test_a_servers_training_checks_itself(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        ServerTraining(**fields)
