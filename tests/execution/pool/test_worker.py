"""A worker's side: made once, one thread, errors in one sentence."""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.execution.pool.number_tasks import Number, make_square

from trilemma.crypto.masking import KeyPair
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.execution.pool.worker import Failure, Worker, payloads_of, pickled

_MADE: list[int] = []


def _make_counted() -> Callable[[Number], bytes]:
    _MADE.append(1)
    return lambda task: b"done"


def test_what_tasks_share_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    _MADE.clear()
    hands = Worker(pickle.dumps(_make_counted))
    assert [hands.do([Number(n)])[0] for n in range(3)] == [[b"done"]] * 3
    assert len(_MADE) == 1


def test_paths_start_where_the_driver_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path.cwd())
    Worker(pickled(make_square), str(tmp_path))
    assert Path.cwd() == tmp_path
    Worker(pickled(make_square), str(tmp_path / "not on this node"))
    assert Path.cwd() == tmp_path


def test_code_that_a_worker_does_not_have_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("driver_only")
    exec("def make(): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, "driver_only", module)
    needed = pickle.dumps(module.make)
    monkeypatch.delitem(sys.modules, "driver_only")
    answer, _ = Worker(needed).do([Number(0)])
    assert isinstance(answer, Failure)
    assert "does not find the scenario's code (No module named 'driver_only')" in answer.message


def test_a_bug_of_ours_shows_its_traceback() -> None:
    with pytest.raises(RuntimeError, match=r"number 3(.|\n)*Traceback of ours"):
        payloads_of(Failure("", "Traceback of ours"), [Number(3)])


def test_a_key_is_never_sent() -> None:
    for secret in (
        KeyPair.generate(System()),
        PrivateKey.generate(System(), bits=512, insecure=True),
    ):
        with pytest.raises(InvalidInput, match=r"cannot be sent .*holds a secret"):
            pickled(partial(_make_with, secret))


def _make_with(secret: object) -> Callable[[Number], bytes]:
    return lambda task: b""
