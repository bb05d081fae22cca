"""What a worker reads while it works, in a process of its own."""

import subprocess
import sys

_WORK = """
import sys
import trilemma.learning.preload  # once, in the process that workers are forked from
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, BeliefJob, CostJob, TrainJob
from trilemma.observations import Adversary
import trilemma.scenarios
from tests.cli.own_scenario import small

before = set(sys.modules)
work = JobRunner(small, None, 1, 2, 0, "rest")()
attacks = (
    "gaussian-posterior", "linkage", "map", "dlg", "inverting-gradients", "idlg", "analytic",
    "exact-posterior",
)
sums = "randomization:variance=1e-3+secret-sharing"
for spec in ("none", "randomization:variance=1e-3", "compression:keep=0.5", sums):
    for rounds in (1, 20):
        work(AttackJob("s", spec, attacks, Adversary.SERVER, rounds, 0, 2))
work(BeliefJob("b", sums, ("gaussian-posterior",), Adversary.SERVER, 20, 0, 1, 2))
work(TrainJob(sums, 0, 2))
work(CostJob(sums, 1))
heavy = ("scipy", "sklearn", "matplotlib")
print([name for name in set(sys.modules) - before if name.startswith(heavy)])
"""
"""Games of one round and of a training under every kind of protection, and all other tasks."""


def test_no_task_reads_what_takes_seconds_to_import() -> None:
    """Each of many workers would."""
    done = subprocess.run([sys.executable, "-c", _WORK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
