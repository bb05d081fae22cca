"""One place decides where work is done."""

from __future__ import annotations

from tests.work.executors.test_local import Number, make_square

from trilemma.work.executors import Crew, executor
from trilemma.work.executors.cluster import Cluster


def test_an_address_means_a_cluster() -> None:
    assert isinstance(executor(make_square, workers=2), Crew)
    assert isinstance(executor(make_square, workers=2, ray="auto", device="cuda"), Cluster)


def test_what_is_chosen_works() -> None:
    with executor(make_square, workers=1) as crew:
        crew.submit(Number(5))
        assert crew.next() == (Number(5), b"25")
