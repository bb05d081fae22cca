import gzip
import math
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput, UnknownName
from trilemma.estimation.models import fresh_weights
from trilemma.records.records import Records
from trilemma.scenarios import SCENARIOS, load_scenario
from trilemma.scenarios.images import read_cifar10, read_idx
from trilemma.scenarios.networks import lenet
from trilemma.scenarios.partition import partition


@pytest.mark.parametrize(
    ("name", "parameters"), [("digits", 2410), ("digits-mlp", 2410), ("digits-lenet", 8026)]
)
def test_digits(name: str, parameters: int) -> None:
    scenario = load_scenario(name)
    assert scenario.task.layout.size == parameters
    assert (scenario.input_spec.low, scenario.input_spec.high) == (0.0, 1.0)
    assert scenario.classes == 10
    assert [len(r) for r in scenario.records] == [150] * 10
    assert len(scenario.test_records) == 297
    weights = fresh_weights(scenario, [0])
    assert weights.abs().max() <= 0.5
    assert weights.std().item() == pytest.approx(1 / 12**0.5, abs=0.01)


def test_digits_are_split_once_over_test_and_clients() -> None:
    scenario = load_scenario("digits", clients=3)
    everything = torch.cat([scenario.pooled().inputs, scenario.test_records.inputs]).flatten(1)
    assert len(everything) == 1797
    assert len(torch.unique(everything, dim=0)) == 1797


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 7, 5)])
def test_lenet_takes_any_image(shape: tuple[int, int, int]) -> None:
    assert lenet(shape, 4)(torch.rand(2, *shape)).shape == (2, 4)


def test_an_even_partition_is_even_and_disjoint() -> None:
    records = Records(torch.arange(103.0)[:, None], torch.arange(103) % 5)
    parts = partition(records, 4, alpha=None, minimum=1, seed=0)
    assert sorted(len(part) for part in parts) == [25, 26, 26, 26]
    assert sorted(torch.cat([p.inputs for p in parts]).flatten().tolist()) == list(range(103))


def test_a_dirichlet_partition_is_skewed_and_loses_nothing() -> None:
    records = Records(torch.arange(2000.0)[:, None], torch.arange(2000) % 5)

    def skew(alpha: float) -> float:
        parts = partition(records, 4, alpha=alpha, minimum=2, seed=0)
        assert sorted(torch.cat([p.inputs for p in parts]).flatten().tolist()) == list(range(2000))
        counts = np.array([np.bincount(p.labels.numpy(), minlength=5) for p in parts])
        return float((counts / counts.sum(axis=0)).std())

    assert skew(0.1) > 0.3 > 0.05 > skew(1000.0)


def test_partitions_that_cannot_be_are_refused() -> None:
    records = Records(torch.rand(20, 1), torch.zeros(20, dtype=torch.long))
    with pytest.raises(InvalidInput, match="too few for 8 clients"):
        partition(records, 8, alpha=None, minimum=3, seed=0)
    with pytest.raises(InvalidInput, match="raise alpha"):
        partition(records, 6, alpha=0.001, minimum=3, seed=0)
    for alpha in (0.0, math.nan, math.inf, 5e-324, 1e308):
        with pytest.raises(InvalidInput, match="alpha"):
            partition(records, 2, alpha=alpha, minimum=1, seed=0)
    with pytest.raises(InvalidInput, match="clients must be at least 1"):
        partition(records, 0, alpha=None, minimum=1, seed=0)


def idx(values: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 8, values.ndim)
    return header + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write_mnist(folder: Path, *, zipped: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for part, size in (("train", 40), ("t10k", 10)):
        images = rng.integers(0, 256, (size, 28, 28), dtype=np.uint8)
        labels = (np.arange(size) % 10).astype(np.uint8)
        for stem, values in (("images-idx3", images), ("labels-idx1", labels)):
            name = f"{part}-{stem}-ubyte"
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
            else:
                (folder / name).write_bytes(idx(values))


@pytest.mark.parametrize(
    ("name", "inner", "zipped"),
    [
        ("mnist", "", True),
        ("mnist", "MNIST/raw", False),
        ("fashion-mnist", "FashionMNIST/raw", True),
        ("fashion-mnist", "", False),
    ],
)
def test_idx_folders(tmp_path: Path, name: str, inner: str, zipped: bool) -> None:
    write_mnist(tmp_path / inner, zipped=zipped)
    scenario = load_scenario(name, folder=str(tmp_path), clients=2, batch=4)
    assert scenario.input_spec.shape == (1, 28, 28)
    assert [len(r) for r in scenario.records] == [20, 20]
    assert scenario.local_training.batch == 4


def test_idx_values_survive(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx(values))
    assert np.array_equal(read_idx(tmp_path / "a"), values)
    (tmp_path / "short").write_bytes(idx(values)[:-1])
    with pytest.raises(InvalidInput, match="promises 24 values but holds 23"):
        read_idx(tmp_path / "short")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidInput, match="not an idx file"):
        read_idx(tmp_path / "text")
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_idx(tmp_path / "bad.gz")


def write_cifar(folder: Path, batch: dict[bytes, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


def test_cifar10_pickles_hold_arrays_and_nothing_that_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (6, 3072), dtype=np.uint8)
    write_cifar(tmp_path / "cifar-10-batches-py", {b"data": data, b"labels": [0, 1, 2, 3, 4, 9]})
    scenario = load_scenario("cifar10", folder=str(tmp_path), clients=2)
    assert scenario.input_spec.shape == (3, 32, 32)
    train, test = read_cifar10(tmp_path)
    assert len(train) == 30
    assert torch.equal(test.inputs[0, 1, 0, 3], torch.tensor(data[0, 1024 + 3] / 255).float())
    write_cifar(tmp_path / "evil", {b"data": print, b"labels": [0]})
    with pytest.raises(InvalidInput, match=r"not a batch of CIFAR-10 .*print is not data"):
        read_cifar10(tmp_path / "evil")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="holds no data_batch_1"):
        read_cifar10(tmp_path / "empty")


def test_a_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--data FOLDER"):
        load_scenario("mnist")
    with pytest.raises(InvalidInput, match=r"there is no folder .*check --data"):
        load_scenario("mnist", folder=str(tmp_path / "nowhere"))
    with pytest.raises(InvalidInput, match="holds no train-images-idx3-ubyte"):
        load_scenario("mnist", folder=str(tmp_path))


OWN = """
import torch
from torch import nn
from trilemma.estimation.scenario import Scenario

def make(size=8):
    data = [(torch.rand(3), torch.tensor(i % 2)) for i in range(size)]
    return Scenario(nn.Linear(3, 2), nn.functional.cross_entropy, [data], data, name="own")

def wrong():
    return 3

def broken():
    raise OSError("no disk")
"""


@pytest.fixture
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_scenario.py").write_text(OWN)
    (tmp_path / "my_broken_module.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_own_module")
def test_ones_own_function_with_a_batch_it_knows_nothing_of() -> None:
    scenario = load_scenario("my_own_scenario:make", batch=4, size=6)
    assert (scenario.name, scenario.local_training.batch) == ("own", 4)
    assert len(scenario.records[0]) == 6


@pytest.mark.usefixtures("_own_module")
@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module_here:make", "cannot be imported"),
        ("my_broken_module:make", "cannot be imported .ZeroDivisionError"),
        ("my_own_scenario:nothing", "has no object 'nothing'"),
        ("my_own_scenario:wrong", "must return a trilemma Scenario, got int"),
        ("my_own_scenario:broken", "failed .OSError: no disk"),
    ],
)
def test_ones_own_function_that_fails_is_one_sentence(spec: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        load_scenario(spec)


@pytest.mark.usefixtures("_own_module")
def test_an_option_that_the_function_does_not_take() -> None:
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'clients'"):
        load_scenario("my_own_scenario:make", clients=3)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean 'digits'") as raised:
        load_scenario("digts")
    for name in SCENARIOS:
        assert name in str(raised.value)


@pytest.mark.slow
def test_fashion_mnist_from_debians_package() -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("package dataset-fashion-mnist is not installed")
    scenario = load_scenario("fashion-mnist", clients=4)
    assert sum(len(r) for r in scenario.records) == 60_000
    assert scenario.task.layout.size == 13_426
