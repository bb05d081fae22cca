"""Wall seconds of the same tasks in processes of this machine and on Ray; needs quiet cores.

python benchmarks/executors.py                   # writes docs/benchmarks/executors.md
python benchmarks/executors.py --tasks 4 --seconds 0.2 --out /tmp/executors.md    # to see it run
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from trilemma.execution.pool import executor

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from tests.execution.pool.two_nodes import two_nodes

from benchmarks.pages.stamp import stamp


@dataclass(frozen=True)
class Task:
    number: int

    @property
    def key(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        return f"turn {self.number} of the handle"


def make_work(turns: int) -> Callable[[Task], bytes]:
    return partial(work, turns)


def work(turns: int, task: Task) -> bytes:
    """Many products of small matrices, as attacks make them; the payload tells every bit."""
    draw = torch.Generator().manual_seed(task.number)
    x = torch.randn(64, 64, generator=draw)
    for _ in range(turns):
        x = torch.tanh(x @ x / 8)
    return x.numpy().tobytes()


def timed(turns: int, tasks: int, workers: int, ray: str | None) -> tuple[float, set[bytes]]:
    """Seconds from the first task to the last payload, once every worker has started."""
    with executor(partial(make_work, turns), workers=workers, ray=ray) as pool:
        for number in range(workers):
            pool.submit(Task(-1 - number))
        for _ in range(workers):
            pool.next()
        began = time.perf_counter()
        for number in range(tasks):
            pool.submit(Task(number))
        found = {pool.next()[1] for _ in range(tasks)}
        return time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU, of one task")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/executors.md"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    work(200, Task(0))
    began = time.process_time()
    work(2000, Task(0))
    turns = round(2000 * options.seconds / (time.process_time() - began))
    command = f"python benchmarks/executors.py --tasks {options.tasks} --seconds {options.seconds}"
    lines = [
        "# Ray against processes",
        "",
        (
            f"Made by `{command}`, {stamp()}: {options.tasks} tasks of about {options.seconds} s "
            f"of CPU each by two workers, processes of one machine or actors of a Ray cluster of "
            f"two nodes on it. Wall seconds once the workers have started, of {options.repeats} "
            f"turns by each; the payloads are the same bit for bit."
        ),
        "",
        "| turn | processes | Ray | ratio |",
        "|---|---|---|---|",
    ]
    with two_nodes() as (address, _):
        for turn in range(options.repeats):
            here, payloads = timed(turns, options.tasks, 2, None)
            there, others = timed(turns, options.tasks, 2, address)
            if payloads != others:
                raise SystemExit("processes and Ray disagree; this is a defect.")
            lines.append(f"| {turn + 1} | {here:.2f} | {there:.2f} | {there / here:.3f} |")
            print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
