"""Seconds a round, ours against others, and what each protection adds to a round.

CPU seconds of one core (the machine may be busy with other things), except for Flower's
simulation, whose work happens in other processes: there the wall clock counts.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all pages share

from benchmarks.pages.simulated import round_seconds
from benchmarks.pages.stamp import stamp
from trilemma.entropy import Seeded, System
from trilemma.federation import cohort_updates
from trilemma.federation.recipe import Recipe
from trilemma.federation.round_timing import round_costs
from trilemma.federation.training import train
from trilemma.learning import LocalTraining, Task
from trilemma.protection.protection import Protection
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection
from trilemma.protection.transcripts import Seconds
from trilemma.records.records import Records

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "federation.md"
CLIENTS, RECORDS, BATCH, EPOCHS, LR = 10, 150, 30, 5, 0.1
STEPS = EPOCHS * RECORDS // BATCH
ROUNDS = 5
PROTECTIONS = (
    "none",
    "randomization:variance=1e-3",
    "compression:keep=0.1",
    "top-k:keep=0.01",
    "secret-sharing",
    "paillier:bits=3072",
)
SIZES = (10**4, 10**5, 10**6, 10**7)
PAILLIER_LIMIT = 10**5  # coordinates; ten million would take a client twenty minutes


def network(hidden: int) -> nn.Module:
    """64-hidden-10: 75 · hidden + 10 parameters."""
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def records_of(client: int) -> Records:
    draw = torch.Generator().manual_seed(client)
    inputs = torch.rand(RECORDS, 64, generator=draw)
    return Records(inputs, torch.randint(0, 10, (RECORDS,), generator=draw))


OWN = Recipe(LocalTraining("fedavg", LR, STEPS, BATCH, RECORDS), rounds=1)


@dataclass(frozen=True)
class Work:
    """What is trained, as `train` asks for it."""

    task: Task
    records: tuple[Records, ...]
    test_records: Records
    device: str = "cpu"


def work(hidden: int, clients: int = CLIENTS) -> Work:
    everyone = tuple(records_of(client) for client in range(clients))
    return Work(Task(network(hidden), cross_entropy, 10), everyone, records_of(clients))


def trained(model: nn.Module, records: Records) -> nn.Module:
    """A client's copy after its local epochs, as everyone writes it first."""
    local = copy.deepcopy(model)
    optimiser = torch.optim.SGD(local.parameters(), lr=LR)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(RECORDS), BATCH):
            optimiser.zero_grad()
            loss = cross_entropy(local(records.inputs[rows]), records.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return local


def per_round(rounds: Callable[[int], object], repeats: int = 5) -> float:
    """CPU seconds of a round: the least of some differences between 1 + ROUNDS rounds and 1."""
    rounds(1)
    found = []
    for _ in range(repeats):
        start = time.process_time()
        rounds(1)
        middle = time.process_time()
        rounds(1 + ROUNDS)
        found.append((time.process_time() - middle - (middle - start)) / ROUNDS)
    return min(found)


def ours(task: Work, *, together: bool) -> float:
    with patch.object(cohort_updates, "_BUSY_FLOPS", math.inf if together else -1):
        return per_round(lambda count: train(task, Protection(), replace(OWN, rounds=count)))


def plain(task: Work) -> float:
    def rounds(count: int) -> None:
        model = copy.deepcopy(task.task.model)
        for _ in range(count):
            states = [trained(model, records).state_dict() for records in task.records]
            mean = {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}
            model.load_state_dict(mean)

    return per_round(rounds)


def pfl(task: Work) -> float:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    module = copy.deepcopy(task.task.model)
    module.loss = lambda x, y, **_: cross_entropy(module(x), y)  # type: ignore[assignment]
    module.metrics = lambda *_, **__: {}  # type: ignore[assignment]
    model = PyTorchModel(
        module,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(module.parameters(), 1.0),
    )
    users = FederatedDataset(
        lambda user: Dataset(
            raw_data=(task.records[user].inputs, task.records[user].labels), user_id=str(user)
        ),
        get_user_sampler("minimize_reuse", list(range(CLIENTS))),
    )

    def rounds(count: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints every round
            FederatedAveraging().run(
                algorithm_params=NNAlgorithmParams(
                    central_num_iterations=count,
                    evaluation_frequency=10**6,
                    train_cohort_size=CLIENTS,
                    val_cohort_size=None,
                ),
                backend=SimulatedBackend(users, users),
                model=model,
                model_train_params=NNTrainHyperParams(
                    local_num_epochs=EPOCHS, local_learning_rate=LR, local_batch_size=BATCH
                ),
                model_eval_params=None,
                callbacks=[],
            )

    return per_round(rounds)


def seconds_a_round() -> list[str]:
    task = work(64)
    base = plain(task)
    rows = [
        ("plain PyTorch loop", base),
        ("trilemma, clients in one vmapped pass", ours(task, together=True)),
        ("trilemma, clients one by one", ours(task, together=False)),
    ]
    skipped = []
    rivals: list[tuple[str, str, Callable[[], float]]] = [
        ("pfl", "pfl", partial(pfl, task)),
        (
            "Flower's Ray simulation (wall clock)",
            "ray",
            partial(round_seconds, clients=CLIENTS, rounds=ROUNDS),
        ),
    ]
    for name, module, measure in rivals:
        if importlib.util.find_spec(module) is None:
            skipped.append(f"{name}: not measured, as {module} is not installed.")
            continue
        try:
            rows.append((name, measure()))
        except (subprocess.SubprocessError, ValueError, ImportError) as error:
            skipped.append(f"{name}: not measured ({type(error).__name__}).")
    lines = ["| federation | seconds a round | times the plain loop |", "|---|---|---|"]
    lines += [f"| {name} | {value:.3f} | {value / base:.2f} |" for name, value in rows]
    return [*lines, "", *skipped, ""]


def spent(spec: str, size: int) -> Seconds:
    """The least of three rounds of a protection, ten clients (three under Paillier)."""
    protection = parse_protection(spec)
    secret = protection.transport.new_secret(System())
    crypto = secret is not None
    clients = 3 if crypto else CLIENTS
    if crypto:
        secret.randomizers(1, System())
        secret.public.randomizers(1, System())
    draw = torch.Generator().manual_seed(1)
    updates = [0.01 * torch.randn(size, generator=draw) for _ in range(clients)]
    found = [
        run_round(
            protection,
            updates,
            [RECORDS] * clients,
            RoundInfo.new(range(clients), Seeded(0), number=number),
            entropy=Seeded(0),
            secret=secret,
        ).seconds
        for number in range(1 if size > 10**6 or crypto else 3)
    ]
    return min(found, key=lambda each: each.protect + each.combine + each.finish)


def protections() -> list[str]:
    lines = [
        "| protection | parameters | train | protect | combine | finish | times the round |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        local = round_costs(
            work((size - 10) // 75, 2), Protection(), OWN, rounds=1
        ).unprotected.train
        base = local
        for spec in PROTECTIONS:
            if spec.startswith("paillier") and size > PAILLIER_LIMIT:
                continue
            took = spent(spec, size)
            whole = local + took.protect + took.combine + took.finish
            base = whole if spec == "none" else base
            lines.append(
                f"| {spec} | {size:.0e} | {local:.4f} | {took.protect:.4f} | "
                f"{took.combine:.4f} | {took.finish:.4f} | {whole / base:.2f} |"
            )
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    torch.set_num_threads(1)
    first = seconds_a_round()
    print("\n".join(first), flush=True)
    second = protections()
    text = f"""# Federation

`python benchmarks/federation.py` ({stamp()}, {platform.machine()}; \
one thread; CPU seconds unless it says otherwise)

## Seconds a round

{CLIENTS} clients, {EPOCHS} local epochs over {RECORDS} records in batches of {BATCH}, FedAvg of \
an MLP 64-64-10 (4,810 parameters).

{chr(10).join(first)}
## What a protection adds

Seconds of one client's round: its training (MLP, the same {STEPS} steps), its own part of the \
protocol, and the whole of the server's, with {CLIENTS} clients of equal weight (3 under \
Paillier). The last column compares whole rounds, without transfer, to the unprotected one. \
Paillier is measured up to {PAILLIER_LIMIT:.0e} parameters.

{chr(10).join(second)}
"""
    TABLE.write_text(text)


if __name__ == "__main__":
    main()
