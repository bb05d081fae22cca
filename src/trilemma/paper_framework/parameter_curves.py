"""A mechanism against its parameter: what the paper says of it, and what is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trilemma.errors import InvalidInput
from trilemma.paper_framework.mechanisms.base import Strength, mean_distortion
from trilemma.paper_framework.paper_result import Curve, Measured, Modelled
from trilemma.protection.protection import Protection
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression
from trilemma.protection.transforms.randomization import Randomization

if TYPE_CHECKING:
    from trilemma.game.scenario import Scenario
    from trilemma.paper_framework.measured_effects import JobRunner
    from trilemma.paper_framework.mechanisms.base import MechanismModel, ParameterValue
    from trilemma.paper_framework.profile import Profile
    from trilemma.paper_framework.surrogate_bounds import Constants

__all__ = ["curve", "on_axis", "runnable"]

_UNITS: Final = 20  # updates attacked at a point
_POINTS: Final = 6
_MODELLED: Final = 80
_AXES: Final = {
    "randomization": "σ_ε², variance of the noise",
    "paillier": "n, modulus of the ciphertexts",
    "secret-sharing": "r, bound of the mask",
    "compression": "1 - ρ, share dropped",
}


def on_axis(value: ParameterValue) -> float:
    """γ as the axis of its mechanism has it: 1 - ρ for compression, which stays exact."""
    return value.value if value.strength is None else value.strength


def runnable(model: MechanismModel, gamma: float) -> tuple[Protection | None, str]:
    """The mechanism at γ as a protection to be attacked, and what to know of it, or why not."""
    try:
        if model.name == "randomization":
            return Protection((Randomization(gamma),)), ""
        if model.name == "compression":
            return Protection((Compression.dropping(gamma),)), ""
        if model.name == "secret-sharing":
            return Protection((BoundedMask(gamma),)), BoundedMask.caveat
    except InvalidInput:
        return None, "γ* is no protection at all."
    return None, "No key has a modulus near √(2δ): γ* encrypts nothing, and cannot be run."


def curve(
    job_runner: JobRunner,
    model: MechanismModel,
    constants: Constants,
    profiles: Sequence[Profile],
    optima: Sequence[float | None],
) -> Curve:
    """The metric and the bounds from below γ* on, and what is measured where attacks fail."""
    measured: list[Measured] = []
    for gamma in _places(model, job_runner.scenario, profiles):
        protection, _ = runnable(model, gamma)
        if protection is not None:
            measured.append(job_runner.measure(protection, gamma, _UNITS))
    named = [gamma for gamma in (*optima, *(item.gamma for item in measured)) if gamma]
    gammas = np.geomspace(min(named) / 10, max(named) * 10, _MODELLED) if named else np.empty(0)
    gammas = np.unique(np.concatenate([gammas, named]))
    if model.name == "compression":
        gammas = gammas[gammas < 1]
    anchor = min(model.anchor(profile) for profile in profiles)
    return Curve(
        model.name,
        _AXES[model.name],
        tuple(_modelled(model, gamma, anchor, constants, profiles) for gamma in gammas.tolist()),
        tuple(measured),
    )


def _places(model: MechanismModel, scenario: Scenario, profiles: Sequence[Profile]) -> list[float]:
    """Values of γ around those at which an attack is expected to start to fail.

    Noise hides an update of variance σ² from about σ² on, and masks from √3 σ. Of an update that
    is thinned out, fewer coordinates than unknowns leave the attack without a solution.
    """
    variance = float(np.mean([np.square(profile.require_sigma()).mean() for profile in profiles]))
    if model.name == "randomization":
        return _spaced(variance / 100, 10 * variance)
    if model.name == "secret-sharing":
        scale = math.sqrt(3 * variance)
        return _spaced(scale / 10, 10 * scale)
    if model.name == "compression":
        record = scenario.input_spec.size + max(0, (scenario.classes or 2) - 1)
        wall = record * scenario.local_training.unit_size / scenario.task.layout.size
        return [1 - kept for kept in _spaced(0.9, min(0.5, wall / 2))]
    return []


def _spaced(first: float, last: float) -> list[float]:
    return [float(value) for value in np.geomspace(first, last, _POINTS)]


def _log_dose(model: MechanismModel, gamma: float, anchor: float) -> float:
    if model.name == "randomization":
        dose = gamma
    elif model.name == "compression":
        dose = -math.log1p(-gamma)
    else:
        dose = math.log(gamma) - anchor
    return math.log(dose) if dose > 0 else -math.inf


def _modelled(
    model: MechanismModel,
    gamma: float,
    anchor: float,
    constants: Constants,
    profiles: Sequence[Profile],
) -> Modelled:
    """The paper's figures at γ, in the corrected form."""
    strength, clients = Strength(_log_dose(model, gamma, anchor), anchor), len(profiles)
    distortion = mean_distortion(model, strength, profiles)
    utility = (
        model.utility_bound(strength, profile, 1.0, "corrected", clients) for profile in profiles
    )
    cost = (
        model.efficiency_bound(strength, profile, 1.0, "corrected", clients)
        for profile in profiles
    )
    return Modelled(
        gamma=gamma,
        distortion=distortion,
        metric=constants.surrogate_leakage(distortion),
        leakage_bound=constants.printed_bound(distortion),
        utility_bound=math.fsum(utility) / clients,
        efficiency_bound=math.fsum(cost) / clients,
    )
