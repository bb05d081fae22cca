"""Who does the tasks: an interface of two calls, and one file for each place where work can run.

Whatever the executor, a task's payload is the same, so that a run may change it when it resumes.
"""

from trilemma.work.executors.base import Executor, Job, Spent, WorkerDied
from trilemma.work.executors.choosing import executor
from trilemma.work.executors.hands import one_thread
from trilemma.work.executors.local import Crew
from trilemma.work.executors.memory import keep_memory

__all__ = [
    "Crew", "Executor", "Job", "Spent", "WorkerDied", "executor", "keep_memory", "one_thread",
]  # fmt: skip
