"""A GPU whose memory several processes share: who finds too little of it waits for the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

import torch

from trilemma.errors import InvalidInput

__all__ = ["patient"]

Task = TypeVar("Task")
Result = TypeVar("Result")
_WAITS: Final = 60
_SECONDS: Final = 2.0


def patient(work: Callable[[Task], Result]) -> Callable[[Task], Result]:
    """Does a task again, after a while, that ran out of a GPU's memory; leaves none unused.

    What others hold while they work they give back: torch itself keeps what it once had.
    """

    @wraps(work)
    def tried(task: Task) -> Result:
        for _ in range(_WAITS):
            try:
                return work(task)
            except torch.OutOfMemoryError:
                pass  # what the failed call held is let go of with its traceback, before the wait
            finally:
                torch.cuda.empty_cache()
            time.sleep(_SECONDS)
        raise InvalidInput(
            f"the GPU's memory did not suffice for a task of this model in {_WAITS} attempts; use "
            "fewer workers, a smaller batch, or --device cpu."
        )

    return tried
