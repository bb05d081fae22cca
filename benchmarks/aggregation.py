"""Secure aggregation by the number of clients, all pairs and graphs, and what signed lists add.

CPU seconds of one core, except for Flower's simulation, whose work happens in other processes:
there the wall clock counts.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for the training of the other benchmark, and what all pages share

from benchmarks import federation  # noqa: E402
from benchmarks.pages.simulated import exchange_seconds, round_seconds  # noqa: E402
from trilemma.deployment.nodes.identities import NodeIdentity  # noqa: E402
from trilemma.entropy import Seeded, System  # noqa: E402
from trilemma.protection.round_info import RoundInfo  # noqa: E402
from trilemma.protection.session_rounds import run_round  # noqa: E402
from trilemma.protection.specs import parse_protection  # noqa: E402
from trilemma.protection.transports.base import Aggregate, Payload  # noqa: E402
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing  # noqa: E402
from trilemma.protection.transports.secret_sharing.identity import (  # noqa: E402
    Identity,
    signed_by,
)

TABLE = ROOT / "docs" / "benchmarks" / "aggregation.md"
SIZE = 10**5
DROPPED = 20  # one of so many drops out before it sends its update
ALL_PAIRS = (100, 200, 400)
GRAPHS = ((400, 267), (1000, 667), (1000, 900))  # clients, threshold
MOST = 1000
TEN, PARAMETERS, ROUNDS, RUNS = 10, 4810, 20, 3
TEXT = "secret-sharing:clip_range=1.0,max_weight=2000"


@dataclass(frozen=True)
class Spent:
    """One round: seconds of the server and of a client, kilobytes of a client, its neighbours."""

    clients: int
    threshold: int
    neighbours: int | None
    dropped: int
    server: float
    client: float
    up: float
    down: float

    def row(self) -> str:
        k = "all" if self.neighbours is None else f"{self.neighbours}"
        return (
            f"| {self.clients:,} | {self.threshold} | {k} | {self.dropped} | {self.server:.2f} | "
            f"{self.client:.3f} | {self.server + self.clients * self.client:,.0f} | "
            f"{self.up:,.0f} | {self.down:,.0f} |"
        )


def a_round(clients: int, threshold: int, *, graph: bool) -> Spent:
    """One round with pinned identities; all pairs where so many may help that no graph will do."""
    sharing = SecretSharing(max_weight=clients, corrupt=0.1 if graph else 0.9)
    info = RoundInfo("benchmark", 1, tuple(range(clients)), threshold, 1)
    made = sharing.circle(info).graph
    who = Identity.pinned(range(clients), System())
    server = sharing.server(info)
    start = time.process_time()
    sessions = {c: sharing.client(c, info, who[c], System()) for c in info.participants}
    own, up, down, ours = time.process_time() - start, 0, 0, 0.0
    values = np.random.default_rng(0).uniform(-1, 1, SIZE)
    gone = frozenset(range(0, clients, DROPPED))
    outcome: Mapping[int, bytes] | Any = dict.fromkeys(sessions, b"")
    while not isinstance(outcome, Aggregate):
        start, replies = time.process_time(), dict[int, Any]()
        for client, inbox in outcome.items():
            session = sessions[client]
            if session.wants_update and client in gone:
                continue
            replies[client] = session.step(
                inbox, Payload(values, 1) if session.wants_update else None
            )
        middle = time.process_time()
        down += sum(map(len, outcome.values()))
        up += sum(map(len, replies.values()))
        outcome = server.step(replies)
        own, ours = own + middle - start, ours + time.process_time() - middle
    assert abs(outcome.mean - values).max() < sharing.step_size()
    assert len(outcome.clients) == clients - len(gone)
    neighbours = None if made is None else made.neighbours
    return Spent(
        clients,
        threshold,
        neighbours,
        len(gone),
        ours,
        own / clients,
        up / clients / 1000,
        down / clients / 1000,
    )


def fitted(spent: list[Spent], clients: int) -> str:
    """Server and client at more clients: a n + b n^2, and a + b n, by least squares."""
    n = np.array([item.clients for item in spent], float)
    ours = np.linalg.lstsq(
        np.stack([n, n**2], 1), np.array([item.server for item in spent]), rcond=None
    )[0]
    own = np.polyfit(n, np.array([item.client for item in spent]), 1)
    up, down = (np.polyfit(n, [getattr(item, way) for item in spent], 1) for way in ("up", "down"))
    row = Spent(
        clients,
        2 * clients // 3 + 1,
        None,
        clients // DROPPED,
        float(ours @ [clients, clients**2]),
        float(np.polyval(own, clients)),
        float(np.polyval(up, clients)),
        float(np.polyval(down, clients)),
    ).row()
    return row.replace("| all |", "| all, fitted |")


def growth() -> list[str]:
    lines = [
        "| clients | T | k | dropped | server, s | client, s | all, s | up, kB | down, kB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    pairs = []
    for clients in ALL_PAIRS:
        pairs.append(a_round(clients, 2 * clients // 3 + 1, graph=False))
        lines.append(pairs[-1].row())
        print(lines[-1], flush=True)
    lines.append(fitted(pairs, MOST))
    print(lines[-1], flush=True)
    for clients, threshold in GRAPHS:
        lines.append(a_round(clients, threshold, graph=True).row())
        print(lines[-1], flush=True)
    return lines


def least(work: Callable[[int], object], repeats: int = 15) -> float:
    """The least CPU seconds of some runs."""
    found = []
    for number in range(repeats):
        start = time.process_time()
        work(number)
        found.append(time.process_time() - start)
    return min(found)


def ten_in_process() -> list[str]:
    """A whole round of ten clients, their training included, in one process."""
    task = federation.work(64)
    train = least(
        lambda _: [federation.trained(task.task.model, record) for record in task.records], 7
    )
    updates = [0.01 * torch.randn(PARAMETERS) for _ in range(TEN)]
    named = Identity.pinned(range(TEN), System())
    keys = frozenset(value.public for value in named.values())

    def nodes() -> Any:
        return {c: NodeIdentity(value.reveal(), keys) for c, value in named.items()}

    def spent(text: str, brought: Callable[[], Any]) -> float:
        protection = parse_protection(text)
        return least(
            lambda number: run_round(
                protection,
                updates,
                [federation.RECORDS] * TEN,
                RoundInfo.new(range(TEN), Seeded(0), number=number),
                secret=brought(),
            )
        )

    rows = {
        "plain": spent("none", lambda: None),
        "secret sharing": spent(TEXT, lambda: None),
        "secret sharing, pinned by number": spent(TEXT, lambda: named),
        "secret sharing, pinned as nodes are": spent(TEXT, nodes),
    }
    plain, sharing = train + rows["plain"], train + rows["secret sharing"]
    lines = [
        "| round | protocol, s | with training, s | times plain | times secret sharing |",
        "|---|---|---|---|---|",
    ]
    for name, took in rows.items():
        whole = train + took
        lines.append(
            f"| {name} | {took:.4f} | {whole:.4f} | {whole / plain:.2f} | {whole / sharing:.2f} |"
        )
    return lines


def ten_simulated() -> list[str]:
    """Medians over some runs, the kinds of round by turns: the machine may be busy."""
    if importlib.util.find_spec("ray") is None:
        return ["Flower's simulation: not measured, as ray is not installed."]
    ten = partial(round_seconds, clients=TEN, rounds=ROUNDS)
    kinds: dict[str, Callable[[], float]] = {
        "an empty exchange": partial(exchange_seconds, clients=TEN, rounds=ROUNDS),
        "plain": ten,
        "secret sharing": partial(ten, TEXT),
        "pinned": partial(ten, TEXT, pinned=True),
    }
    runs = [{name: measure() for name, measure in kinds.items()} for _ in range(RUNS)]
    lines = ["| round | seconds | times plain | times secret sharing |", "|---|---|---|---|"]
    for name in kinds:
        took = statistics.median(run[name] for run in runs)
        plain = statistics.median(run[name] / run["plain"] for run in runs)
        sharing = statistics.median(run[name] / run["secret sharing"] for run in runs)
        lines.append(f"| {name} | {took:.3f} | {plain:.2f} | {sharing:.2f} |")
    return [*lines, "", f"A file was forced to the disk in {1000 * disk_seconds():.1f} ms."]


def check_seconds() -> float:
    """The least time that a signature takes to be checked."""
    who = Identity.generate(System())
    signature = who.sign(b"keys")
    return least(lambda _: signed_by(who.public, b"keys", signature))


def disk_seconds() -> float:
    """The median of some fsyncs, of which a node's round record takes two a round."""
    found = []
    with tempfile.TemporaryFile() as file:
        for _ in range(30):
            file.write(bytes(1000))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            found.append(time.perf_counter() - start)
    return statistics.median(found)


def main() -> None:
    torch.set_num_threads(1)
    head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    process, simulation = ten_in_process(), ten_simulated()
    print("\n".join([*process, "", *simulation]), flush=True)
    TABLE.write_text(page(growth(), process, simulation, commit))


def page(rows: list[str], process: list[str], simulation: list[str], commit: str) -> str:
    return f"""# Secure aggregation

`python benchmarks/aggregation.py`, commit {commit}, {datetime.now(UTC):%Y-%m-%d}; CPU seconds of \
one core unless it says otherwise.

## By the number of clients

A round of {SIZE:,} parameters in Z₂³² with pinned identities, one client in {DROPPED} dropped \
out before it sends its update. Of a graph, k is twice what a client draws: up to a tenth of the \
clients may help a server that lies, and all but the threshold T may drop out, but for a \
probability of 2⁻⁴⁰. All pairs at {MOST:,} clients is fitted to the rows above it: \
a n + b n² for the server, a + b n for a client. The server reads, adds up and unmasks; bytes are \
one client's; "all" is the server and all clients one after the other.

{chr(10).join(rows)}

## What signed lists add with ten clients

{federation.EPOCHS} local epochs of an MLP of {PARAMETERS:,} parameters over {federation.RECORDS} \
records, ten clients and the server in one process: CPU seconds of the whole round, the least of \
15. Nodes do not know which of the pinned keys a client's number has, and try; those of one \
process check a signature on keys once between them, each on a machine of its own all {TEN - 1}, \
in {1000 * check_seconds():.2f} ms each.

{chr(10).join(process)}

The same in Flower's Ray simulation, wall seconds: the median of {ROUNDS} rounds, and of \
{RUNS} runs, whose ratios are taken run by run. The plain round is Flower's own, as a user runs \
it: FedAvg on Flower's grid. It has 1 exchange, secret sharing 2, with pins or without. Flower's \
engine looks every .1 s for messages to take to nodes, and its grid every .1 s for replies (ours \
looks sooner), so that an exchange takes .1 s and more however little is to be done. \
With pins each node forces its round record to the disk twice a round.

{chr(10).join(simulation)}
"""


if __name__ == "__main__":
    main()
