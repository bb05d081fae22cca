from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.cli.own_scenario import small
from tests.game.made_scenario import dataset, make
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining


def test_shape_range_and_classes_are_read_from_the_data() -> None:
    scenario = make()
    spec = scenario.input_spec
    assert (spec.shape, spec.low, spec.high) == ((5,), -1.0, 3.0)
    assert scenario.classes == 3
    assert len(scenario.pooled()) == 12


def test_a_list_of_pairs_is_a_dataset_and_floats_are_regression() -> None:
    pairs = [(torch.rand(5), torch.rand(2)) for _ in range(4)]
    scenario = make(model=nn.Linear(5, 2), loss=mse_loss, clients=[pairs], test=pairs)
    assert scenario.classes is None
    assert scenario.records[0].labels.shape == (4, 2)


def test_the_users_model_is_left_alone() -> None:
    model = nn.Linear(5, 3)
    scenario = make(model=model)
    assert scenario.task.model is not model


def test_local_training_can_be_changed() -> None:
    changed = make().with_local_training(batch=3)
    assert changed.local_training == LocalTraining(batch=3)
    assert changed.input_spec == make().input_spec


class ReturnsNaN(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) * float("nan")


def with_values(value: float) -> TensorDataset:
    data = dataset()
    data.tensors[0][2, 2] = value
    return data


def with_label(label: int) -> TensorDataset:
    data = dataset()
    data.tensors[1][3] = label
    return data


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nan model": ({"model": ReturnsNaN(5, 3)}, "the model returns NaN"),
    "labels": (
        {"clients": [dataset(), with_label(3)]},
        "client 1 run from .* to 3, but .* 0 to 2",
    ),
    "test labels": ({"test": with_label(-1)}, "labels of the test set run from -1"),
    "few records": (
        {"local_training": LocalTraining(batch=7)},
        "client 0 has 6 records, but an update is made of 7",
    ),
    "nan inputs": ({"clients": [with_values(float("nan"))]}, "inputs of client 0 contain NaN"),
    "infinite inputs": ({"clients": [with_values(float("inf"))]}, "NaN or infinity"),
    "constant": (
        {"clients": [TensorDataset(torch.ones(4, 5), torch.zeros(4, dtype=torch.long))]},
        "every input value of the clients is 1.0",
    ),
    "bytes": (
        {"clients": [TensorDataset(torch.ones(4, 5, dtype=torch.uint8), torch.zeros(4))]},
        "convert them to float",
    ),
    "cuda": ({"device": "cuda"}, "torch finds no CUDA GPU"),
    "device": ({"device": "toaster"}, "none that torch knows"),
    "wrong model": ({"model": nn.Linear(4, 3)}, "the model cannot take inputs of shape"),
    "no clients": ({"clients": []}, "at least one client"),
    "empty client": ({"clients": [dataset(), []]}, "client 1 has no records; leave it out"),
    "empty arrays": (
        {"clients": [(torch.zeros(0, 5), torch.zeros(0))]},
        "client 0 has no records; leave it out",
    ),
    "shapes": ({"test": [(torch.rand(4), torch.tensor(0))]}, "one shape"),
    "loss": ({"loss": lambda out, y: (out.sum() - out.sum()) / 0}, "contains NaN or infinity"),
    "classes": ({"classes": 7}, "classes is 7, but the model returns 3 scores"),
    "frozen": ({"model": nn.Linear(5, 3).requires_grad_(False)}, "no trainable parameter"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case: str) -> None:
    changes, sentence = BAD[case]
    if case == "cuda" and torch.cuda.is_available():
        pytest.skip("a GPU is here")
    with pytest.raises(InvalidInput, match=sentence) as raised:
        make(**changes)
    assert str(raised.value).endswith(".")
    assert "\n" not in str(raised.value)


class Encoder(nn.Module):
    """One transformer layer over a sequence of continuous tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(1, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(self.layer(self.lift(inputs[..., None])).mean(1))
        return outputs


NETWORKS = {
    "relu": nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3)),
    "group norm": nn.Sequential(nn.Linear(5, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Linear(8, 3)),
    "batch norm in eval": nn.Sequential(
        nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
    ).eval(),
    "dropout in eval": nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3)).eval(),
    "transformer": Encoder(),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "training", [LocalTraining(batch=2), LocalTraining("fedavg", steps=3, batch=2, records=4)]
)
def test_usual_networks_are_suitable(name: str, training: LocalTraining) -> None:
    assert make(model=NETWORKS[name], local_training=training).classes == 3


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8), nn.Dropout(0.5)])
def test_layers_in_train_mode_are_told_of(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(5, 8), layer, nn.Linear(8, 3))
    made = make(model=model, local_training=LocalTraining(batch=2))
    remark, _ = made.remarks
    assert type(layer).__name__.rstrip("1d") in remark
    assert model.training, "the user's own model stays as it was"


def test_where_trainings_start_is_told() -> None:
    (fresh,) = make().remarks
    assert "starts from fresh random weights, whatever the model holds" in fresh
    assert "Scenario(initialise=...)" in fresh
    (own,) = make(initialise=lambda model: None).remarks
    assert own.endswith("starts from what initialise makes.")


def test_no_record_is_in_what_is_printed() -> None:
    made = make(clients=[with_values(2.71828)], test=with_values(3.14159))
    assert repr(made) == "Scenario('scenario', clients=1, records=6, parameters=18)"
    said = f"{made!r} {made.records!r} {made.test_records}"
    assert "2.7" not in said
    assert "3.14" not in said


def test_a_batch_that_cannot_be_normalised_is_refused() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(InvalidInput, match="no variance in batches of 1; use larger batches"):
        make(model=model, local_training=LocalTraining(batch=1))


def test_the_range_is_that_of_the_clients_alone() -> None:
    """Public and test records may be wider; what is attacked is a client's."""
    wide = with_values(9.0)
    assert make(test=wide, public=wide).input_spec == make().input_spec


def test_a_cohort_is_some_of_the_clients() -> None:
    made = small(4)
    assert (made.per_round, replace(made, cohort=3).per_round) == (4, 3)
    for cohort in (0, 5):
        with pytest.raises(
            InvalidInput, match=rf"lie in 1 .. 4, the number of clients, got {cohort}"
        ):
            replace(made, cohort=cohort)
