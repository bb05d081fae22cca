"""The digits app: in this process, and in Flower's simulation."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from flower_digits import client_app, server_app
from flwr.app import MetricRecord, UserConfig
from flwr.serverapp.strategy import Result
from tests.deployment.flower.harness import DirectGrid
from tests.deployment.flower.machines import ROOT, machine, quiet, run

from trilemma.crypto.keyfiles import save_private, save_public
from trilemma.crypto.paillier import PrivateKey
from trilemma.deployment.nodes.ledger import Ledger
from trilemma.entropy import System
from trilemma.errors import InvalidInput, NotConfigured
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.learning import LocalTraining

FIXED_POINT = "clip_range=4.0,precision_bits=20,max_weight=2000"
PROTECTIONS = {
    "noise and compression": "randomization:variance=1e-6,clip=10.0+compression:keep=0.9",
    "secret sharing": f"secret-sharing:{FIXED_POINT}",
    "Paillier, open": f"paillier:bits=2048,mode=open,{FIXED_POINT}",
    "Paillier, blind": f"paillier:bits=2048,mode=blind,{FIXED_POINT}",
}
SETTINGS: dict[str, int | bool] = {"nodes": 3, "rounds": 3, "evaluate-every-round": True}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Paillier key at the floor."""
    folder = tmp_path_factory.mktemp("keys")
    key = PrivateKey.generate(System(), bits=2048)
    save_private(key, folder / "key")
    save_public(key.public, folder / "public")
    return folder


def federate(
    keys: Path, *, without: str = "", lacking: int = 3, **settings: bool | float | int | str
) -> Result:
    """The app as it is shipped, its nodes and its server in this process.

    The first `lacking` nodes are not given the setting `without`.
    """
    config: UserConfig = {"local-epochs": 5, "lr": 0.1, "least-nodes": 3, **SETTINGS, **settings}
    if "paillier" in str(config.get("protection")):
        config["public-key"] = str(keys / "public")
    grid = DirectGrid(client_app.app, nodes=range(10, 13))
    for index, context in enumerate(grid.contexts.values()):
        context.node_config = {
            "partition-id": index,
            "num-partitions": 3,
            "trilemma-key": str(keys / "key"),
            "trilemma-ledger": str(keys / "ledger"),
            "trilemma-data": f"digits {index}",
        }
        if index < lacking:
            context.node_config.pop(without, None)
        context.run_config = dict(config)
    return server_app.federate(grid, dict(config))


def in_process(protection: str, keys: Path) -> dict[int, MetricRecord]:
    """What the clients evaluate after each round."""
    result = federate(keys, protection=protection)
    assert len(result.train_metrics_clientapp) == SETTINGS["rounds"]
    return result.evaluate_metrics_clientapp


CERTIFIED = {
    "schema_version": 4,
    "protection": f"randomization:variance=1e-6+secret-sharing:{FIXED_POINT}",
    "basis": "certified",
    "deployment": asdict(
        Deployment(
            LocalTraining("fedsgd", batch=64, record_clip=1.0, sampling="poisson"),
            *(2410, 3, 3, 3),
            rounds=12,
            sampling_rate=64 / 500,
            participation="secret",
            helpers=1,
            server=ServerTraining(8.0, decay=True),
        )
    ),
}


@pytest.fixture
def verdict(tmp_path: Path) -> dict[str, Any]:
    """The settings that deploy it."""
    (tmp_path / "verdict.json").write_text(json.dumps(CERTIFIED))
    return {"verdict": str(tmp_path / "verdict.json"), "rounds": 12}


def test_the_app_deploys_a_verdict_for_its_rounds(keys: Path, verdict: dict[str, Any]) -> None:
    (keys / "ledger").unlink(missing_ok=True)
    result = federate(keys, **verdict)
    metrics = result.evaluate_metrics_serverapp
    first, last = (float(str(metrics[number]["eval_acc"])) for number in (0, 12))
    assert first < 0.2 < 0.45 < last, "it learns, by the server's step"
    proved = {"dp-epsilon", "dp-epsilon-round", "dp-delta"}
    reported = proved | {"cohort", "survivors", "refusals"}
    assert set(result.train_metrics_clientapp[12]) == reported
    assert not result.evaluate_metrics_clientapp, "only updates leave a node"
    (event,) = Ledger(keys / "ledger").events("digits 2")
    assert event.rounds == 12
    assert event.level == "record"
    assert event.q == pytest.approx(64 / 500)
    again = federate(keys, **verdict)
    left = {value["survivors"] for value in again.train_metrics_clientapp.values()}
    assert left == {0}, "another run has no rounds left"


def test_the_app_refuses_a_verdict_about_another_federation(
    keys: Path, verdict: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="rounds was 12 when measured and is 150 here"):
        federate(keys, **verdict | {"rounds": 150})


def test_a_run_whose_nodes_all_lack_the_key_ends_with_an_error(keys: Path) -> None:
    with pytest.raises(NotConfigured, match=r"no node can take part: .*TRILEMMA_KEY"):
        federate(keys, protection=PROTECTIONS["Paillier, open"], without="trilemma-key")
    result = federate(
        keys, protection=PROTECTIONS["Paillier, open"], without="trilemma-key", lacking=1
    )
    assert result.train_metrics_clientapp[1]["refusals"] == 1


@pytest.mark.slow
def test_the_app_deploys_a_verdict_on_a_machine_where_nothing_is_installed_for_it(
    tmp_path: Path,
) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`: pip install 'trilemma[ray]'")
    app = tmp_path / "app"
    shutil.copytree(ROOT / "examples/flower-digits", app)
    (app / "flower_digits" / "verdict.json").write_text(json.dumps(CERTIFIED))
    with machine(tmp_path) as (_, environment):
        del environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"]
        settings = {"verdict": "verdict.json", "rounds": 12, "nodes": 3, "least-nodes": 3}
        said = run(app, environment, settings, supernodes=3)
    last = re.findall(r"round 12: on test digits .*'eval_acc': ([0-9.]+)", said)
    assert float(last[0]) > 0.45, said[-4000:]


@pytest.mark.parametrize("name", PROTECTIONS)
def test_the_app_learns_the_same_under_each_protection(name: str, keys: Path) -> None:
    plain = in_process("none", keys)
    protected = in_process(PROTECTIONS[name], keys)
    exact = name != "noise and compression"
    for number, metrics in plain.items():
        for key in ("eval_loss", "eval_acc"):
            allowed = 2e-3 if exact else 0.3
            assert protected[number][key] == pytest.approx(metrics[key], abs=allowed)


@pytest.mark.slow
def test_the_app_runs_in_the_simulation(keys: Path, tmp_path: Path) -> None:
    """With the model in the nodes' own state; other protections are the quickstart's to try."""
    pytest.importorskip("ray", reason="needs the extra `ray`: pip install 'trilemma[ray]'")
    settings = {
        **SETTINGS,
        "protection": PROTECTIONS["Paillier, blind"],
        "public-key": str(keys / "public"),
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/deployment/flower/simulate.py"), json.dumps(settings)],
        env=quiet(tmp_path) | {"TRILEMMA_KEY": str(keys / "key")},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    found = json.loads(lines[0].removeprefix("RESULT "))
    losses = [found["train"][str(number)]["train_loss"] for number in (1, 2, 3)]
    assert losses[2] < losses[0], "it learns"
    for number, metrics in in_process("none", keys).items():
        made = found["evaluate"][str(number)]["eval_loss"]
        assert math.isclose(made, float(str(metrics["eval_loss"])), abs_tol=2e-3)
