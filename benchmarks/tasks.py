"""Games a second inside the tasks of `tune`, by their size: DLG on unprotected rounds of LeNet.

python benchmarks/tasks.py --device cuda --workers 1 6   # on a machine with a GPU
python benchmarks/tasks.py --games 16 --tasks 1          # a minute on a CPU: does it run?

A task is all that `tune` does for its games: draw them, prepare their models, compute what
clients send, attack it, pick. Each process has done three tasks of the size before; with several,
each has as many to do.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from functools import partial
from pathlib import Path

import torch

from trilemma.estimation.bench import Bench
from trilemma.estimation.jobs import AttackJob
from trilemma.estimation.scenario import Source
from trilemma.observations import Adversary
from trilemma.scenarios import load_scenario
from trilemma.work.executors import executor

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.stamp import stamp

_WARM = 3


def played(source: Source, device: str, workers: int, games: int, tasks: int) -> str:
    """A row of the table."""
    bench = Bench(source, None, 1, 20, 0, "nothing")
    with executor(bench, workers=workers, device=device) as crew:

        def done(first: int, count: int) -> list[bool]:
            for number in range(first, first + count):
                at = number * games
                crew.submit(AttackJob("s", "none", ("dlg",), Adversary.SERVER, 1, at, games))
            found = [json.loads(crew.next()[1]) for _ in range(count)]
            return [right for each in found for right in each["correct"]["dlg"]]

        for turn in range(_WARM):
            done(turn * workers, workers)
        began = time.perf_counter()
        won = done(_WARM * workers, tasks * workers)
        seconds = time.perf_counter() - began
    return f"| {games} | {workers} | {len(won) / seconds:.3g} | {sum(won)} of {len(won)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", help="folder of Fashion-MNIST")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--workers", type=int, nargs="+", default=[1])
    parser.add_argument("--games", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--tasks", type=int, default=4, help="of each process")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks/tasks.md"))
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if options.device != "cpu" else "one core a process"
    lines = [
        "# Games a second inside the tasks of `tune`",
        "",
        (
            f"Made by `{shlex.join(['python', *sys.argv])}`, {stamp()}, {where}: "
            "DLG, one start, on unprotected rounds of LeNet (Fashion-MNIST, 10 clients), with all "
            "that a task does for its games. Each process had done three tasks of the size before."
        ),
    ]
    for batch in options.batch:
        own = {} if options.data is None else {"folder": options.data}
        device = options.device
        source = partial(load_scenario, "fashion-mnist", batch=batch, device=device, **own)
        lines += ["", f"Records a message: {batch}.", ""]
        lines += ["| games of a task | processes | games a second | won |", "|---|---|---|---|"]
        for games in options.games:
            for workers in options.workers:
                lines.append(played(source, device, workers, games, options.tasks))
                print(f"batch {batch}: {lines[-1]}", flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
