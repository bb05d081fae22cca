"""Who does the tasks: an interface of two calls, and one file for each place where work can run.

Whatever the executor, a task's payload is the same, so that a run may change it when it resumes.
"""

from trilemma.execution.pool.base import Executor, Job, Spent, WorkerDied
from trilemma.execution.pool.pool_choice import executor
from trilemma.execution.pool.process_pool import WorkerPool
from trilemma.execution.pool.worker import one_thread
from trilemma.execution.pool.worker_memory import keep_memory

__all__ = [
    "Executor",
    "Job",
    "Spent",
    "WorkerDied",
    "WorkerPool",
    "executor",
    "keep_memory",
    "one_thread",
]  # fmt: skip
