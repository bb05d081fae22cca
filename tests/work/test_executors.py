import multiprocessing
import os
import time
from collections.abc import Callable
from functools import partial

import pytest
import torch

from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.work.executors import WorkerDied, map_chunks


def _square(chunk: int) -> bytes:
    return f"{chunk * chunk}".encode()


def make_square() -> Callable[[int], bytes]:
    return _square


def _trouble(kind: str, chunk: int) -> bytes:
    if chunk == 1 and kind == "dies":
        os._exit(9)
    if chunk == 1 and kind == "mendable":
        raise InvalidInput("the model returns NaN.")
    if chunk == 1 and kind == "bug":
        raise ZeroDivisionError("a bug")
    if chunk == 0:
        time.sleep(0.2)
    return f"{torch.get_num_threads()}".encode()


def make_trouble(kind: str) -> Callable[[int], bytes]:
    return partial(_trouble, kind)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_chunk_once_whatever_the_workers(workers: int) -> None:
    results = list(map_chunks(make_square, [3, 1, 2], workers=workers))
    assert sorted(results) == [(1, b"1"), (2, b"4"), (3, b"9")]
    assert not multiprocessing.active_children()


def test_no_chunks_no_processes() -> None:
    assert list(map_chunks(make_square, [], workers=2)) == []


def test_a_worker_that_dies_is_one_clear_error() -> None:
    with pytest.raises(WorkerDied, match=r"died on chunk 1 \(exit code 9\).*is kept"):
        list(map_chunks(partial(make_trouble, "dies"), [0, 1, 2], workers=2))
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_users_mistake_keeps_its_sentence(workers: int) -> None:
    with pytest.raises(TrilemmaError, match=r"^the model returns NaN\.$"):
        list(map_chunks(partial(make_trouble, "mendable"), [0, 1], workers=workers))


def test_a_bug_in_a_worker_shows_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
        list(map_chunks(partial(make_trouble, "bug"), [0, 1], workers=2))


@pytest.mark.parametrize("workers", [1, 2])
def test_work_runs_on_one_thread(workers: int) -> None:
    results = list(map_chunks(partial(make_trouble, "none"), [0, 1], workers=workers))
    assert {payload for _, payload in results} == {b"1"}


def test_what_cannot_be_pickled_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidInput, match="module:function"):
        list(map_chunks(lambda: _square, [0, 1], workers=2))
    with pytest.raises(InvalidInput, match="at least 1"):
        list(map_chunks(make_square, [0], workers=0))
