"""What the nodes and the server of a run agree on before it starts."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining
from trilemma.protections.dp import PrivacyFigure, dp_figure, private_noise
from trilemma.protections.protection import Protection
from trilemma.protections.specs import parse_protection
from trilemma.protections.transforms.randomization import Randomization
from trilemma.quantities import positive

__all__ = ["Kind", "Terms", "from_verdict"]

Kind = Literal["train", "evaluate"]
_VERDICT_VERSIONS: Final = (1, 2)  # the fields read here mean the same in both


@dataclass(frozen=True)
class Terms:
    """A protection and what travels under it: the same for `protect_mod` and `ProtectedGrid`.

    `metrics` and `evaluate_metrics` name the numbers that clients report; they travel inside the
    transport as means over the clients, and may lie in ±`metric_range`. `threshold` is the fewest
    clients whose sum is released (None: two thirds plus one; one where the server reads every
    message anyway), `min_cohort` the fewest that a node lets itself be summed with. Weighting by
    records takes their number from `weighted_by` in a client's metrics. `budget` is the ε, at
    `delta`, beyond which nothing is trained. An update is the change of the weights, divided by
    `learning_rate`: under FedSGD that is the gradient, which noise, clip and range then refer to.

    >>> Terms.of("secret-sharing:max_weight=2000", metrics=("train_loss",)).threshold_of(10)
    7
    """

    protection: Protection
    metrics: tuple[str, ...] = ()
    evaluate_metrics: tuple[str, ...] = ()
    metric_range: float = 100.0
    threshold: int | None = None
    min_cohort: int = 2
    weighting: Literal["records", "uniform"] = "records"
    weighted_by: str = "num-examples"
    delta: float = 1e-5
    budget: float | None = None
    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.protection.cancels:
            raise InvalidInput(
                "bounded masks need a secret that all clients share and are weak; use "
                "secret-sharing without a bound."
            )
        positive("metric_range (largest metric)", self.metric_range)
        positive("learning_rate (of the local step)", self.learning_rate)
        if self.weighting not in ("records", "uniform"):
            raise InvalidInput(
                f"weighting must be 'records' or 'uniform', got {self.weighting!r}."
            )
        if self.min_cohort < 1:
            raise InvalidInput(f"min_cohort must be at least 1, got {self.min_cohort}.")
        for names in (self.metrics, self.evaluate_metrics):
            if not isinstance(names, tuple) or self.weighted_by in names:
                raise InvalidInput(
                    f"metrics must be a tuple of names without {self.weighted_by!r}, which is "
                    f"carried anyway, got {names!r}."
                )
        if self.budget is not None:
            positive("budget (ε at which training stops)", self.budget)
            if self.noise is None:
                raise InvalidInput(
                    "a budget needs noise with a clip, as nothing else has an ε; use "
                    "randomization:variance=...,clip=... ."
                )

    @classmethod
    def of(cls, terms: Terms | Protection | str, **settings: Any) -> Terms:
        """Terms from a protection or its text; terms as they are, but for `settings`."""
        if isinstance(terms, str):
            terms = parse_protection(terms)
        if isinstance(terms, Protection):
            return cls(terms, **settings)
        return replace(terms, **settings)

    @property
    def preparations(self) -> int:
        """Exchanges before the one that carries updates: keys and shares, or none."""
        return self.protection.transport.preparations

    @property
    def blind(self) -> bool:
        """Whether the server reads nothing, so that the model lives with the clients."""
        return self.protection.transport.server_reads == "nothing"

    @property
    def noise(self) -> Randomization | None:
        """The noise that differential privacy rests on."""
        return private_noise(self.protection)

    def names(self, kind: Kind) -> tuple[str, ...]:
        """The metrics that this kind of message carries."""
        return self.metrics if kind == "train" else self.evaluate_metrics

    def lanes(self, kind: Kind, size: int) -> dict[str, tuple[Protection, int]]:
        """What travels side by side, each in a session of its own: its protection and its size.

        Metrics pass no transform, and where the server is blind to the model one client still
        opens their sum.
        """
        transport = self.protection.transport.opened()
        lanes = {"update": (self.protection, size)} if kind == "train" else {}
        if kind == "evaluate" or self.metrics:
            lanes["metrics"] = (Protection((), transport), 2 * len(self.names(kind)))
        return lanes

    def threshold_of(self, clients: int) -> int:
        """The fewest of so many clients whose sum is released."""
        if self.threshold is not None:
            return self.threshold
        if self.protection.transport.server_reads == "messages":
            return 1
        return min(clients, 2 * clients // 3 + 1)

    def require_cohort(self, clients: int) -> None:
        """Raises where a cohort is too small to hide in."""
        least = max(self.min_cohort, self.threshold_of(clients))
        if clients < least:
            raise InvalidInput(
                f"{clients} clients take part, fewer than the {least} that these terms ask for; "
                "wait for more (min_train_nodes, min_evaluate_nodes), or lower min_cohort or "
                "threshold."
            )
        self.protection.transport.check_threshold(self.threshold_of(clients), clients)

    def describe(self) -> str:
        """What both sides must have in common, as text; the threshold is bound by the protocol."""
        return "; ".join(
            (
                self.protection.describe(),
                f"metrics {self.metrics} {self.evaluate_metrics} in ±{self.metric_range:g}",
                f"{self.weighting} by {self.weighted_by}",
                f"changes over {self.learning_rate!r}",
            )
        )

    def figure(self, rounds: int, threshold: int) -> PrivacyFigure | None:
        """The differential privacy of the updates of so many rounds, if there is any.

        That of a single message, which holds for all weights; or, where equal weights are summed
        out of sight, that of the sum without one curious client's own noise. Metrics and record
        counts are not covered.
        """
        if self.noise is None:
            return None
        hidden = self.protection.transport.server_reads != "messages"
        if hidden and self.weighting == "uniform":
            return dp_figure(
                self.noise,
                delta=self.delta,
                rounds=rounds,
                release="sum",
                clients=max(1, threshold - 1),
            )
        return dp_figure(self.noise, delta=self.delta, rounds=rounds)

    def allows(self, rounds: int, threshold: int) -> bool:
        """Whether so many rounds stay within the budget."""
        figure = self.figure(rounds, threshold)
        return figure is None or self.budget is None or figure.epsilon <= self.budget


def from_verdict(path: str | Path, local_training: LocalTraining, **settings: Any) -> Terms:
    """Terms with the protection that a verdict file chose for this very local training.

    What was measured holds for the updates that were attacked, so a federation that trains in
    another way is refused. Under FedSGD a node's one local step moves by lr · gradient, and the
    gradient was measured: the terms take lr out before they protect, and put it back.
    """
    try:
        verdict = json.loads(Path(path).read_text(encoding="utf-8"))
        version, text = verdict["schema_version"], verdict["protection"]
        measured = LocalTraining(**verdict["local_training"])
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is not a verdict ({error}); make one anew.") from None
    if version not in _VERDICT_VERSIONS:
        raise InvalidInput(
            f"{path} is a verdict of version {version!r}, and this release reads versions "
            f"{_VERDICT_VERSIONS[0]} to {_VERDICT_VERSIONS[-1]}; make it anew."
        )
    if measured != local_training:
        raise InvalidInput(
            f"{path} was measured for {measured}, but this federation runs {local_training}; "
            "measure again for what it runs."
        )
    if text is None:
        raise InvalidInput(f"{path} chose no protection: none kept its budget; tune anew.")
    if measured.algorithm == "fedsgd":
        settings.setdefault("learning_rate", measured.lr)
    return Terms.of(text, **settings)
