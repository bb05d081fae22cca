"""Runs the digits example in Flower's Ray simulation, once for each protection in argv; JSON out.

In a process of its own, so that Ray's threads and handlers end with it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from itertools import pairwise
from typing import Any

from flower_digits import client_app, server_app, task
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from trilemma.deployment.flower import protect_mod

SETTINGS: dict[str, Any] = {"strategy": "FedAvg", "local-epochs": 5, "lr": 0.1}
BACKEND: dict[str, Any] = {"client_resources": {"num_cpus": 1.0, "num_gpus": 0.0}}


def _note(record: logging.LogRecord, starts: list[float]) -> bool:
    if "[ROUND" in record.getMessage():
        starts.append(record.created)
    return True


def simulate(settings: dict[str, Any]) -> dict[str, Any]:
    config = SETTINGS | settings
    config["least-nodes"] = config["nodes"]
    terms = task.make_terms(config)
    clients = ClientApp(mods=[] if terms is None else [protect_mod(terms)])
    clients.train()(client_app.train)
    clients.evaluate()(client_app.evaluate)
    server = ServerApp()
    found: dict[str, Any] = {}

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        starts: list[float] = []
        logger = logging.getLogger("flwr")
        logger.addFilter(lambda record: _note(record, starts))
        result = server_app.federate(grid, config)
        starts.append(time.time())
        found["seconds"] = [after - before for before, after in pairwise(starts)]
        found["train"] = {k: dict(v) for k, v in result.train_metrics_clientapp.items()}
        found["evaluate"] = {k: dict(v) for k, v in result.evaluate_metrics_clientapp.items()}

    run_simulation(server, clients, config["nodes"], backend_config=BACKEND)
    return found


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print("RESULT " + json.dumps(simulate(json.loads(argument))), flush=True)
