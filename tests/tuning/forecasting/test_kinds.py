"""Tasks that cost alike are of one kind, and counted in its units."""

from __future__ import annotations

from trilemma.estimation.jobs import AttackJob, BeliefJob, CostJob, TrainJob
from trilemma.observations import Adversary
from trilemma.tuning.forecasting.kinds import Kind, amount_of, kind_of

NOISE = "randomization:variance=0.1"
HIDDEN = f"{NOISE}+secret-sharing"
SERVER = Adversary.SERVER


def test_each_task_has_its_kind_and_its_units() -> None:
    for task, kind, units in (
        (
            AttackJob("a", NOISE, ("dlg",), SERVER, 150, 0, 16),
            Kind("games", ("dlg",), 150, "plain"),
            16,
        ),
        (
            AttackJob("b", HIDDEN, ("dlg", "map"), SERVER, 1, 32, 5),
            Kind("games", ("dlg", "map"), 1, "secret-sharing"),
            5,
        ),
        (
            BeliefJob("c", NOISE, ("map",), SERVER, 1, 0, 16, 6),
            Kind("beliefs", ("map",), 1, "plain"),
            96,
        ),
        (TrainJob(HIDDEN, 3, 150), Kind("trainings", (), 150, "plain"), 1),
        (CostJob("paillier", 6), Kind("timings", (), 1, "paillier"), 6),
    ):
        assert kind_of(task) == kind
        assert amount_of(task) == units
