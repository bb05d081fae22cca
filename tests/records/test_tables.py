"""Tables from frames: kinds by what a column holds, and the same values back."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.records.columns import cells
from trilemma.records.tables import Table

FRAME: dict[str, Any] = {
    "age": np.array([30, 40, 50, 80]),
    "bmi": np.array([20.5, 24.0, 31.25, 27.0]),
    "sex": np.array(["f", "m", "m", "f"], dtype=object),
    "smokes": np.array([True, False, False, True]),
    "ward": np.array([3, 1, 3, 2]),
    "ill": np.array(["no", "yes", "yes", "no"]),
}


def test_kinds_are_read_and_values_come_back() -> None:
    table = Table.of(FRAME, "ill", categories=["ward"])
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds == {
        "age": "integer", "bmi": "number", "sex": "category", "smokes": "category",
        "ward": "category",
    }  # fmt: skip
    records = table.records(FRAME)
    assert records.inputs.shape == (4, 1 + 1 + 2 + 2 + 3)
    numbers = records.inputs[:, :2].double().numpy()
    wanted = np.stack([FRAME["age"], FRAME["bmi"]], 1).astype(float)
    np.testing.assert_allclose(numbers, (wanted - wanted.mean(0)) / wanted.std(0), atol=1e-6)
    assert cells(table.columns, records.inputs[2]) == ["50", "31.25", "m", "False", "3"]
    assert (table.classes, records.labels.tolist()) == (2, [0, 1, 1, 0])


def test_an_embedded_category_is_its_number_and_a_real_target_is_standardised() -> None:
    table = Table.of(FRAME, "bmi", embedded=["sex"])
    records = table.records(FRAME)
    assert next(column.kind for column in table.columns if column.name == "sex") == "code"
    assert records.inputs[:, 1].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert table.classes is None
    assert records.labels.view(torch.uint8).shape == (4, 4), "laid out as any tensor"
    assert records.labels.shape == (4, 1)
    torch.testing.assert_close(records.labels.mean(), torch.tensor(0.0))


def test_any_frame_with_columns_by_name_will_do() -> None:
    frame = SimpleNamespace(columns=list(FRAME))

    class Frame:
        columns = frame.columns

        def __getitem__(self, name: str) -> Any:
            return FRAME[name]

    one, other = Table.of(Frame(), "ill"), Table.of(FRAME, "ill")
    assert one == other
    assert torch.equal(one.records(Frame()).inputs, other.records(FRAME).inputs)


def test_a_pandas_frame_is_read() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(FRAME)
    frame["sex"] = frame["sex"].astype("category")
    assert torch.equal(
        Table.of(frame, "ill").records(frame).inputs, Table.of(FRAME, "ill").records(FRAME).inputs
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"age": np.array([1.0, np.nan, 2, 3])}, "'age' has 1 missing values"),
        ({"sex": np.array(["f", None, "m", "f"], dtype=object)}, "'sex' has 1 missing"),
        ({"bmi": np.array([1.0, np.inf, 2, 3])}, "'bmi' contains infinity"),
        ({"age": np.zeros((4, 2))}, "one number or text a record"),
    ],
)
def test_a_column_that_cannot_be_read_is_named(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Table.of({**FRAME, **change}, "ill")


def test_frames_that_do_not_fit_are_refused() -> None:
    table = Table.of(FRAME, "ill")
    with pytest.raises(InvalidInput, match="lacks the column 'weight'; it has age, bmi"):
        Table.of(FRAME, "weight")
    with pytest.raises(InvalidInput, match="lacks the column 'age'"):
        table.records({name: FRAME[name] for name in FRAME if name != "age"})
    with pytest.raises(InvalidInput, match="lacks the columns 'age', 'sex', 'ill'; it has bmi, s"):
        table.records({name: FRAME[name] for name in ("bmi", "smokes", "ward")})
    with pytest.raises(InvalidInput, match="lacks the columns 'height', 'hair'; it has age,"):
        Table.of(FRAME, "ill", categories=["height", "hair"])
    with pytest.raises(InvalidInput, match=r"'sex' holds 'x', which is none of its levels f, m"):
        table.records({**FRAME, "sex": np.array(["f", "x", "m", "f"])})
    with pytest.raises(InvalidInput, match="must hold numbers"):
        table.records({**FRAME, "age": np.array(["a", "b", "c", "d"])})
    with pytest.raises(InvalidInput, match="got list"):
        Table.of([1, 2], "ill")
    with pytest.raises(InvalidInput, match="besides the target"):
        Table.of({"ill": FRAME["ill"]}, "ill")


def test_columns_of_unlike_lengths_and_empty_frames_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"unlike numbers of records, \{'a': 2, 'b': 1\}"):
        Table.of({"a": [1, 2], "b": [1]}, "b")
    with pytest.raises(InvalidInput, match="has no records"):
        Table.of({"a": np.zeros(0), "b": np.zeros(0)}, "b")


@pytest.mark.parametrize("own", [np.arange(30), np.array([f"p{k}" for k in range(30)])])
def test_a_column_that_differs_in_each_record_is_warned_about(own: Any) -> None:
    frame = {"id": own, "age": np.arange(30) // 2, "bmi": np.linspace(18, 40, 30)}
    with pytest.warns(UserWarning, match="'id' differs in each of the 30 records.*leave it out"):
        Table.of({**frame, "ill": np.arange(30) % 2}, "ill")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Table.of({"age": frame["age"], "bmi": frame["bmi"], "ill": np.arange(30) % 2}, "ill")
