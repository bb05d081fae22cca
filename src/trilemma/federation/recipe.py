"""A recipe: everything about a training but its data, its model and its protection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment, ServerTraining
from trilemma.federation.server_parts import Origin, PublicRecords, WarmStart, check_share
from trilemma.learning import LocalTraining
from trilemma.quantities import counted, positive

__all__ = ["Judge", "Recipe"]

Judge = Literal["test", "choosing", "reporting"]


@dataclass(frozen=True)
class Recipe:
    """How a federation trains, on both sides, and the records that judge it.

    A round moves the weights by v ← momentum · v + u, w ← w - step_t · v, with u the mean of the
    clients' updates, or (1 - a) · mean + a · ∇ with `public_weight` a and ∇ the mean gradient of
    the public records, clipped one by one as the clients' are. step_t is `server_lr` (None: the
    local rate for FedSGD, 1 for FedAvg), or falls linearly from it to zero with `server_decay`.
    With `averaging` d the trained model is w̄ ← d · w̄ + (1 - d) · w. `centring` says where affine
    layers have their origin: in the mean of what they read of the public records, or of a record
    whose entries all are one number (None: in zero), or layer by layer, as
    `game/recipe_scenarios.py` settles it.

    `rounds` None is as many as the federation has. Clients count alike with `equal_weights`, else
    by their records. `threshold` is that of the rounds (None: two thirds of the clients, plus
    one). `judge` is the test set, or one of two disjoint sets: one on which settings are chosen,
    and one that took no part in the choice (`game/recipe_scenarios.py`).
    """

    local_training: LocalTraining
    server_lr: float | None = None
    server_decay: bool = False
    equal_weights: bool = False
    judge: Judge = "test"
    threshold: int | None = None
    rounds: int | None = None
    momentum: float = 0.0
    averaging: float = 0.0
    warm_start: WarmStart | None = None
    public_weight: float = 0.0
    centring: Literal["public"] | float | tuple[Origin, ...] | None = None

    def __post_init__(self) -> None:
        if self.server_lr is not None:
            object.__setattr__(self, "server_lr", positive("server_lr", self.server_lr))
        if self.rounds is not None:
            object.__setattr__(self, "rounds", counted("rounds", self.rounds))
        for name in ("momentum", "averaging", "public_weight"):
            check_share(name, getattr(self, name))
        if self.public_weight and self.local_training.algorithm != "fedsgd":
            raise InvalidInput(
                f"public_weight={self.public_weight:g} mixes gradients, but fedavg sends changes "
                "of weights; use algorithm='fedsgd', or leave it out."
            )
        if isinstance(self.centring, str) and self.centring != "public":
            raise InvalidInput(
                f"centring must be 'public', a number or None, got {self.centring!r}."
            )
        if self.centring is not None and self.local_training.algorithm != "fedsgd":
            raise InvalidInput(
                "centring is for gradients, and fedavg sends changes of weights; use "
                "algorithm='fedsgd', or leave it out."
            )

    @property
    def step(self) -> float:
        """The server's first step."""
        if self.server_lr is not None:
            return self.server_lr
        return self.local_training.lr if self.local_training.algorithm == "fedsgd" else 1.0

    @property
    def needs_public(self) -> bool:
        """Whether the server trains on public records besides."""
        return bool(self.warm_start or self.public_weight or self.centring == "public")

    def server(self, public: PublicRecords | None = None) -> ServerTraining:
        """The server's side, as a deployment has it; `centring` must be layer by layer by then."""
        if self.centring is not None and not isinstance(self.centring, tuple):
            raise InvalidInput(
                f"centring={self.centring!r} does not say the origin of a layer; take "
                "game.recipe_scenarios.settled(recipe, scenario)."
            )
        needed = self.warm_start is not None or self.public_weight > 0
        return ServerTraining(
            self.step,
            self.server_decay,
            self.momentum,
            self.averaging,
            self.warm_start,
            self.public_weight,
            public if needed else None,
            self.centring or (),
        )

    @classmethod
    def of(cls, deployment: Deployment) -> Recipe:
        """How a federation trains that keeps to a deployment."""
        server = deployment.server or ServerTraining(1.0)
        return cls(
            deployment.local_training,
            server.step,
            server.decay,
            equal_weights=deployment.weighting == "equal",
            threshold=deployment.threshold,
            rounds=deployment.rounds,
            momentum=server.momentum,
            averaging=server.averaging,
            warm_start=server.warm_start,
            public_weight=server.public_weight,
            centring=server.centring or None,
        )

    def describe(self) -> str:
        """Everything that tells this recipe from others, as text."""
        return repr(self)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Recipe:
        """What `as_json` gave."""
        warm, centring = document["warm_start"], document["centring"]
        parts = {
            "local_training": LocalTraining(**document["local_training"]),
            "warm_start": None if warm is None else WarmStart(**warm),
            "centring": tuple(Origin(**item) for item in centring)
            if isinstance(centring, list | tuple)
            else centring,
        }
        return cls(**{**document, **parts})
