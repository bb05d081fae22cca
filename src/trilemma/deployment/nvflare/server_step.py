"""The server's side: the mean of what sites sent, and the step that was measured."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import TransferType

from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.deployment.nvflare.site_filters import require_plain
from trilemma.errors import InvalidInput
from trilemma.federation.deployment_terms import Deployment, ServerTraining

__all__ = ["VerdictStep", "verdict_recipe"]

_APPLIED = ("step", "decay")


class VerdictStep(ModelAggregator):  # type: ignore[misc]
    """w ← w - step_t · mean of the updates, sites counting alike, for NVFlare's FedAvg.

    Sites send -learning_rate times their update, a difference of weights like any other. The step
    falls linearly to zero over `rounds` with `decay`; of fewer than `least` sites the model stays
    as it was.
    """

    def __init__(
        self,
        step: float = 1.0,
        decay: bool = False,
        rounds: int = 1,
        learning_rate: float = 1.0,
        least: int = 1,
    ) -> None:
        super().__init__()
        self.step, self.decay, self.rounds = step, decay, rounds
        self.learning_rate, self.least = learning_rate, least
        self.reset_stats()

    @classmethod
    def of_verdict(cls, verdict: str | Path) -> VerdictStep:
        """The step that a verdict file was measured with."""
        terms = claimed_terms(verdict)
        require_plain(terms)
        deployment = terms.deployment
        if deployment is None or deployment.server is None:
            raise InvalidInput(f"{verdict} does not say how the server trains; tune again.")
        return cls(**step_of(deployment, terms.learning_rate))

    def reset_stats(self) -> None:
        self._sums: dict[str, np.ndarray] = {}
        self._count = 0

    def accept_model(self, model: FLModel) -> None:
        """Adds one site's difference."""
        if model.params_type != ParamsType.DIFF:
            raise InvalidInput(
                f"a site sent {model.params_type}, and protected sites send differences; set "
                "params_transfer_type=TransferType.DIFF."
            )
        sent = {name: np.asarray(array, np.float64) for name, array in model.params.items()}
        if self._count and _shapes(sent) != _shapes(self._sums):
            raise InvalidInput("sites sent differences of unlike models; let all train one model.")
        self._sums = {name: self._sums.get(name, 0.0) + array for name, array in sent.items()}
        self._count += 1

    def aggregate_model(self) -> FLModel:
        """What the model moves by in this round."""
        number = int(self.fl_ctx.get_prop(AppConstants.CURRENT_ROUND, 0))
        step = ServerTraining(self.step, self.decay).step_in(number, self.rounds)
        scale = step / self.learning_rate / max(1, self._count)
        if self._count < self.least:
            self.warning(
                f"{self._count} sites answered, fewer than {self.least}: the model stays as it was"
            )
            scale = 0.0
        moved = {name: np.asarray(scale * array, np.float32) for name, array in self._sums.items()}
        return FLModel(params=moved, params_type=ParamsType.DIFF)


def step_of(deployment: Deployment, learning_rate: float) -> dict[str, Any]:
    """The arguments of `VerdictStep` for a deployment; raises where it asks for more."""
    server = deployment.server
    assert server is not None
    for part in fields(server):
        if part.name not in _APPLIED and getattr(server, part.name) != part.default:
            raise InvalidInput(
                f"the server's {part.name} is {getattr(server, part.name)!r}, which is not there "
                "for NVFlare yet; deploy this verdict in Flower, or tune without it."
            )
    return {
        "step": server.step,
        "decay": server.decay,
        "rounds": deployment.rounds,
        "learning_rate": learning_rate,
        "least": deployment.threshold,
    }


def verdict_recipe(
    verdict: str | Path, *, name: str, model: Any, train_script: str, **settings: Any
) -> FedAvgRecipe:
    """NVFlare's own FedAvg recipe, with the clients, rounds and server step of a verdict file."""
    aggregator = VerdictStep.of_verdict(verdict)
    deployment = claimed_terms(verdict).deployment
    assert deployment is not None
    return FedAvgRecipe(
        name=name,
        model=model,
        train_script=train_script,
        min_clients=deployment.cohort,
        num_rounds=deployment.rounds,
        params_transfer_type=TransferType.DIFF,
        aggregator=aggregator,
        **settings,
    )


def _shapes(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
