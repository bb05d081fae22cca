"""A worker among others: a scenario that was tried, and a GPU whose memory all of them share."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from random import SystemRandom
from typing import Final, TypeVar

import torch

from trilemma.errors import InvalidInput
from trilemma.game.differentiability import checked_before
from trilemma.game.scenario import Scenario, Source
from trilemma.learning.precision import LARGE

__all__ = ["own_scenario", "patient", "views_together"]

Task = TypeVar("Task")
Result = TypeVar("Result")
_SECONDS: Final = (2, 4, 8, 16, 32, 64)  # to wait between attempts
_MUCH: Final = 1 / 64  # of a GPU's memory
_TOGETHER: Final = 1024


def own_scenario(source: Source) -> Scenario:
    """A worker's own; model and loss were tried by who sends the tasks."""
    if isinstance(source, Scenario):
        return source
    with checked_before():
        return patient(_called)(source)


def patient(work: Callable[[Task], Result]) -> Callable[[Task], Result]:
    """Does a task again, after a while, that ran out of a GPU's memory; keeps little unused.

    What others hold while they work they give back: torch itself keeps what it once had.
    """

    @wraps(work)
    def tried(task: Task) -> Result:
        for seconds in _SECONDS:
            try:
                return _cleared(work(task))
            except torch.OutOfMemoryError:
                pass
            gc.collect()  # what the failed call held, whose traceback is gone by now
            with suppress(RuntimeError):
                torch.cuda.empty_cache()
            time.sleep(seconds * SystemRandom().uniform(0.5, 1.5))  # or all come back at once
        try:
            return _cleared(work(task))
        except torch.OutOfMemoryError as error:
            raise InvalidInput(
                "the GPU's memory does not suffice for a task of this model, however long others "
                f"were waited for ({str(error).split('. ')[0]}); use fewer workers, a smaller "
                "batch, or --device cpu."
            ) from error

    return tried


def views_together(scenario: Scenario) -> int:
    """How many views of different tasks a search may hold at once, 0 where they gain nothing.

    On a GPU LeNet's DLG takes 0.3 s for 16 of them and 1.4 s for 1,024. On a CPU 16 games are work
    enough, and tasks are never joined: convolutions round otherwise in other widths, and numbers
    there are the same to the bit. A large model fills a GPU by itself.
    """
    small = scenario.task.layout.size <= LARGE
    return _TOGETHER if torch.device(scenario.device).type == "cuda" and small else 0


def _called(make: Callable[[], Scenario]) -> Scenario:
    return make()


def _cleared(result: Result) -> Result:
    """The same, once torch has given back what memory it does not use, if that is much.

    To have it back takes a while, for tasks of small models longer than the task.
    """
    with suppress(RuntimeError):  # a GPU that failed will tell when it is used
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # of torch
            there = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            if torch.cuda.memory_reserved() > _MUCH * there:
                torch.cuda.empty_cache()
    return result
