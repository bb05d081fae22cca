"""Flower's quickstart, made protected by the lines of docs/flower.md, as a new user would."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("flwr", reason="needs the extra `flower`: pip install 'trilemma[flower]'")

from tests.deployment.flower.machines import ROOT, free_ports, machine, quiet, read, run

from trilemma.deployment.nodes.ledger import Ledger
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.learning import LocalTraining

APP = Path(__file__).with_name("quickstart")
DOCS = (ROOT / "docs" / "flower.md").read_text()
ROUNDS, LR, EPOCHS = 2, 0.05, 1
PRECISE = "clip_range=4.0,precision_bits=24,max_weight=2000"
NOISE = "randomization:variance=1e-8,clip=50.0"
PROTECTIONS = {
    "noise": NOISE,
    "compression": "compression:keep=0.9",
    "secret sharing": f"secret-sharing:ring_bits=64,{PRECISE}",
    "Paillier": f"paillier:bits=2048,{PRECISE}",
    "noise and secret sharing": f"{NOISE}+secret-sharing:ring_bits=64,{PRECISE}",
}
EXACT = ("secret sharing", "Paillier")
IMPORTS = "from pytorchexample.terms import terms\nfrom trilemma.deployment.flower import {}\n"
TERMS = """from trilemma.deployment.flower import Terms

terms = Terms.of(
    "secret-sharing:clip_range=4.0,max_weight=2000",
    metrics=("train_loss",),
    evaluate_metrics=("eval_loss", "eval_acc"),
)
"""
VERDICT = """from dataclasses import replace
from pathlib import Path

from pytorchexample.task import Net
from trilemma.deployment.flower import from_verdict, measured_deployment

verdict = Path(__file__).with_name("verdict.json")
own = replace(
    measured_deployment(verdict),  # what is not stated below: how nodes and server train
    parameters=sum(each.numel() for each in Net().parameters()),
    clients=10,
    cohort=10,
    threshold=7,
    rounds=150,
    total_records=1500,
)
terms = from_verdict(verdict, own)
"""
CLIENT = "app = ClientApp(mods=[protect_mod(terms)])\n"
SERVER = "    grid=ProtectedGrid(grid, terms),\n"
SERVER_WITH_KEY = (
    '    grid=ProtectedGrid(grid, terms, public_key=load_public(Path("/srv/federation.pub"))),\n'
)
LOSS = "from torch.nn.functional import cross_entropy\n"
LOCAL_UPDATE = "    local_update(model, cross_entropy, dataset, terms)"


def documented(lines: str) -> str:
    assert lines in DOCS, f"docs/flower.md does not say: {lines}"
    return lines


def changed(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{path.name} has not one {old!r}"
        text = text.replace(old, new)
    path.write_text(text)


def protected(folder: Path, protection: str, public: Path | None = None) -> Path:
    """A copy of the app with the lines of the docs, for this protection."""
    app = folder / "app"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("__pycache__"))
    package = app / "pytorchexample"
    told = documented(TERMS).replace("secret-sharing:clip_range=4.0,max_weight=2000", protection)
    (package / "terms.py").write_text(told)
    first = "from pytorchexample.task import Net"
    changed(
        package / "client_app.py",
        ("app = ClientApp()\n", documented(CLIENT)),
        (first, documented(IMPORTS.format("protect_mod")) + first),
    )
    server = package / "server_app.py"
    changed(server, (first, documented(IMPORTS.format("ProtectedGrid")) + first))
    if public is None:
        changed(server, ("    grid=grid,\n", documented(SERVER)))
        return app
    imports = documented("from trilemma.crypto.keyfiles import load_public\n")
    line = documented(SERVER_WITH_KEY).replace("/srv/federation.pub", str(public))
    changed(server, ("    grid=grid,\n", line))
    changed(server, ("import torch\n", f"from pathlib import Path\n\n{imports}import torch\n"))
    return app


@pytest.fixture(scope="module")
def task() -> Iterator[ModuleType]:
    """The app's own net and training, in this process."""
    sys.path.insert(0, str(APP))
    yield importlib.import_module("pytorchexample.task")
    sys.path.remove(str(APP))


def plain(task: ModuleType, parts: int, answered: Sequence[Sequence[int]]) -> torch.nn.Module:
    """The model after rounds in which these partitions took part: FedAvg by hand."""
    torch.manual_seed(0)
    model: torch.nn.Module = task.Net()
    for who in answered:
        start, total = model.state_dict(), 0
        mean: dict[str, Any] = {}
        for part in who:
            own = task.Net()
            own.load_state_dict(start)
            loader, _ = task.load_data(part, parts, 32)
            task.train(own, loader, EPOCHS, LR)
            count = len(loader.dataset)
            total += count
            for name, each in own.state_dict().items():
                mean[name] = mean.get(name, 0.0) + count * each.double()
        model.load_state_dict({name: each / total for name, each in mean.items()})
    return model


def require_same(task: ModuleType, path: Path, expected: torch.nn.Module) -> None:
    """The saved model is that one, and so is its accuracy."""
    model = task.Net()
    model.load_state_dict(torch.load(path, weights_only=True))
    for name, each in expected.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], each, atol=2e-5, rtol=0)
    central = task.load_centralized_dataset()
    assert task.test(model, central)[1] == task.test(expected, central)[1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A machine for several runs."""
    with machine(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.fixture
def unused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A machine whose ledger has counted nothing yet."""
    with machine(tmp_path_factory.mktemp("unused")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTECTIONS)
def test_the_quickstart_runs_under_each_protection_by_the_lines_of_the_docs(
    name: str, home: tuple[Path, dict[str, str]], task: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`: pip install 'trilemma[ray]'")
    folder, environment = home
    public = folder / "federation.pub" if name == "Paillier" else None
    app = protected(tmp_path, PROTECTIONS[name], public)
    saved = tmp_path / "final.pt"
    said = run(app, environment, {"final-model": str(saved)})
    assert said.count("'survivors': 2.0") == 2 * ROUNDS, said[-4000:]
    assert "'eval_loss'" in said
    assert "'train_loss'" in said
    assert "'dp-epsilon'" not in said, "metrics in clear leave beside the noise: no ε is stated"
    expected = plain(task, 2, [[0, 1]] * ROUNDS)
    if name in EXACT:
        require_same(task, saved, expected)
        return
    model = task.Net()
    model.load_state_dict(torch.load(saved, weights_only=True))
    central = task.load_centralized_dataset()
    untrained = task.test(plain(task, 2, []), central)[0]
    assert task.test(model, central)[0] < untrained - 0.05, "it learns"


@pytest.mark.slow
def test_the_quickstart_deploys_a_verdict(
    unused: tuple[Path, dict[str, str]], task: ModuleType, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`: pip install 'trilemma[ray]'")
    folder, environment = unused
    app = protected(tmp_path, "none")
    package = app / "pytorchexample"
    fewest = len(task.load_data(0, 2, 32)[0].dataset)
    own = Deployment(
        LocalTraining("fedsgd", lr=2.0, batch=64, record_clip=0.5, sampling="poisson"),
        *(sum(each.numel() for each in task.Net().parameters()), 2, 2, 2),
        rounds=ROUNDS,
        sampling_rate=64 / fewest,
        participation="secret",
        helpers=1,
        server=ServerTraining(2.0, decay=True),
    )
    chosen = f"randomization:variance=1e-8+{PROTECTIONS['secret sharing']}"
    measured = {"schema_version": 4, "protection": chosen, "deployment": asdict(own)}
    (package / "verdict.json").write_text(json.dumps(measured))
    (package / "terms.py").write_text(documented(VERDICT))
    numbers = {"clients=10": "clients=2", "cohort=10": "cohort=2", "threshold=7": "threshold=2"}
    numbers |= {"rounds=150": f"rounds={ROUNDS}"}
    changed(package / "terms.py", *numbers.items())
    line = documented(LOCAL_UPDATE).replace("dataset", "trainloader.dataset")
    changed(
        package / "client_app.py",
        ("    train_loss = train_fn(model, trainloader, epochs, lr)\n", f"{line}\n"),
        ('    metrics = {"train_loss": train_loss, "num', '    metrics = {"num'),
        ("import protect_mod\n", "import local_update, protect_mod\n"),
        ("from flwr.app", f"{documented(LOSS)}from flwr.app"),
    )
    saved = tmp_path / "final.pt"
    said = run(app, environment, {"final-model": str(saved)})
    assert said.count("'survivors': 2.0") == 2 * ROUNDS, said[-4000:]
    for part in range(2):
        (event,) = Ledger(folder / "ledger").events(f"digits {part}")
        assert (event.rounds, event.level) == (ROUNDS, "record")


def restarted(
    work: Path, environment: dict[str, str], script: subprocess.Popen[bytes]
) -> subprocess.Popen[bytes]:
    """The node again, as a supervisor does it: the SuperLink must know that it was gone."""
    while "dropped out" not in read(work / "run.log") and script.poll() is None:
        time.sleep(1)
    for _ in range(10):
        with (work / "node-2-again.log").open("w") as said:
            node = subprocess.Popen(
                ["bash", str(work / "node-2.sh")],
                env=environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (work / "node-2.pid").write_text(str(node.pid))  # for the script to end
        try:
            node.wait(timeout=20)
        except subprocess.TimeoutExpired:
            return node
        os.killpg(node.pid, signal.SIGKILL)  # what it started
    raise AssertionError(read(work / "node-2-again.log"))


@pytest.mark.slow
def test_a_killed_node_comes_back_to_a_deployment(task: ModuleType, tmp_path: Path) -> None:
    """Four SuperNodes over TLS, identities pinned: one starts late, one is killed in round 1."""
    app = protected(tmp_path, PROTECTIONS["secret sharing"])
    terms = app / "pytorchexample" / "terms.py"
    changed(terms, ('    evaluate_metrics=("eval_loss", "eval_acc"),\n', "    threshold=3,\n"))
    work, saved = tmp_path / "work", tmp_path / "final.pt"
    work.mkdir()
    settings = f'fraction-evaluate=0.0 min-nodes=4 timeout=100.0 final-model="{saved}"'
    environment = quiet(tmp_path) | {
        "WORK": str(work),
        "APP": str(app),
        "RUN_CONFIG": settings,
        "NODES": "4",
        "LATE": "15",
        "LIMIT": "560",
        "PORT": str(free_ports(5)),
    }
    with (tmp_path / "script.log").open("w") as said:
        script = subprocess.Popen(
            ["bash", str(ROOT / "examples/flower-deployment.sh")],
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        log, deadline = work / "node-2.log", time.monotonic() + 300
        while not log.exists() or log.read_text().count("Received successfully") < 3:
            assert script.poll() is None, read(tmp_path / "script.log")
            assert time.monotonic() < deadline, read(log)
            time.sleep(0.2)
        os.killpg(int((work / "node-2.pid").read_text()), signal.SIGKILL)
        sent = log.read_text().count("Sent successfully")
        again = restarted(work, environment, script)
        assert script.wait(timeout=600) == 0, read(tmp_path / "script.log")
    finally:
        script.terminate()  # its trap ends the rest
        script.wait(timeout=60)
    again.wait(timeout=60)
    told = read(work / "run.log")
    assert "'cohort': 4.0, 'survivors': 3.0" in told, "round 1 was without it"
    assert "'cohort': 4.0, 'survivors': 4.0" in told, "and round 2 with it again"
    assert sent == 2, "it never sent its first update"
    require_same(task, saved, plain(task, 4, [[0, 1, 3], [0, 1, 2, 3]]))
