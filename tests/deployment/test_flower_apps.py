"""Flower's simulation and TLS deployment, with what `trilemma deploy` writes and a policy."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.deployment.verdicts import QUIET, by_hand, verdict_file

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from tests.deployment.flower.harness import DirectGrid
from tests.deployment.flower.machines import ROOT, free_ports, machine, quiet, read, run

from trilemma import api
from trilemma.deployment import site
from trilemma.deployment.flower import Terms, protect_mod
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.deployment.site.wrapping import wrapped

ROUNDS = 2
SUMMED = f"{QUIET}+secret-sharing:ring_bits=64,clip_range=4.0,precision_bits=30,max_weight=100"
SITE = Path(str(site.__file__)).parent


def bound(environment: dict[str, str], app: Path) -> dict[str, str]:
    """The environment of nodes that keep to the app's policy file."""
    path = os.pathsep.join([str(SITE), environment["PYTHONPATH"]])
    policy = str(app / "trilemma-policy.toml")
    return {**environment, "PYTHONPATH": path, "TRILEMMA_POLICY": policy}


def deployed(folder: Path) -> Path:
    verdict = verdict_file(folder / "verdict.json", SUMMED, rounds=ROUNDS)
    api.deploy(verdict, flower=folder / "app")
    return folder / "app"


def without_protection(app: Path) -> None:
    client = app / "protected_app" / "client_app.py"
    text = client.read_text()
    assert text.count("ClientApp(mods=[protect_mod(terms)])") == 1
    client.write_text(text.replace("ClientApp(mods=[protect_mod(terms)])", "ClientApp()"))
    server = app / "protected_app" / "server_app.py"
    text = server.read_text()
    line = (
        '    grid = ProtectedGrid(grid, terms, checkpoint=str(settings["checkpoint"]) or None)\n'
    )
    assert line in text
    text = text.replace(line, "").replace("grid.resumed", "").replace("grid.rounds_left", "")
    server.write_text(text)


def survivors(said: str) -> list[str]:
    """How many nodes were in the sum of each round, as the app prints it at its end."""
    return re.findall(r"^round \d+: .*'survivors': ([0-9.]+)", said, re.MULTILINE)


def require_by_hand(path: Path) -> None:
    """The saved model is that of the verdict's rounds, to the grid and the noise."""
    model = torch.load(path, weights_only=True)
    for name, expected in by_hand(ROUNDS).state_dict().items():
        torch.testing.assert_close(model[name], expected, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_an_app_runs_by_its_verdict_and_by_no_less_in_the_simulation(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`: pip install 'trilemma[ray]'")
    app, saved = deployed(tmp_path), tmp_path / "final.pt"
    with machine(tmp_path) as (folder, environment):
        environment = bound(environment, app)
        settings = {"final-model": str(saved)}
        said = run(app, environment, settings, supernodes=4)
        assert survivors(said) == ["4.0"] * ROUNDS, said[-4000:]
        require_by_hand(saved)
        assert Ledger(folder / "ledger").events("digits 3")[0].rounds == ROUNDS
        again = run(app, environment, settings, supernodes=4)
        assert "the data took part in 2 rounds, and the node's policy allows 2" in again
        assert survivors(again) == ["0.0"] * ROUNDS
        without_protection(app)
        said = run(app, environment, settings, supernodes=4)
        assert "the app's first mod is not protect_mod" in said, said[-4000:]
        assert "PolicyRefused: the log of the node says why" in said
        assert Ledger(folder / "ledger").events("digits 3")[0].rounds == ROUNDS


def over_tls(folder: Path, app: Path, saved: Path) -> str:
    """What a run over TLS says, with the logs of its nodes."""
    work = folder / "work"
    work.mkdir()
    environment = bound(quiet(folder), app) | {
        "WORK": str(work),
        "APP": str(app),
        "RUN_CONFIG": f'final-model="{saved}"',
        "NODES": "4",
        "LIMIT": "500",
        "PORT": str(free_ports(5)),
    }
    with (folder / "script.log").open("w") as told:
        script = subprocess.Popen(
            ["bash", str(ROOT / "examples/flower-deployment.sh")],
            env=environment,
            stdout=told,
            stderr=subprocess.STDOUT,
        )
    try:
        script.wait(timeout=600)
    finally:
        script.terminate()  # its trap ends what it started
        script.wait(timeout=60)
    logs = [read(path) for path in sorted(work.glob("node-*.log"))]
    return (folder / "script.log").read_text(errors="replace") + "".join(logs)


@pytest.mark.slow
def test_the_same_app_trains_the_same_model_over_tls(tmp_path: Path) -> None:
    app, saved = deployed(tmp_path), tmp_path / "final.pt"
    said = over_tls(tmp_path, app, saved)
    assert survivors(said) == ["4.0"] * ROUNDS, said[-4000:]
    require_by_hand(saved)


@pytest.mark.slow
def test_nodes_over_tls_answer_no_app_without_protection(tmp_path: Path) -> None:
    app, saved = deployed(tmp_path), tmp_path / "final.pt"
    without_protection(app)
    said = over_tls(tmp_path, app, saved)
    assert "the app's first mod is not protect_mod" in said, said[-4000:]
    assert not list((tmp_path / "work").glob("ledger-*"))


def replies(app: ClientApp, policy: Path | None) -> list[Message]:
    """What two nodes with this policy answer a message to train."""
    grid = DirectGrid(app, nodes=range(2))
    for context in grid.contexts.values():
        if policy is not None:
            context.node_config = {**context.node_config, "trilemma-policy": str(policy)}
    content = RecordDict({"arrays": ArrayRecord({"weight": Array(np.zeros(3, np.float32))})})
    messages = [Message(content, node, "train") for node in grid.contexts]
    return list(grid.send_and_receive(messages))


@pytest.mark.parametrize("mods", ["none", "another first", "weak"])
def test_a_node_with_a_policy_answers_no_weaker_app(mods: str, tmp_path: Path) -> None:
    """The server gets a fixed code; nothing of the app runs."""
    policy = tmp_path / "trilemma-policy.toml"
    policy.write_text('protection = "secret-sharing"\n')
    ran: list[Any] = []

    def another(message: Message, context: Any, call_next: Any) -> Message:
        ran.append(message)
        return call_next(message, context)  # type: ignore[no-any-return]

    ours = protect_mod(Terms.of("compression:keep=0.5"))
    given = {"none": [], "another first": [another, ours], "weak": [ours]}[mods]
    with wrapped(ClientApp):
        app = ClientApp(mods=given)

        @app.train()
        def train(message: Message, context: Any) -> Message:
            ran.append(message)
            return message

        for reply in replies(app, policy):
            assert reply.has_error()
            assert reply.error == Error(2, "PolicyRefused: the log of the node says why")
    assert not ran
