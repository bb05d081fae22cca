from __future__ import annotations

import json
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

from trilemma.deployment.nodes.checkpoint import (
    Checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import InvalidInput

STATE = Checkpoint(
    7,
    {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "count": np.array(3), "": np.empty(0)},
    (Event(0.5, 3, 0.25, "secret", "record"), Event(0.0)),
    {"m_t": {"a/b": np.ones((2, 3), np.float32)}, "list v": {"0": np.zeros(2), "1": np.eye(2)}},
)


def same(one: Checkpoint, other: Checkpoint) -> None:
    assert (one.rounds, one.events) == (other.rounds, other.events)
    groups = [(one.model, other.model)]
    assert list(one.memory) == list(other.memory)
    groups += [(one.memory[name], other.memory[name]) for name in one.memory]
    for first, second in groups:
        assert list(first) == list(second)
        for name, values in first.items():
            assert values.dtype == second[name].dtype
            np.testing.assert_array_equal(values, second[name])


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    assert load_checkpoint(path) is None
    save_checkpoint(path, Checkpoint(1, {"a": np.ones(1000)}))
    save_checkpoint(path, STATE)
    found = load_checkpoint(path)
    assert found is not None
    same(found, STATE)
    assert [item.name for item in tmp_path.iterdir()] == ["state.npz"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_damage_is_one_sentence_or_none(tmp_path: Path) -> None:
    path, rng = tmp_path / "state.npz", np.random.default_rng(1)
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    refused = []
    for _ in range(1500):
        data = bytearray(whole)
        place = int(rng.integers(len(data)))
        if rng.integers(4) == 0:
            del data[place:]
        else:
            data[place] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            found = load_checkpoint(path)
        except InvalidInput as error:
            refused.append(str(error))
        else:
            assert found is not None
            same(found, STATE)  # what was hit is a time or an attribute of the archive
    assert len(refused) > 1000
    (told,) = set(refused)
    assert f"the checkpoint {path} is damaged, or is none; put a copy back" in told


@pytest.mark.parametrize(
    "change", [{"kind": "x"}, {"rounds": -1}, {"rounds": "7"}, {"events": [{"noise": 1}]}]
)
def test_a_foreign_header_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    header = {
        "kind": "trilemma checkpoint 1",
        "rounds": 1,
        "events": [],
        "memory": [],
        "arrays": [],
    }
    for fields, good in ((header, True), ({**header, **change}, False)):
        with path.open("wb") as file:
            np.savez(file, np.frombuffer(json.dumps(fields).encode(), np.uint8))
        if good:
            assert load_checkpoint(path) is not None
            continue
        with pytest.raises(InvalidInput, match="is damaged, or is none"):
            load_checkpoint(path)


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("code ran",))


def test_no_pickle_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    with path.open("wb") as file:
        np.savez(file, np.array([Bomb()], dtype=object))
    with pytest.raises(InvalidInput, match="is damaged, or is none"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InvalidInput, match="is damaged, or is none"):
        load_checkpoint(path)


def test_a_file_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read \(Is a directory\)"):
        load_checkpoint(tmp_path)
    with pytest.raises(InvalidInput, match=r"cannot be written \(No such file"):
        save_checkpoint(tmp_path / "none" / "state", STATE)


def test_another_model_is_named(tmp_path: Path) -> None:
    STATE.require_like(STATE.model, tmp_path)
    with pytest.raises(InvalidInput, match="another model, which differs in 'a/b'"):
        STATE.require_like({**STATE.model, "a/b": np.zeros((3, 2), np.float32)}, tmp_path)
    with pytest.raises(InvalidInput, match="differs in 'more'"):
        STATE.require_like({**STATE.model, "more": np.zeros(1)}, tmp_path)
