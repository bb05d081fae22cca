"""Games a second inside the tasks of `tune`, by their size: DLG on unprotected rounds of LeNet.

python benchmarks/tasks.py --device cuda --tasks 1 4 64 --workers 1 3   # on a machine with a GPU
python benchmarks/tasks.py                                              # a minute on a CPU

A task is all that `tune` does for its games: draw them, prepare their models, compute what
clients send, attack it, pick. All tasks wait at once, and on a GPU those that wait share a call of
up to 1,024 games. Each process has done as many before.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
import time
from functools import partial
from pathlib import Path

import torch

from trilemma.execution.pool import executor
from trilemma.game.gpu_sharing import views_together
from trilemma.game.job_results import decode
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob
from trilemma.game.scenario import Source
from trilemma.observations import Adversary
from trilemma.scenarios import load_scenario

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

_WARM = 2


def played(source: Source, device: str, workers: int, games: int, tasks: int) -> str:
    """A row of the table."""
    joined = views_together(source()) if callable(source) else 0
    job_runner = JobRunner(source, None, 1, 20, 0, "nothing", together=joined)
    with executor(job_runner, workers=workers, device=device) as pool:

        def done(turn: int) -> list[bool]:
            numbers = range(turn * workers * tasks, (turn + 1) * workers * tasks)
            made = (("s", "none", ("dlg",), Adversary.SERVER, 1, at * games) for at in numbers)
            pool.submit(*(AttackJob(*item, games) for item in made))
            found = [decode(pool.next()[1]) for _ in numbers]
            return [right for item in found for right in item.correct["dlg"]]

        for turn in range(_WARM):
            done(turn)
        began = time.perf_counter()
        won = done(_WARM)
        seconds = time.perf_counter() - began
    rate = len(won) / seconds
    return f"| {games} | {tasks} | {workers} | {rate:.3g} | {sum(won)} of {len(won)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", help="folder of Fashion-MNIST")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--games", type=int, default=16, help="of a task")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1], help="of each process")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/tasks.md"))
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if options.device != "cpu" else "one core a process"
    lines = [
        "# Games a second inside the tasks of `tune`",
        "",
        (
            f"Made by `{shlex.join(['python', *sys.argv])}`, {stamp()}, {where}: "
            "DLG, one start, on unprotected rounds of LeNet (Fashion-MNIST, 10 clients), with all "
            "that a task does for its games. All tasks wait at once; on a GPU those that wait "
            "share a call of up to 1,024 games. Each process had done as many before."
        ),
    ]
    for batch in options.batch:
        own = {} if options.data is None else {"folder": options.data}
        device = options.device
        source = partial(load_scenario, "fashion-mnist", batch=batch, device=device, **own)
        lines += ["", f"Records a message: {batch}.", ""]
        lines.append("| games of a task | tasks of a process | processes | games a second | won |")
        lines.append("|---|---|---|---|---|")
        for tasks, workers in itertools.product(options.tasks, options.workers):
            lines.append(played(source, device, workers, options.games, tasks))
            print(f"batch {batch}: {lines[-1]}", flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
