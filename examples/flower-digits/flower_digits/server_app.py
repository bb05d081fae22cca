"""The server's side. Protection is the one line `grid=ProtectedGrid(...)`."""

from __future__ import annotations

from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, UserConfig
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, Result

from flower_digits import task
from trilemma.crypto.keyfiles import load_public
from trilemma.deployment.flower import ProtectedGrid

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the federation that the configuration asks for."""
    federate(grid, context.run_config)


def federate(grid: Grid, config: UserConfig) -> Result:
    """The federation: a strategy of Flower's, with or without protection."""
    terms = task.make_terms(config)
    arrays, rounds = ArrayRecord(task.make_model().state_dict()), int(config["rounds"])
    if terms is not None:
        path = str(config.get("public-key", ""))
        public = load_public(Path(path)) if path else None
        kept = str(config.get("checkpoint", "")) or None
        grid = ProtectedGrid(grid, terms, public_key=public, checkpoint=kept)
        arrays, rounds = grid.resumed(arrays), grid.rounds_left(rounds)
    least = int(config["least-nodes"])
    # Under a verdict nothing leaves a node but updates; a blind sum still rides on evaluation.
    evaluated = terms is None or terms.deployment is None or terms.blind
    evaluated = evaluated and bool(config["evaluate-every-round"])
    make = FedAdam if config.get("strategy", "FedAvg") == "FedAdam" else FedAvg
    strategy = make(
        fraction_evaluate=1.0 if evaluated else 0.0,
        min_train_nodes=least,
        min_evaluate_nodes=least if evaluated else 0,
        min_available_nodes=least,
    )
    result = strategy.start(
        grid=grid,
        initial_arrays=arrays,
        num_rounds=rounds,
        train_config=ConfigRecord(
            {"local-epochs": int(config["local-epochs"]), "lr": float(config["lr"])}
        ),
        evaluate_fn=evaluate,
    )
    for number, metrics in sorted(result.train_metrics_clientapp.items()):
        print(f"round {number}: train {dict(metrics)}", flush=True)
    for number, metrics in sorted(result.evaluate_metrics_serverapp.items()):
        print(f"round {number}: on test digits {dict(metrics)}", flush=True)
    for number, metrics in sorted(result.evaluate_metrics_clientapp.items()):
        print(f"round {number}: evaluate {dict(metrics)}", flush=True)
    return result


def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
    """The model on digits that no client has."""
    model = task.make_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    return MetricRecord(task.evaluate(model, task.held_out()))
