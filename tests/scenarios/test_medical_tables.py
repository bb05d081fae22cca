"""The ready-made tables: kinds, values and losses."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes  # type: ignore[import-untyped]

from trilemma.scenarios.medical_tables import breast_cancer, diabetes


def test_breast_cancer_is_thirty_numbers_and_two_classes() -> None:
    scenario = breast_cancer()
    data = load_breast_cancer()
    assert [len(record) for record in scenario.records] == [90] * 5
    assert (scenario.classes, scenario.task.layout.size) == (2, 1058)
    assert {column.kind for column in scenario.input_spec.columns} == {"number"}
    pool = torch.cat([scenario.pooled().inputs, scenario.test_records.inputs])
    first = scenario.input_spec.columns[0]
    values = np.sort(first.shift + first.unit * pool[:, 0].double().numpy())
    np.testing.assert_allclose(values, np.sort(data.data[:, 0]), rtol=1e-5)


def test_diabetes_knows_the_sex_and_predicts_a_number() -> None:
    scenario = diabetes()
    kinds = {column.name: column.kind for column in scenario.input_spec.columns}
    assert (kinds["sex"], kinds["age"], kinds["bmi"]) == ("category", "integer", "number")
    assert (scenario.classes, scenario.task.layout.size) == (None, 417)
    assert len(scenario.pooled()) + len(scenario.test_records) == len(load_diabetes().target)
    labels = torch.cat([scenario.pooled().labels, scenario.test_records.labels])
    torch.testing.assert_close(labels.std(correction=0), torch.tensor(1.0))
    assert scenario.heads[:2] == ("age", "sex")
    one, other = scenario.pooled().inputs[:2]
    assert all(right for _, right in scenario.cells(one, one))
    assert scenario.cells(one, other)[1][0] in ("1", "2")
