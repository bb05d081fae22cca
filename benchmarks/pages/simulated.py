"""Wall seconds of a round of Flower's Ray simulation, of the training that the pages time."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

__all__ = ["exchange_seconds", "round_seconds"]

_ROOT = Path(__file__).parents[2]
_OFF = ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED")
_APP = """
import sys, time
sys.path.insert(0, {root!r})
from benchmarks import federation
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from trilemma.deployment.flower import ProtectedGrid, Terms, protect_mod

text, pins = {text!r}, {pins!r}
terms = text and Terms.of(text)
records = federation.records_of(0)

def pinned(message, context, call_next):
    if pins:
        number = context.node_config["partition-id"]
        context.node_config["trilemma-identity"] = f"{{pins}}/{{number}}.pem"
        context.node_config["trilemma-peers"] = f"{{pins}}/peers.pem"
    return call_next(message, context)

client = ClientApp(mods=[pinned, protect_mod(terms)] if text else [])
server = ServerApp()

@client.query()
def query(message, context):
    return Message(RecordDict(), reply_to=message)

@client.train()
def fit(message, context):
    model = federation.network(64)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model = federation.trained(model, records)
    content = {{"arrays": ArrayRecord(model.state_dict()),
               "metrics": MetricRecord({{"num-examples": federation.RECORDS}})}}
    return Message(RecordDict(content), reply_to=message)

def told():
    print("round", time.perf_counter(), flush=True)

class Timed(FedAvg):
    def aggregate_train(self, number, replies):
        told()
        return super().aggregate_train(number, replies)

@server.main()
def main(grid, context):
    if {empty}:
        while len(nodes := list(grid.get_node_ids())) < {clients}:
            time.sleep(0.1)
        for _ in range({rounds}):
            list(grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes]))
            told()
        return
    strategy = Timed(fraction_evaluate=0.0, min_available_nodes={clients})
    arrays = ArrayRecord(federation.network(64).state_dict())
    strategy.start(ProtectedGrid(grid, terms) if text else grid, arrays, num_rounds={rounds})

run_simulation(server, client, {clients})
"""


def round_seconds(text: str = "", *, clients: int, rounds: int, pinned: bool = False) -> float:
    """The median round, once the simulation has started; plain as FedAvg runs it, or protected."""
    return _median(text, clients, rounds, pinned=pinned, empty=False)


def exchange_seconds(*, clients: int, rounds: int) -> float:
    """The median of what Flower takes for a message without content to each node, and back."""
    return _median("", clients, rounds, pinned=False, empty=True)


def _median(text: str, clients: int, rounds: int, *, pinned: bool, empty: bool) -> float:
    with tempfile.TemporaryDirectory() as home:
        if pinned:
            from tests.deployment.nodes.pins import pin

            pin(Path(home), range(clients))
        script = Path(home) / "app.py"
        pins = home if pinned else ""
        filled = {"text": text, "pins": pins, "clients": clients, "empty": empty}
        script.write_text(_APP.format(root=str(_ROOT), rounds=2 + rounds, **filled))
        # One thread, which Ray's workers learn from the environment alone, and a Ray of its own.
        settings = {"FLWR_HOME": home, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
        settings |= dict.fromkeys(_OFF, "0")
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, **settings},
            check=True,
        )
    ends = [float(line.split()[1]) for line in done.stdout.splitlines() if line[:6] == "round "]
    return statistics.median(b - a for a, b in pairwise(ends[1:]))
