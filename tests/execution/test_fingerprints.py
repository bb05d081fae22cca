"""Fingerprints: another one after any edit that counts, the same one after all others."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trilemma.execution.fingerprints import fingerprint

MODULE = """
import functools, math, threading
from dataclasses import dataclass
from enum import Enum
import torch
from torch import nn

RATE = 2.0
WEIGHTS = [1.0, 2.0]
TENSOR = torch.tensor([1.0, 2.0])
LOCK = threading.Lock()

class Way(Enum):
    UP = 1

@dataclass(frozen=True)
class Config:
    margin: float = 0.5

CONFIG = Config()

def helper(x):
    return x * RATE

@functools.lru_cache
def cached(x):
    return helper(x)

def loss(x, y, scale=1.0):
    with LOCK:
        return scale * cached(x) + CONFIG.margin + TENSOR.sum() + WEIGHTS[0] + Way.UP.value

def make(power):
    def inner(x):
        return [x ** power for _ in {"a", "b", "c"}]
    return inner

closure = make(2)
mapped = torch.func.vmap(helper)
partial = functools.partial(loss, scale=3.0)

class Base(nn.Module):
    @staticmethod
    def twist(x):
        return x + 1

    @property
    def gain(self):
        return 4.0

class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("mean", torch.zeros(3))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self._power = 2

    def forward(self, x):
        return self.layer(self.twist(x) - self.mean) * self.gain ** self._power + self.frozen

class Plain:
    def __init__(self):
        self.level = 3

    def __call__(self, x):
        return x * self.level

net = Net()
plain = Plain()
method = plain.__call__
"""
OBJECTS = ("loss", "closure", "mapped", "partial", "net", "plain", "method")


def load(text: str = MODULE) -> ModuleType:
    sys.modules["mine"] = module = ModuleType("mine")  # where a dataclass looks for its own
    exec(compile(text, "mine.py", "exec", dont_inherit=True), module.__dict__)
    return module


def prints(text: str = MODULE) -> dict[str, str]:
    module = load(text)
    return {name: fingerprint(getattr(module, name)) for name in OBJECTS}


EDITS = {
    "RATE = 2.0": ("RATE = 3.0", {"loss", "mapped", "partial"}),
    "WEIGHTS = [1.0": ("WEIGHTS = [1.5", {"loss", "partial"}),
    "TENSOR = torch.tensor([1.0": ("TENSOR = torch.tensor([1.5", {"loss", "partial"}),
    "return x * RATE": ("return x / RATE", {"loss", "mapped", "partial"}),
    "return helper(x)": ("return -helper(x)", {"loss", "partial"}),
    "margin: float = 0.5": ("margin: float = 0.6", {"loss", "partial"}),
    "UP = 1": ("UP = 2", {"loss", "partial"}),
    "scale=1.0": ("scale=1.1", {"loss", "partial"}),
    "make(2)": ("make(3)", {"closure"}),
    "x ** power": ("x * power", {"closure"}),
    '{"a", "b"': ('{"a", "d"', {"closure"}),
    "scale=3.0": ("scale=4.0", {"partial"}),
    "return x + 1": ("return x + 2", {"net"}),
    "return 4.0": ("return 5.0", {"net"}),
    "nn.Linear(3, 2)": ("nn.Linear(3, 2, bias=False)", {"net"}),
    "torch.zeros(3)": ("torch.ones(3)", {"net"}),
    "torch.ones(2)": ("torch.zeros(2)", {"net"}),
    "self._power = 2": ("self._power = 3", {"net"}),
    "- self.mean)": ("+ self.mean)", {"net"}),
    "self.level = 3": ("self.level = 4", {"plain", "method"}),
    "x * self.level": ("x / self.level", {"plain", "method"}),
}


@pytest.mark.parametrize("old", EDITS)
def test_an_edit_changes_what_it_concerns_and_nothing_else(old: str) -> None:
    new, concerned = EDITS[old]
    assert MODULE.count(old) == 1
    before, after = prints(), prints(MODULE.replace(old, new))
    assert {name for name in OBJECTS if before[name] != after[name]} == concerned


def test_comments_other_weights_other_code_and_use_change_nothing() -> None:
    before = prints()
    edited = MODULE.replace("def helper", "# a comment\n\ndef unrelated(): pass\n\ndef helper")
    assert prints(edited) == before
    module = load()
    for _ in range(2000):  # Python rewrites code that runs often, for speed
        module.cached(torch.ones(2))
        module.helper(3.0)
    nn.init.ones_(module.net.layer.weight)
    module.net(torch.zeros(1, 3))
    assert {name: fingerprint(getattr(module, name)) for name in OBJECTS} == before


def test_another_process_gives_the_same(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    script = (
        "import mine; from trilemma.execution.fingerprints import fingerprint\n"
        f"for name in {OBJECTS!r}: print(fingerprint(getattr(mine, name)))"
    )
    found = []
    for seed in "12":  # the order of a set of texts changes with it, and the second has a .pyc
        ended = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{':'.join(sys.path)}:{tmp_path}"},
            check=True,
            capture_output=True,
            text=True,
        )
        found.append(ended.stdout.splitlines())
    assert found[0] == found[1] == list(prints().values())


def test_a_name_comes_first_and_a_key_changes_the_hash() -> None:
    assert fingerprint(nn.functional.cross_entropy).startswith("cross_entropy ")
    assert fingerprint(functools.partial(load().loss)).startswith("loss ")
    assert fingerprint(nn.Linear(2, 2)).startswith("Linear ")
    assert fingerprint(nn.Linear(2, 2), key=b"k") != fingerprint(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1)),
        (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(weight=torch.ones(3))),
        (nn.Dropout(0.1), nn.Dropout(0.2)),
        (nn.BatchNorm1d(3), nn.BatchNorm1d(3).eval()),
        (nn.Linear(3, 2), nn.Linear(3, 2).double()),
        (nn.Linear(3, 2), nn.Linear(3, 2).requires_grad_(False)),
        (nn.Sequential(nn.Sigmoid()), nn.Sequential(nn.Tanh())),
        (torch.ones(2), torch.ones(1, 2)),
        (torch.ones(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16)),
        (np.ones(2), np.zeros(2)),
        (1, True),
        (1, 1.0),
        (("ab",), ("a", "b")),
        (torch.float32, torch.float64),
        (np.sin, np.cos),
        (torch.sin, torch.cos),
    ],
)
def test_what_computes_otherwise_differs(one: Any, other: Any) -> None:
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def test_what_refers_to_itself_or_to_nothing_yet_ends() -> None:
    knot: list[object] = [1]
    knot.append(knot)
    assert fingerprint(knot) == fingerprint(knot)

    def outer() -> object:
        def early() -> object:
            return late

        found = fingerprint(early)
        late = 1
        return found

    assert outer() == outer()
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda module, args, output: output * 2)
    other = nn.Linear(2, 2)
    other.register_forward_hook(lambda module, args, output: output * 2)
    assert fingerprint(net) == fingerprint(other), "the number of a hook is no matter"
    assert fingerprint(net) != fingerprint(nn.Linear(2, 2))
