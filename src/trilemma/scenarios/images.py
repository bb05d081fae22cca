"""Image data sets from a local folder: idx files (MNIST, Fashion-MNIST) and CIFAR-10's pickles.

Nothing is downloaded. A folder may hold the files themselves or the layout that torchvision
makes; Debian's package dataset-fashion-mnist is found by itself.
"""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from trilemma.errors import InvalidInput
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining
from trilemma.records.records import Records
from trilemma.scenarios.networks import lenet, uniform_weights
from trilemma.scenarios.partition import partition

__all__ = ["images", "read_cifar10", "read_idx"]

_DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
_IDX_BYTES: Final = 0x08  # the idx type code of unsigned bytes


def images(
    name: Literal["fashion-mnist", "mnist", "cifar10"],
    *,
    folder: str | None = None,
    clients: int = 10,
    batch: int = 1,
    alpha: float | None = None,
    seed: int = 0,
) -> Scenario:
    """A data set of 28x28 or 32x32 images over `clients` clients, with the DLG LeNet."""
    train, test = _read(name, folder)
    shape = train.inputs.shape
    return Scenario(
        model=lenet((shape[1], shape[2], shape[3]), 10),
        loss=cross_entropy,
        clients=partition(train, clients, alpha=alpha, minimum=batch, seed=seed),
        test=test,
        local_training=LocalTraining("fedsgd", lr=0.1, batch=batch),
        name=name,
        initialise=uniform_weights,
        show_records=True,
    )


def _read(name: str, folder: str | None) -> tuple[Records, Records]:
    base = Path(folder) if folder else _DEBIAN if name == "fashion-mnist" else None
    if base is None:
        raise InvalidInput(f"{name} is read from a local folder; say which with --data FOLDER.")
    if not base.is_dir():
        hint = (
            "install Debian's package dataset-fashion-mnist or give --data FOLDER"
            if folder is None
            else "check --data"
        )
        raise InvalidInput(f"there is no folder {base}; {hint}.")
    if name == "cifar10":
        return read_cifar10(base)
    raw = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}[name]
    places = [base, base / "raw", base / raw / "raw"]
    train, test = (
        Records(
            torch.from_numpy(_find_idx(places, f"{part}-images", 3)).float().unsqueeze(1) / 255,
            torch.from_numpy(_find_idx(places, f"{part}-labels", 1)).long(),
        )
        for part in ("train", "t10k")
    )
    return train, test


def _find_idx(places: list[Path], stem: str, dimensions: int) -> np.ndarray:
    endings = (f"-idx{dimensions}-ubyte", f".idx{dimensions}-ubyte")
    for place in places:
        for ending in endings:
            for suffix in ("", ".gz"):
                path = place / f"{stem}{ending}{suffix}"
                if path.is_file():
                    return read_idx(path)
    raise InvalidInput(
        f"{places[0]} holds no {stem}{endings[0]}[.gz], neither itself nor in "
        f"{places[-1].relative_to(places[0])}."
    )


def read_idx(path: Path) -> np.ndarray:
    """An idx or idx.gz file of unsigned bytes, as an array of its own shape."""
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError) as error:
        raise InvalidInput(f"{path} cannot be read ({error}).") from error
    if len(data) < 4 or data[:3] != bytes((0, 0, _IDX_BYTES)):
        raise InvalidInput(f"{path} is not an idx file of unsigned bytes.")
    start = 4 + 4 * data[3]
    shape = tuple(np.frombuffer(data[4:start], dtype=">u4").astype(int))
    if len(data) - start != np.prod(shape):
        raise InvalidInput(
            f"{path} promises {np.prod(shape)} values but holds {len(data) - start}; "
            f"fetch the file again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape).copy()


def read_cifar10(folder: Path) -> tuple[Records, Records]:
    """Train and test records of CIFAR-10 in the "python version" (cifar-10-batches-py)."""
    inner = folder / "cifar-10-batches-py"
    base = inner if inner.is_dir() else folder
    train = [_cifar_batch(base / f"data_batch_{number}") for number in range(1, 6)]
    return (
        Records(torch.cat([r.inputs for r in train]), torch.cat([r.labels for r in train])),
        _cifar_batch(base / "test_batch"),
    )


class _ArraysOnly(pickle.Unpickler):
    """Unpickles NumPy arrays and plain containers; anything else, any code, is refused."""

    _ALLOWED: Final = {
        ("_codecs", "encode"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "_reconstruct"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not data")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _cifar_batch(path: Path) -> Records:
    if not path.is_file():
        raise InvalidInput(
            f"{path.parent} holds no {path.name}; CIFAR-10 is read from the folder "
            f"cifar-10-batches-py of its python version."
        )
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        values = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(batch[b"labels"], dtype=np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is not a batch of CIFAR-10 ({error}).") from error
    return Records(torch.from_numpy(values).float() / 255, torch.from_numpy(labels))
