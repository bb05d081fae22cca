"""A scenario's identity: every part that decides a number changes it, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from tests.cli.own_scenario import small
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.beliefs.recovery import Criterion
from trilemma.game import scenario_identity as identity
from trilemma.game.scenario import Scenario
from trilemma.game.scenario_identity import data_hash, own_code, parts_of, scenario_identity
from trilemma.protection.specs import parse_protection
from trilemma.records.records import Records

KEY = bytes(32)


def twice(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return 2 * cross_entropy(outputs, labels)


def ones(model: nn.Module) -> None:
    for parameter in model.parameters():
        nn.init.constant_(parameter, 0.1)


def largest_gap(made: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    return (made[:, None] - candidates[None]).abs().flatten(2).amax(2)


def keep(model: nn.Module) -> None:
    """The model's own weights: pre-trained ones, say."""


def other_records(scenario: Scenario) -> Scenario:
    first, *rest = scenario.records
    return replace(scenario, clients=[Records(first.inputs * 0.99, first.labels), *rest])


def other_split(scenario: Scenario) -> Scenario:
    pool = scenario.pooled()
    return replace(scenario, clients=[pool[torch.arange(19)], pool[torch.arange(19, 40)]])


def network(activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), activation, nn.Linear(8, 3))


CHANGES: dict[str, tuple[Callable[[Scenario], Scenario], set[str]]] = {
    "nothing": (lambda s: s, set()),
    "name": (lambda s: replace(s, name="other"), set()),
    "weights": (lambda s: replace(s, model=network(nn.Sigmoid())), set()),
    "model": (lambda s: replace(s, model=network(nn.Tanh())), {"model"}),
    "loss": (lambda s: replace(s, loss=twice), {"loss"}),
    "rate": (lambda s: s.with_local_training(lr=0.2), {"local training"}),
    "batch": (lambda s: s.with_local_training(batch=2), {"local training"}),
    "server": (lambda s: replace(s, server_lr=1.0), {"server_lr"}),
    "decay": (lambda s: replace(s, server_decay=True), {"server_decay"}),
    "criterion": (lambda s: replace(s, criterion=Criterion("psnr", 25.0)), {"criterion"}),
    "initialise": (lambda s: replace(s, initialise=ones), {"initialise"}),
    "records": (other_records, {"data"}),
    "split": (other_split, {"data"}),
    "test": (lambda s: replace(s, test=s.records[0]), {"data"}),
    "public": (lambda s: replace(s, public=s.records[0]), {"data"}),
    "rounds": (lambda s: replace(s, rounds=9), {"rounds"}),
    "distance": (lambda s: replace(s, distance=largest_gap), {"distance"}),
    "shown": (lambda s: replace(s, show_records=True), {"show_records"}),
}


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_a_number_is_told_by_name(change: str) -> None:
    apply, expected = CHANGES[change]
    before, after = scenario_identity(small(), KEY), scenario_identity(apply(small()), KEY)
    assert differing(before, after) == expected
    assert all(isinstance(value, str) and value for value in after.values())


def test_weights_that_are_kept_count_by_value() -> None:
    def pretrained(value: float) -> dict[str, str]:
        model = network(nn.Sigmoid())
        for parameter in model.parameters():
            nn.init.constant_(parameter, value)
        return scenario_identity(replace(small(), model=model, initialise=keep), KEY)

    assert differing(pretrained(0.1), pretrained(0.1)) == set()
    assert differing(pretrained(0.1), pretrained(0.2)) == {"initialise"}


def test_the_code_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = scenario_identity(small(), KEY)
    monkeypatch.setattr(identity, "code_hash", lambda: "0123456789abcdef")
    after = scenario_identity(small(), KEY)
    assert differing(before, after) == {"code"}
    assert "0123456789abcdef" in after["code"]


def test_the_hash_of_the_code_covers_every_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As sha256 of all names and contents, made another way."""
    import hashlib

    import trilemma

    (root,) = trilemma.__path__
    from pathlib import Path

    files = sorted(Path(root).rglob("*.py"))
    rooms = {path.relative_to(root).parts[0] for path in files}
    assert {"attacks", "game", "tuning", "cli"} <= rooms
    whole = b"".join(p.relative_to(root).as_posix().encode() + p.read_bytes() for p in files)
    assert identity.code_hash() == hashlib.sha256(whole).hexdigest()[:16]


def test_without_the_key_nothing_tells_data_again() -> None:
    scenario: Any = small()
    assert data_hash(scenario, KEY) == data_hash(small(), KEY)
    changed = differing(scenario_identity(scenario, KEY), scenario_identity(small(), b"k" * 32))
    assert changed == {"data", "model", "loss", "initialise"}


def test_every_part_of_a_scenario_is_compared() -> None:
    """A field that is new must be told apart, or be named here as one that decides nothing."""
    given = {field.name for field in fields(Scenario) if field.init}
    beside = {"name"}
    records = {"clients", "test", "public"}  # told as "data"
    compared = {name.replace(" ", "_") for name in scenario_identity(small(), KEY)}
    assert given - beside - records <= compared


def test_a_protection_counts_by_the_code_that_is_not_ours() -> None:
    own = parse_protection("tests.tuning.own_parts:Laplace:b=0.1+secret-sharing")
    assert list(parts_of(own)) == ["tests.tuning.own_parts:Laplace"]
    (told,) = own_code(parts_of(own)).values()
    assert told.startswith("Laplace ")
    assert parts_of(parse_protection("randomization:variance=0.1")) == {}
