"""What the nodes and the server of a run agree on before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import torch

from trilemma.deployment.nodes.round_events import Event, epsilon_of, leakage_of
from trilemma.errors import InvalidInput, RangeExceeded
from trilemma.federation.deployment_terms import Deployment, Weighting
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.randomization import Randomization
from trilemma.quantities import between, one_of, positive, whole
from trilemma.updates import Layout

__all__ = ["Kind", "Terms"]

Kind = Literal["train", "evaluate"]


@dataclass(frozen=True)
class Terms:
    """A protection and what travels under it: the same for `protect_mod` and `ProtectedGrid`.

    `metrics` and `evaluate_metrics` name the numbers that clients report; they travel inside the
    transport as means over the clients, and count as the edge of ±`metric_range` beyond it.
    `queries` names the actions of query messages that the app may answer, unprotected. Arrays
    whose last name is one of `state` are no weights: in a transport with a range they may change
    by `state_range`, and weights by its clip_range. `threshold` is the fewest clients whose sum is
    released (None: two thirds plus one; one where the server reads every message anyway),
    `min_cohort` the fewest that a node lets itself be summed with. Weighting by
    records takes their number from `weighted_by` in a client's metrics. An update is the change
    of the weights, divided by `learning_rate`: under FedSGD that is the gradient, which noise,
    clip and range then refer to.

    A node's data are trained on within `budget`, the ε at `delta`, and `leakage_budget`, the
    largest leakage of a candidate set of `candidates` (None: of any size). `deployment` is what a
    claim was made for: the nodes keep to it, in its rounds too. With any of these nothing but the
    protected update leaves a node: metrics and queries are refused, and an evaluation runs for the
    node alone. `source` is the file of the verdict that they were read from.

    >>> Terms.of("secret-sharing:max_weight=2000", metrics=("train_loss",)).threshold_of(10)
    7
    """

    protection: Protection
    metrics: tuple[str, ...] = ()
    evaluate_metrics: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    metric_range: float = 100.0
    state: tuple[str, ...] = ("running_mean", "running_var")
    state_range: float = 100.0
    threshold: int | None = None
    min_cohort: int = 2
    weighting: Weighting = "records"
    weighted_by: str = "num-examples"
    delta: float = 1e-5
    budget: float | None = None
    leakage_budget: float | None = None
    candidates: int | None = None
    learning_rate: float = 1.0
    deployment: Deployment | None = None
    source: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.protection.cancels:
            raise InvalidInput(
                f"{self.protection.describe()} needs a secret that all clients share and is weak; "
                f"use secret-sharing without a bound."
            )
        positive("metric_range (largest metric)", self.metric_range)
        positive("state_range (largest change of state)", self.state_range)
        if not isinstance(self.state, tuple):
            raise InvalidInput(f"state must be a tuple of names of arrays, got {self.state!r}.")
        positive("learning_rate (of the local step)", self.learning_rate)
        one_of("weighting", self.weighting, ("equal", "records"))
        for name, least in (("min_cohort", 1), ("threshold", 1), ("candidates", 2)):
            value = getattr(self, name)
            if value is not None and whole(name, value) < least:
                raise InvalidInput(f"{name} must be at least {least}, got {value}.")
        if not positive("delta (at which ε is counted)", self.delta) < 1:
            raise InvalidInput(f"delta (at which ε is counted) must be below 1, got {self.delta}.")
        for names in (self.metrics, self.evaluate_metrics):
            if not isinstance(names, tuple) or self.weighted_by in names:
                raise InvalidInput(
                    f"metrics must be a tuple of names without {self.weighted_by!r}, which is "
                    f"carried anyway, got {names!r}."
                )
        if not isinstance(self.queries, tuple):
            raise InvalidInput(
                f"queries must be a tuple of names of actions, got {self.queries!r}."
            )
        if self.limited and (names := self.released):
            raise InvalidInput(
                f"a deployment or a budget covers nothing but the protected update, and {names} "
                "would leave a node as they are; evaluate the model on the server."
            )
        if self.deployment is not None:
            self._check_deployment(self.deployment)
        self._check_budgets()

    def _check_deployment(self, deployment: Deployment) -> None:
        if self.blind and deployment.server is not None and not deployment.server.steps_alone:
            raise InvalidInput(
                "this deployment's server has momentum, an average, public records or centred "
                "layers, and under blind Paillier there is no server that reads a model; use "
                "mode=open."
            )
        for name, measured in _settings_of(deployment).items():
            own = getattr(self, name)
            if own != measured and not (name == "min_cohort" and own > measured):
                raise InvalidInput(
                    f"{name} is {own!r} here, but these terms are for what was measured with "
                    f"{measured!r}; leave it as measured, or measure again."
                )
        if self.by_record and self.weighting != "equal":
            raise InvalidInput(
                f"single records are protected under equal weights only, got weighting="
                f"{self.weighting!r}; measure again with equal weights."
            )

    def _check_budgets(self) -> None:
        if self.budget is not None:
            positive("budget (ε at which training stops)", self.budget)
        if self.leakage_budget is not None:
            between("budget (largest tolerated leakage, normalised)", self.leakage_budget)
        if (self.budget, self.leakage_budget) == (None, None):
            return
        if self.event(self.min_cohort).noise_multiplier == 0:
            raise InvalidInput(
                f"a budget needs noise with a clip, as nothing else has an ε, got "
                f"{self.protection.describe()}; use randomization:variance=...,clip=... ."
            )

    @classmethod
    def of(cls, terms: Terms | Protection | str, **settings: Any) -> Terms:
        """Terms from a protection or its text; terms as they are, but for `settings`."""
        if isinstance(terms, str):
            terms = parse_protection(terms)
        if isinstance(terms, Protection):
            return cls(terms, **settings)
        return replace(terms, **settings)

    @classmethod
    def deployed(
        cls, protection: Protection | str, deployment: Deployment, **settings: Any
    ) -> Terms:
        """Terms of a protection that was measured for this deployment.

        Under FedSGD a node's one local step moves by lr · gradient, and the gradient was
        measured: the terms take lr out before they protect, and put it back.
        """
        return cls.of(protection, deployment=deployment, **_settings_of(deployment) | settings)

    @property
    def by_record(self) -> bool:
        """Whether updates must be made by `local_update`, record by record, and nothing else."""
        return self.deployment is not None and self.deployment.local_training.by_record

    @property
    def limited(self) -> bool:
        """Whether a node must know what its data took part in before."""
        limits = (self.deployment, self.budget, self.leakage_budget)
        return any(limit is not None for limit in limits)

    @property
    def released(self) -> tuple[str, ...]:
        """What leaves a node beside its update, as it is: metrics and answers to queries."""
        return self.metrics + self.evaluate_metrics + self.queries

    @property
    def preparations(self) -> int:
        """Exchanges before the one that carries updates: keys and shares, or none."""
        return self.protection.transport.preparations

    @property
    def blind(self) -> bool:
        """Whether the server reads nothing, so that the model lives with the clients."""
        return self.protection.transport.server_reads == "nothing"

    def server_step(self, round: int) -> float:
        """What a node moves a model that it alone reads by, in a round, over the mean update."""
        deployment = self.deployment
        if deployment is None or deployment.server is None:
            return self.learning_rate
        return deployment.server.step_in(round, deployment.rounds)

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

    def units(self, layout: Layout) -> torch.Tensor | float:
        """What one unit of each coordinate [m] of a sent update stands for, or of all of them.

        State such as BatchNorm's is divided by state_range / clip_range before anything protects
        it, and multiplied when it comes back: one grid, clip and noise serve both. Under a
        deployment it was measured as any other coordinates, and is sent so.

        >>> layout = Layout(("weight", "norm.running_var"), ((2,), (1,)))
        >>> Terms.of("secret-sharing:clip_range=4.0", state_range=100.0).units(layout)
        tensor([ 1.,  1., 25.])
        """
        fixed = self.protection.transport.fixed
        held = [name.rpartition(".")[2] in self.state for name in layout.names]
        if fixed is None or self.deployment is not None or not any(held):
            return 1.0
        one = [self.state_range / fixed.clip if item else 1.0 for item in held]
        return torch.repeat_interleave(torch.tensor(one), torch.tensor(layout.sizes))

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
        self.require_room(clients)
        self.protection.transport.check_threshold(self.threshold_of(clients), clients)

    def require_room(self, clients: int) -> None:
        """Raises where the transport cannot carry the weights of so many clients."""
        fixed = self.protection.transport.fixed
        if fixed is not None and clients > fixed.max_weight:
            raise RangeExceeded(
                f"{clients} clients weigh at least one each, and max_weight = {fixed.max_weight} "
                "caps the sum of all weights; raise it."
            )

    def describe(self) -> str:
        """What both sides must have in common, as text; the threshold is bound by the protocol."""
        return "; ".join(
            (
                self.protection.describe(),
                f"metrics {self.metrics} {self.evaluate_metrics} in ±{self.metric_range:g}",
                f"state {self.state} in ±{self.state_range:g}",
                f"{self.weighting} by {self.weighted_by}",
                f"changes over {self.learning_rate!r}",
                f"for {self.deployment}" if self.deployment else "for any deployment",
            )
        )

    def event(self, clients: int) -> Event:
        """One round of training with so many clients, as its ledger counts it.

        z = s √h / Δ: noise of deviation s from h honest clients (one, unless equal weights are
        summed out of sight: then those that the transport is sure of), against the influence Δ of
        a client or record. A client moves an update clipped to C by C, a record by C_r / S where
        its gradient is clipped, and by 2C otherwise; the rounds' smaller ε counts. Noise that
        does not come first, or has no clip, proves nothing, nor does any beside what is released
        as it is: z = 0.
        """
        noise = next(iter(self.protection.transforms), None)
        if not isinstance(noise, Randomization) or self.released:
            return Event(0.0)
        helpers = 1 if self.deployment is None else self.deployment.helpers
        transport, threshold = self.protection.transport, self.threshold_of(clients)
        honest = transport.honest(clients, threshold, helpers) if self.weighting == "equal" else 1
        deviation = noise.scale * math.sqrt(max(1, honest))
        options = []
        if noise.clip is not None:
            options.append(Event(deviation / noise.clip))
        if self.deployment is not None and self.by_record:
            options += _record_events(self.deployment, deviation, noise.clip)
        if len(options) < 2 or self.deployment is None:
            return next(iter(options), Event(0.0))
        return _cheapest(tuple(options), self.deployment.rounds, self.delta)

    def refusal(self, events: Sequence[Event]) -> str | None:
        """Why data that took part in these events, the last one still to come, must not go on."""
        if self.deployment is not None:
            count = sum(event.rounds for event in events)
            if count > self.deployment.rounds:
                return (
                    f"the data took part in {count - 1} rounds, and the claim is for "
                    f"{self.deployment.rounds}; train on other data, or measure for more rounds."
                )
            kinds = {replace(event, rounds=1) for event in events}
            if len(kinds) > 1 and (self.budget, self.leakage_budget) == (None, None):
                return (
                    "the data took part in rounds under other noise, which the claim does not "
                    "count; set a budget, which adds up all of them, or train on other data."
                )
        if self.budget is not None:
            spent = epsilon_of(events, self.delta)
            if spent > self.budget:
                return (
                    f"another round would bring the data to ε = {spent:.4g} at δ = "
                    f"{self.delta:g}, over the budget of {self.budget:g}; train on other data."
                )
        if self.leakage_budget is not None:
            leaked = leakage_of(events, self.candidates)
            if leaked > self.leakage_budget:
                return (
                    f"another round would bring the data to a leakage of {leaked:.4g}, "
                    f"over the budget of {self.leakage_budget:g}; train on other data."
                )
        return None


def _settings_of(deployment: Deployment) -> dict[str, Any]:
    training = deployment.local_training
    return {
        "threshold": deployment.threshold,
        "min_cohort": deployment.cohort,
        "weighting": deployment.weighting,
        "learning_rate": training.lr if training.algorithm == "fedsgd" else 1.0,
    }


@lru_cache(maxsize=16)
def _cheapest(options: tuple[Event, ...], rounds: int, delta: float) -> Event:
    return min(options, key=lambda event: epsilon_of([replace(event, rounds=rounds)], delta))


def _record_events(deployment: Deployment, deviation: float, clip: float | None) -> list[Event]:
    """How one record is hidden, if its influence on an update is bounded."""
    training, q = deployment.local_training, deployment.sampling_rate
    influence = math.inf if clip is None else 2 * clip
    if training.record_clip is not None and training.steps == 1:
        step = 1.0 if training.algorithm == "fedsgd" else training.lr
        influence = min(influence, step * training.record_clip / training.batch)
    if training.sampling == "poisson" and q < 1:
        q = -math.expm1(training.steps * math.log1p(-q))  # the record is in one step at least
    if influence == math.inf:
        return []
    return [Event(deviation / influence, 1, q, deployment.participation, "record")]
