"""What is measured of a federation, under the source that PYTHONPATH names."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.goldens.federations import ROUNDS, SCENARIOS, Scenario

NOISE, HIDDEN = "randomization:variance=0.01", "secret-sharing"
PROTECTIONS = ("none", NOISE, "compression:keep=0.3", "top-k:keep=0.2", f"{NOISE} + {HIDDEN}")
FLAGS = (
    *("--rounds", "4", "--budget", "0.6", "--confidence", "0.8", "--seeds", "2", "--steps", "2"),
    *("--restarts", "1", "--candidates", "8", "--strengths", "0", "--efficiency-weight", "0"),
    *("--claim", "one-round", "--basis", "measured", "--attacks", "gaussian-posterior"),
    *("--families", "randomization,secret-sharing"),
)
Make = Callable[[], Scenario]
Values = dict[str, Any]  # by name: arrays, or plain values


def weights_of(scenario: Scenario) -> Any:
    import torch

    draw = torch.Generator().manual_seed(5)
    return torch.randn(scenario.task.layout.size, generator=draw) * 0.1


def messages(make: Make) -> Values:
    """What the server reads of a round under each protection, and the mean of the round."""
    import torch

    from trilemma import Adversary, RoundInfo, Seeded, parse_protection
    from trilemma.learning import client_update
    from trilemma.protection.adversary_view import observe
    from trilemma.protection.session_rounds import run_round

    scenario = make()
    task, training, weights = scenario.task, scenario.local_training, weights_of(scenario)
    batches = [records[: training.unit_size] for records in scenario.records]
    updates = [client_update(task, weights, b.inputs, b.labels, training) for b in batches]
    updates = [update.detach() for update in updates]
    values: Values = {"updates": torch.stack(updates)}
    counts, seed = [len(records) for records in scenario.records], Seeded(3)
    info = RoundInfo.new(range(len(updates)), seed)
    for spec in PROTECTIONS:
        given = parse_protection(spec), updates, counts
        result = run_round(*given, info, entropy=seed)
        seen = observe(given[0], result.transcript, Adversary.SERVER)
        values[f"{spec}: read"] = torch.stack([item.update for item in seen])
        values[f"{spec}: mean"] = result.mean
    return values


def guesses(make: Make) -> Values:
    """Which games of one round, and of a training, each attack wins."""
    from trilemma import Adversary
    from trilemma.game.job_runner import JobRunner
    from trilemma.game.jobs import AttackJob
    from trilemma.game.playing.suite import suite_of

    work = JobRunner(make, None, 1, 2, 7)()
    values: Values = {}
    for spec in ("none", NOISE, f"{NOISE} + {HIDDEN}"):
        for rounds, count in ((1, 4), (ROUNDS, 2)):
            for name in suite_of(make(), "candidates").attacks:
                job = AttackJob("golden", spec, (name,), Adversary.SERVER, rounds, 0, count)
                result: Any = work(job)
                found = json.loads(result) if isinstance(result, bytes) else asdict(result)
                found = found.get("attack", found)  # as the journal's codec names it
                values[f"{spec}, {rounds} rounds, {name}"] = found["client"], found["correct"]
    return values


def history(make: Make) -> Values:
    """Losses, metrics and final weights of short trainings, with messages and without."""
    scenario, values = make(), {}
    for spec in ("none", NOISE, f"{NOISE} + {HIDDEN}"):
        for real in (None, 0):
            found = trained(scenario, spec, real)
            rows = [[item.loss, item.metric] for item in found.rounds]
            values[f"{spec}, real rounds {real}"] = rows, found.weights.numpy()
    return values


def trained(scenario: Scenario, spec: str, real_rounds: int | None) -> Any:
    """A training from one seed."""
    from trilemma import parse_protection
    from trilemma.federation.recipe import Recipe
    from trilemma.federation.training import train

    (history,) = train(
        scenario,
        parse_protection(spec),
        Recipe(scenario.local_training, rounds=ROUNDS),
        seeds=(2,),
        weights=weights_of(scenario),
        clients_per_round=scenario.cohort,
        evaluate_every=1,
        real_rounds=real_rounds,
    )
    return history


def proof(make: Make) -> Values:
    """The noise that the scenario's training needs, and how often anyone is right under it."""
    from trilemma.accounting.noise_calibration import noise_multiplier_for, success_bound
    from trilemma.accounting.sampled_training import Training

    scenario, values = make(), {}
    rate = scenario.local_training.unit_size / min(map(len, scenario.records))
    for rounds in (1, 60):
        for who in ("secret", "known"):
            asked: Any = {"rounds": rounds, "q": rate, "participation": who, "candidates": 20}
            noise = noise_multiplier_for(0.3, **asked)
            training = Training(rounds, rate, noise, asked["participation"])
            bounds = [success_bound(training, size) for size in (2, 20, 100)]
            values[f"{rounds} rounds, {who}"] = [noise, *bounds]
    return values


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "trilemma", *words]


def start(name: str, run: Path, *words: str) -> subprocess.Popen[bytes]:
    shown = subprocess.run(command("tune", "--help"), capture_output=True, check=True).stdout
    less = ["--no-ladder"] if b"--no-ladder" in shown else []
    flags = [
        "--scenario",
        f"benchmarks.goldens.federations:{name}",
        *FLAGS,
        *less,
        "--out",
        str(run),
        *words,
    ]
    with run.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            command("tune", *flags), stdout=log, stderr=log, start_new_session=True
        )


def decision(process: subprocess.Popen[bytes], run: Path) -> Values:
    """What the verdict of a run decides, without what a clock measures or a file rounds."""
    if process.wait() not in (0, 1):  # 1: nothing kept the budget, which is a verdict too
        raise RuntimeError(run.with_suffix(".log").read_text()[-500:])
    verdict = json.loads((run / "verdict.json").read_text())
    kept = ("feasible", "protection", "strength", "leakage", "units", "rank")
    values = {name: verdict[name] for name in ("chosen", "protection", "largest_success_rate")}
    for item in verdict["candidates"]:
        values[item["name"]] = [item[name] for name in kept]
    for item in verdict["attacks"]:
        values[f"{item['name']} alone"] = item["control_recovered"], item["control_units"]
    return values


def tuned(make: Make, *words: str) -> Values:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        return decision(start(make.__name__, run, *words), run)


def choice(make: Make) -> Values:
    """What `tune` chooses."""
    return tuned(make)


def killed(make: Make) -> Values:
    """What it chooses with two workers that are killed (-9) after a few jobs, and resumed."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        process = start(make.__name__, run, "--workers", "2")
        while process.poll() is None and rows(run) < 8:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (run / "verdict.json").exists():
            raise RuntimeError("the run had ended before it was killed")
        return decision(start(make.__name__, run, "--workers", "2"), run)


def rows(run: Path) -> int:
    """All rows of a run's journal, whatever its tables are called."""
    try:
        with closing(sqlite3.connect(f"file:{run / 'journal.sqlite'}?mode=ro", uri=True)) as kept:
            tables = kept.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            counts = [kept.execute(f'SELECT COUNT(*) FROM "{name}"') for (name,) in tables]
            return sum(int(count.fetchone()[0]) for count in counts)
    except sqlite3.OperationalError:  # not there yet, or locked
        return 0


def again(make: Make) -> Values:
    """What every attack wins against a verdict, in fresh games."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        decision(start(make.__name__, run), run)
        named = ("--scenario", f"benchmarks.goldens.federations:{make.__name__}")
        flags = (*named, "--units", "4", "--seed", "3", "--restarts", "1", "--json")
        found = subprocess.run(
            command("attack", str(run), *flags), capture_output=True, check=True
        )
        won = json.loads(found.stdout)["attacks"]
        return {f"{item['knowledge']}: {item['attack']}": item["recovered"] for item in won}


def ray(make: Make) -> Values:
    """What `tune` chooses on a Ray cluster of two nodes."""
    if find_spec("ray") is None:
        return {"skipped": "Ray is not installed"}
    from tests.execution.pool.two_nodes import two_nodes

    with two_nodes() as (address, _):
        return tuned(make, "--workers", "2", "--ray", address)


ITEMS: dict[str, Callable[[], Values]] = {
    f"{kind.__name__} of {make.__name__}": partial(kind, make)
    for kind in (messages, guesses, history, proof, choice, killed, again, ray)
    for make in (
        SCENARIOS if kind in (messages, guesses, history, proof, choice) else SCENARIOS[:1]
    )
}


def measure(name: str, out: Path) -> None:
    """Measure an item under the source that PYTHONPATH names; where it fails, it says so."""
    import torch

    torch.manual_seed(0)
    try:
        found = ITEMS[name]()
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"}
    arrays = {key: getattr(value, "numpy", lambda v=value: v)() for key, value in found.items()}
    out.write_bytes(pickle.dumps(arrays))


if __name__ == "__main__":
    measure(sys.argv[1], Path(sys.argv[2]))
