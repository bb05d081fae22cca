"""Workers on a Ray cluster: the same payloads as here, whatever dies, and no secret leaves."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli.own_scenario import small
from tests.cli.running import committed, comparable, here, run, start
from tests.execution.pool.faking import ActorDiedError, FakeRay, RayTaskError
from tests.execution.pool.number_tasks import Number, make_square, make_trouble
from tests.execution.pool.two_nodes import ENV, two_nodes
from tests.tuning.simulating import simulate

from trilemma.errors import InvalidInput
from trilemma.execution.journal import Run
from trilemma.execution.pool import WorkerDied, ray_pool
from trilemma.execution.pool.ray_pool import Cluster
from trilemma.execution.run_log import versions
from trilemma.tuning.request import Request
from trilemma.tuning.tuning_run import tune

Make = Callable[[], Callable[[Number], bytes]]
EXTRA = "needs the extra `ray`: pip install 'trilemma[ray]'"


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeRay], FakeRay]:
    def use(ray: FakeRay) -> FakeRay:
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    return use


def done(make: Make, count: int, workers: int = 2, device: str = "cpu") -> dict[int, bytes]:
    with Cluster[Number](make, address="auto", workers=workers, device=device) as pool:
        for number in range(count):
            pool.submit(Number(number))
        found = [pool.next() for _ in range(count)]
    return {task.number: payload for task, payload in found}


SQUARES = {0: b"0", 1: b"1", 2: b"4", 3: b"9"}


def test_every_task_once_and_what_they_share_once(connect: Callable[..., FakeRay]) -> None:
    ray = connect(FakeRay())
    assert done(make_square, 4) == SQUARES
    assert ray.put_count == 1, "not with each task"
    assert (ray.address, ray.connected) == ("auto", False)
    assert ray.needs == {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
    assert ray.killed == 2, "no worker is left"


def test_workers_and_tasks_are_named_in_words(connect: Callable[..., FakeRay]) -> None:
    ray = connect(FakeRay())
    done(make_square, 2, workers=1)
    worker, begun, *tasks = ray.names
    assert worker.startswith("worker ")
    assert begun == f"start of {worker}"
    assert tasks == ["number 0", "number 1"]


def test_a_worker_without_a_place_gets_no_task(connect: Callable[..., FakeRay]) -> None:
    connect(FakeRay(places=1))
    assert done(make_square, 4, workers=3) == SQUARES


def test_a_connection_that_is_there_is_used_and_left(connect: Callable[..., FakeRay]) -> None:
    ray = connect(FakeRay())
    ray.connected = True
    assert done(make_square, 4) == SQUARES
    assert (ray.address, ray.connected) == ("", True)


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_dead_worker_is_replaced(connect: Callable[..., FakeRay], deaths: int) -> None:
    ray = connect(FakeRay(trouble={"number": [ActorDiedError()] * deaths}))
    assert done(make_square, 4, workers=1) == SQUARES
    assert sum(name.startswith("worker") for name in ray.names) == 1 + deaths


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("number", r"^3 worker processes died on number 0, .*ActorDiedError.*is kept"),
        ("start", r"^3 workers on the Ray cluster died before .*ActorDiedError.*is kept"),
    ],
)
def test_three_deaths_are_one_sentence(
    connect: Callable[..., FakeRay], where: str, sentence: str
) -> None:
    connect(FakeRay(trouble={where: [ActorDiedError() for _ in range(3)]}))
    with pytest.raises(WorkerDied, match=sentence):
        done(make_square, 4, workers=1)


def test_a_node_without_our_code_is_one_sentence(connect: Callable[..., FakeRay]) -> None:
    unborn = ActorDiedError("The actor died\n ModuleNotFoundError: No module named 'trilemma'")
    unborn.actor_init_failed = True
    missing = RayTaskError("ModuleNotFoundError: No module named 'mine'")
    for where, error in (("start", unborn), ("number", missing)):
        connect(FakeRay(trouble={where: [error]}))
        with pytest.raises(InvalidInput, match=r"cannot do this work \(.*No module named"):
            done(make_square, 4)


def test_a_node_with_other_versions_is_refused(
    connect: Callable[..., FakeRay], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(FakeRay())
    monkeypatch.setattr("trilemma.execution.pool.worker.versions", lambda: "trilemma 0.0.1")
    with pytest.raises(InvalidInput, match=r"has trilemma 0\.0\.1, and this machine trilemma"):
        done(make_square, 4)
    assert versions() != "trilemma 0.0.1"


def test_a_users_mistake_keeps_its_sentence(connect: Callable[..., FakeRay]) -> None:
    connect(FakeRay())
    with pytest.raises(InvalidInput, match=r"^the model returns NaN\.$"):
        done(partial(make_trouble, "mendable"), 2)


def test_workers_are_placed_by_need(connect: Callable[..., FakeRay]) -> None:
    two_gpus = {"CPU": 1.0, "GPU": 2.0}
    assert ray_pool.worker_needs(two_gpus, 9, "cpu") == {"num_cpus": 1}
    assert ray_pool.worker_needs(two_gpus, 1, "cuda") == {"num_gpus": 1.0}
    assert ray_pool.worker_needs(two_gpus, 3, "cuda") == {"num_gpus": 0.5}
    share = ray_pool.worker_needs(two_gpus, 14, "cuda")["num_gpus"]
    assert 0.142 < share <= 1 / 7, "seven must fit on one GPU"
    connect(FakeRay())
    with pytest.raises(InvalidInput, match=r"device 'cuda' .* has no GPU"):
        done(make_square, 1, device="cuda")
    with pytest.raises(InvalidInput, match="no CPU"):
        ray_pool.worker_needs({"CPU": 0.0}, 1, "cpu")
    with pytest.raises(InvalidInput, match="at least 1, got 0"):
        done(make_square, 1, workers=0)


def test_what_is_lacking_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"needs Ray.*install 'trilemma\[ray\]'"):
        done(make_square, 1)


def test_an_address_where_something_listens_is_for_ray_to_join() -> None:
    ray = FakeRay()
    with socket.create_server(("127.0.0.1", 0)) as door:
        address = f"ray://127.0.0.1:{door.getsockname()[1]}"
        ray_pool.join_cluster(ray, address)
    assert ray.address == address


def test_what_ray_says_of_a_server_that_is_not_rays_is_one_sentence() -> None:
    class Elsewhere(FakeRay):
        def init(self, address: str, **_: Any) -> None:
            raise ConnectionError(f"Failed to connect to Ray cluster at {address}")

    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        pytest.raises(InvalidInput, match=r"^no Ray cluster can be joined at .*Failed.*auto"),
    ):
        ray_pool.join_cluster(Elsewhere(), f"127.0.0.1:{door.getsockname()[1]}")


def test_a_wrong_address_is_one_sentence_of_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason=EXTRA)
    with socket.create_server(("127.0.0.1", 0)) as door:
        free = door.getsockname()[1]
    words = ("attack", "--scenario", "tests.cli.own_scenario:small")
    out = ("--out", str(tmp_path / "run"), "--ray", f"127.0.0.1:{free}")
    code, _, err = here(monkeypatch, capsys, *words, *out)
    assert code == 2
    (said,) = [line for line in err.splitlines() if "Ray" in line]
    assert "Connection refused" in said
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists(), "a refused command leaves no trace"


def test_no_key_of_a_run_is_sent(
    connect: Callable[..., FakeRay], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All bytes that reach Ray in a tuning, against all secrets that the run has."""
    simulate(monkeypatch)
    ray = connect(FakeRay())
    asked = Request(
        attacks=("gaussian-posterior",), families=("randomization", "paillier"), seeds=2,
        strengths=0,
    )  # fmt: skip
    with Run.open(tmp_path, {}) as run:
        key = run.key("data")
        tune(small, asked, run=run, workers=2, ray="auto")
        kept = (tmp_path / "run.key").read_bytes()
    assert len(ray.sent) > 10
    secrets = [key, key.hex().encode(), kept, kept.hex().encode(), str(tmp_path).encode()]
    everything = b"".join((*ray.sent, *(name.encode() for name in ray.names)))
    for secret in secrets:
        assert secret not in everything
    assert b"gaussian-posterior" in everything, "what is sent can be searched"


@pytest.mark.slow
def test_two_nodes_one_killed_the_same_payloads() -> None:
    """In a process of its own, so that Ray's threads and handlers end with it."""
    pytest.importorskip("ray", reason=EXTRA)
    program = """
import sys, time
from tests.execution.pool.test_ray_pool import make_slow
from tests.execution.pool.number_tasks import Number
from trilemma.execution.pool.ray_pool import Cluster
with Cluster(make_slow, address=sys.argv[1], workers=3) as crew:
    for number in range(40):
        crew.submit(Number(number))
    for _ in range(40):
        task, payload = crew.next()
        print("DONE", task.number, *payload.decode().split(), file=sys.__stdout__, flush=True)
"""
    with two_nodes() as (address, nodes):
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        words = [sys.executable, "-c", program, address]
        with subprocess.Popen(words, env=ENV, stdout=subprocess.PIPE, text=True) as driver:
            assert driver.stdout is not None
            found, places = {}, set()
            for line in driver.stdout:
                if line.startswith("DONE"):
                    _, number, square, threads, place = line.split()
                    assert threads == "1"
                    found[int(number)] = int(square)
                    places.add(place)
                if len(places) == 2 and len(found) < 37:
                    nodes.stdin.write("kill\n")
                    nodes.stdin.flush()
                    assert nodes.stdout.readline() == "KILLED\n"
                    places.add("killed")
    assert driver.returncode == 0
    assert "killed" in places, "both nodes had worked"
    assert found == {number: number**2 for number in range(40)}


def _slow(task: Number) -> bytes:
    import ray
    import torch

    time.sleep(0.5)
    place = ray.get_runtime_context().get_node_id()
    return f"{task.number**2} {torch.get_num_threads()} {place}".encode()


def make_slow() -> Callable[[Number], bytes]:
    return _slow


REAL = (
    *("tune", "--scenario", "tests.cli.own_scenario:shown", "--budget", "0.4"),
    *("--restarts", "1", "--seeds", "2", "--steps", "2", "--candidates", "10", "--batch", "4"),
    *("--strengths", "2", "--families", "randomization", "--efficiency-weight", "0"),
    *("--attacks", "gaussian-posterior,analytic"),
)


@pytest.mark.slow
def test_tuning_on_two_nodes_one_killed_gives_the_same_verdict(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason=EXTRA)
    calm, rough = tmp_path / "calm", tmp_path / "rough"
    code, _, err = run(*REAL, "--out", str(calm))
    assert code == 0, err
    with two_nodes() as (address, nodes):
        assert nodes.stdin is not None
        driver = start(*REAL, "--out", str(rough), "--workers", "2", "--ray", address, "--json")
        while committed(rough) < committed(calm) // 3 and driver.poll() is None:
            time.sleep(0.02)
        assert driver.poll() is None, "it had ended before the kill"
        nodes.stdin.write("kill\n")
        nodes.stdin.flush()
        out, err = driver.communicate()
    assert driver.returncode == 0, err
    assert out.startswith("{"), "stdout is the result's alone"
    assert comparable(rough) == comparable(calm)
