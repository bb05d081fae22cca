"""Image files as they are published, and what is wrong with others."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trilemma.errors import InvalidInput
from trilemma.scenarios import load_scenario
from trilemma.scenarios.images import read_cifar10, read_idx


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


@pytest.mark.slow
def test_fashion_mnist_from_debians_package() -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("package dataset-fashion-mnist is not installed")
    scenario = load_scenario("fashion-mnist", clients=4)
    assert sum(len(r) for r in scenario.records) == 60_000
    assert scenario.task.layout.size == 13_426
