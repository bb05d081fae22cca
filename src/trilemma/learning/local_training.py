"""What an update is: how a client draws its records and what it makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trilemma.errors import InvalidInput
from trilemma.quantities import counted, one_of, positive

__all__ = ["LocalTraining"]


@dataclass(frozen=True)
class LocalTraining:
    """What an update is.

    `fedsgd`: the gradient of the mean loss over `batch` records. `fedavg`: the weight change
    w_before - w_after of `steps` SGD steps at rate `lr`; step t uses records
    t·batch … (t+1)·batch - 1, counted modulo `records`, the number that the client holds in a
    round (by default one batch, used in every step).

    `record_clip` (C_r) scales each record's gradient g by min(1, C_r / ‖g‖) before the mean.
    `sampling="poisson"`: each of the client's n records joins each step with probability
    batch / n, independently; the sum of their gradients is divided by `batch`, never by the
    number drawn. `sampling="full"`: all n join each step, the first `records` of them if it is
    given, and `batch` is that constant still.
    """

    algorithm: Literal["fedsgd", "fedavg"] = "fedsgd"
    lr: float = 0.1
    steps: int = 1
    batch: int = 1
    records: int | None = None
    record_clip: float | None = None
    sampling: Literal["fixed", "poisson", "full"] = "fixed"

    def __post_init__(self) -> None:
        one_of("algorithm", self.algorithm, ("fedsgd", "fedavg"))
        one_of("sampling", self.sampling, ("fixed", "poisson", "full"))
        checks = {"lr": positive, "steps": counted, "batch": counted}
        optional = {"records": counted, "record_clip": positive}
        checks |= {name: optional[name] for name in optional if getattr(self, name) is not None}
        for name, check in checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))
        self._check_records()

    def _check_records(self) -> None:
        """Raises where `records` do not go with the algorithm or the sampling."""
        own = (None, self.batch) if self.sampling == "fixed" else (None, self.records)
        if self.algorithm == "fedsgd" and (self.steps > 1 or self.records not in own):
            raise InvalidInput(
                f"fedsgd sends one gradient over one batch, got {self.steps} steps and "
                f"{self.records or self.batch} records; for several steps or batches use "
                f"algorithm='fedavg'."
            )
        capped = self.sampling == "full" and self.algorithm == "fedsgd"
        if self.records is not None and self.sampling != "fixed" and not capped:
            raise InvalidInput(
                f"sampling={self.sampling!r} draws from all of a client's records, so records "
                f"must be None, got {self.records}; leave it out, or use sampling='fixed'."
            )
        if self.records is not None and self.records < self.batch:
            raise InvalidInput(
                f"records ({self.records}) must hold at least one batch ({self.batch})."
            )

    @property
    def unit_size(self) -> int:
        """S, the number of records behind one update; but for fixed sampling, behind one step.

        There it is the expected number, and the constant by which the sum is divided.
        """
        return self.batch if self.sampling == "full" else self.records or self.batch

    @property
    def participation(self) -> Literal["secret", "known"]:
        """Whether it stays the client's secret if a record is in a round.

        A batch of fixed size tells: S - 1 others used means that the record was in.
        """
        return "secret" if self.sampling == "poisson" else "known"

    @property
    def by_record(self) -> bool:
        """Whether an update is made of single records' gradients, not of a batch's mean loss."""
        return self.record_clip is not None or self.sampling != "fixed"
