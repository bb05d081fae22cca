"""One place decides where work is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import here
from tests.execution.pool.number_tasks import Number, make_square

from trilemma.errors import InvalidInput
from trilemma.execution.pool import WorkerPool, executor
from trilemma.execution.pool.ray_pool import Cluster


def test_an_address_means_a_cluster() -> None:
    assert isinstance(executor(make_square, workers=2), WorkerPool)
    assert isinstance(executor(make_square, workers=2, ray="auto", device="cuda"), Cluster)


def test_what_is_chosen_works() -> None:
    with executor(make_square, workers=1) as pool:
        pool.submit(Number(5))
        assert pool.next() == (Number(5), b"25")


SMALL = ("--scenario", "tests.cli.own_scenario:small")


@pytest.mark.parametrize(
    "words",
    [
        ("tune", *SMALL, "--steps", "2", "--attacks", "gaussian-posterior"),
        ("pareto", *SMALL, "--steps", "2", "--attacks", "gaussian-posterior"),
        ("estimate", *SMALL),
        ("attack", *SMALL),
        ("attack", *SMALL, "--attack", "dlg"),
    ],
)
def test_every_command_that_measures_takes_an_address(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(make_work: object, *, address: str, workers: int, device: str) -> None:
        raise InvalidInput(f"{workers} workers on {device} at {address}.")

    monkeypatch.setattr("trilemma.execution.pool.Cluster", refuse)
    where = ("--ray", "10.0.0.1:6379", "--workers", "3", "--out", str(tmp_path / "run"))
    code, _, err = here(monkeypatch, capsys, *words, *where)
    assert code == 2
    assert "3 workers on cpu at 10.0.0.1:6379." in err
    assert not (tmp_path / "run").exists()
