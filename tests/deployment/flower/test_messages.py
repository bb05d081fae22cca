from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from tests.deployment.flower.harness import MODEL, initial

from trilemma.deployment.flower.messages import (
    content_digest,
    model_tensors,
    only_arrays,
    read_stages,
    shifted,
    without_stages,
    write_stages,
)
from trilemma.deployment.nodes.stages import Stage
from trilemma.errors import InvalidInput, ProtocolViolation

STAGES = st.builds(
    Stage,
    run=st.integers(0, 2**64 - 1),
    kind=st.sampled_from(["train", "evaluate"]),
    session=st.text("0123456789abcdef", min_size=32, max_size=32),
    number=st.integers(0, 2**31),
    cohort=st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=5).map(
        lambda nodes: tuple(sorted(nodes))
    ),
    size=st.integers(0, 2**40),
    terms=st.text(max_size=20),
    version=st.integers(0, 100),
    blobs=st.dictionaries(st.sampled_from(["update", "metrics"]), st.binary(max_size=40)),
)


@settings(max_examples=50)
@given(stages=st.lists(STAGES, max_size=3))
def test_stages_survive_a_message_beside_the_apps_own_records(stages: list[Stage]) -> None:
    content = RecordDict({"arrays": initial(), **write_stages(stages)})
    assert read_stages(content) == stages
    assert list(without_stages(content)) == ["arrays"]


@given(
    stage=STAGES,
    field=st.sampled_from(["run", "kind", "session", "cohort", "number", "size", "more"]),
    value=st.one_of(st.integers(-9, 9), st.text(max_size=5), st.binary(max_size=9), st.floats()),
)
def test_an_altered_stage_is_refused_or_still_a_stage(
    stage: Stage, field: str, value: int | str | bytes | float
) -> None:
    records = write_stages([stage])
    header = records["trilemma.0"]
    assert isinstance(header, ConfigRecord)
    header[field] = value
    try:
        (read,) = read_stages(RecordDict(dict(records)))
    except ProtocolViolation:
        return
    for name in ("run", "number", "size"):
        assert type(getattr(read, name)) is int


def test_a_stage_without_its_bytes_is_cut_short() -> None:
    records = write_stages([Stage(1, "train", "0" * 32, 1, (1,), 1)])
    del records["trilemma.0.bytes"]
    with pytest.raises(ProtocolViolation, match="is cut short: its bytes are missing"):
        read_stages(RecordDict(dict(records)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("kind", 1), ("kind", "fit"), ("session", b"0" * 32), ("number", 1.0), ("number", True)),
        *(("cohort", b"123"), ("cohort", "ab"), ("cohort", b""), ("size", "5"), ("terms", 3)),
        *(("version", -1), ("version", b""), ("more", 1)),
    ],
)
def test_a_header_field_of_another_type_is_named(name: str, value: str | bytes | float) -> None:
    records = write_stages([Stage(1, "train", "0" * 32, 1, (1,), 1)])
    header = records["trilemma.0"]
    assert isinstance(header, ConfigRecord)
    header[name] = value
    with pytest.raises(ProtocolViolation, match=f"^(header field '{name}'|{name}) of a stage is "):
        read_stages(RecordDict(dict(records)))


@pytest.mark.parametrize("name", ["run", "kind", "session", "number", "cohort", "size", "terms"])
def test_a_header_field_that_is_missing_is_named(name: str) -> None:
    records = write_stages([Stage(1, "train", "0" * 32, 1, (1,), 1)])
    header = records["trilemma.0"]
    assert isinstance(header, ConfigRecord)
    del header[name]
    with pytest.raises(ProtocolViolation, match=f"header field '{name}' of a stage is None"):
        read_stages(RecordDict(dict(records)))
    records["trilemma.0"] = ArrayRecord()
    with pytest.raises(ProtocolViolation, match="header field 'cohort' of a stage is None"):
        read_stages(RecordDict(dict(records)))


def test_counters_are_neither_summed_nor_shifted() -> None:
    layout, flat = model_tensors(initial())
    assert layout.names == ("weight", "bias")
    assert flat.shape == (65,)
    moved = shifted(initial(), torch.ones(65, dtype=torch.float64))
    for name in ("weight", "bias"):
        np.testing.assert_allclose(moved[name].numpy(), MODEL[name] - 1, atol=1e-6)
        assert moved[name].numpy().dtype == MODEL[name].dtype
    assert moved["batches"].numpy() == MODEL["batches"]


def test_batch_norms_counter_counts_even_as_a_float() -> None:
    """Flower's averages make floats of counters, and a resumed run is given those."""
    whole = ArrayRecord(torch.nn.BatchNorm1d(3).state_dict())
    averaged = ArrayRecord({n: Array(a.numpy().astype(np.float64)) for n, a in whole.items()})
    for record in (whole, averaged):
        assert "num_batches_tracked" not in model_tensors(record)[0].names
        assert model_tensors(record)[0].size == 12


def test_a_message_holds_one_model_of_floating_point() -> None:
    with pytest.raises(InvalidInput, match="holds one ArrayRecord, the model, got 2"):
        only_arrays(RecordDict({"a": initial(), "b": initial()}))
    with pytest.raises(InvalidInput, match="got 0"):
        only_arrays(RecordDict({"metrics": MetricRecord()}))
    with pytest.raises(InvalidInput, match="no floating-point array"):
        model_tensors(ArrayRecord({"count": Array(np.array(3))}))


def shown_content() -> dict[str, ArrayRecord | ConfigRecord | MetricRecord]:
    return {
        "arrays": ArrayRecord({"a": Array(np.arange(3.0)), "b": Array(np.ones((2, 2), "<f4"))}),
        "config": ConfigRecord({"lr": 0.1, "epochs": 2, "names": ["x", "y"], "on": True}),
        "metrics": MetricRecord({"loss": 1e-9, "counts": [1, 2]}),
    }


def test_a_digest_survives_the_wire_and_leaves_our_stages_out() -> None:
    content = RecordDict(shown_content())
    first = content_digest(content)
    assert content_digest(recorddict_from_proto(recorddict_to_proto(content))) == first
    stage = Stage(1, "train", "a" * 32, 1, (1, 2), 3)
    assert content_digest(RecordDict({**content, **write_stages([stage])})) == first
    turned = RecordDict(dict(reversed(shown_content().items())))
    assert content_digest(turned) == first, "in whatever order records come"


@pytest.mark.parametrize(
    "other",
    [
        {"arrays": ArrayRecord({"a": Array(np.arange(3.0)), "b": Array(np.ones(4, "<f4"))})},
        {"arrays": ArrayRecord({"a": Array(np.zeros(3)), "b": Array(np.ones((2, 2), "<f4"))})},
        {"config": ConfigRecord({"lr": 0.0, "epochs": 2, "names": ["x", "y"], "on": True})},
        {"config": ConfigRecord({"lr": 0.1, "epochs": 2, "names": ["x", "y"], "on": 1})},
        {"config": ConfigRecord({})},
        {"more": ConfigRecord({"seed": 1})},
    ],
)
def test_whatever_an_app_is_shown_is_in_the_digest(other: dict[str, ConfigRecord]) -> None:
    first = content_digest(RecordDict(shown_content()))
    assert content_digest(RecordDict({**shown_content(), **other})) != first


@pytest.mark.parametrize("run", ["", " 7", "1_0", "٣", "-1", "9" * 5000, 7, 7.5, True])
def test_a_run_is_written_in_digits(run: str | float) -> None:
    records = write_stages([Stage(1, "train", "0" * 32, 1, (1,), 1)])
    header = records["trilemma.0"]
    assert isinstance(header, ConfigRecord)
    header["run"] = run
    with pytest.raises(ProtocolViolation, match=r"(header field 'run'|^run) of a stage is "):
        read_stages(RecordDict(dict(records)))


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"",
            b"nonsense",
            b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((",
            Array(np.array(["a"])).data,
        ),
        Array(np.zeros(3)).data.replace(b"(3,)", b"(10000000000000000000000000000,)"),
        Array(np.zeros(3)).data[:-1],
    ],
)
def test_arrays_that_cannot_be_read_are_one_sentence(data: bytes) -> None:
    record = ArrayRecord({"weight": Array("float32", (3,), "numpy.ndarray", data)})
    with pytest.raises(ProtocolViolation, match=r"arrays \['weight'\] cannot be read"):
        model_tensors(record)
