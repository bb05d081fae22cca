"""`trilemma solve`: the paper's closed forms from C₁, C₂ and a budget."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trilemma.errors import InvalidInput
from trilemma.paper import solving
from trilemma.paper.bounds import Constants
from trilemma.paper.mechanisms import MECHANISMS
from trilemma.paper.mechanisms import mechanism as mechanism_of
from trilemma.paper.mechanisms.base import ParameterValue
from trilemma.paper.profile import Profile
from trilemma.paper.solving import Solution, finite_or_none
from trilemma.quantities import counted, finite
from trilemma.tuning.problem import (
    DEFAULT_EFFICIENCY_WEIGHT,
    DEFAULT_UTILITY_WEIGHT,
    Problem,
)

__all__ = ["solve"]


def solve(
    c1: Annotated[float, typer.Option(help="C1, normalised leakage of unprotected updates.")],
    c2: Annotated[float, typer.Option(help="C2, how fast belief follows the parameters.")],
    budget: Annotated[float, typer.Option(help="Largest tolerated leakage, between 0 and 1.")],
    mechanism: Annotated[
        str, typer.Option(help=f"One of {', '.join(MECHANISMS)}, or all.")
    ] = "all",
    parameters: Annotated[
        int | None, typer.Option(help="m, the number of model parameters.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Half-width of a coordinate (paillier, secret-sharing).")
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Standard deviation of a coordinate (randomization).")
    ] = None,
    sigma_file: Annotated[
        Path | None, typer.Option(help="A .npy vector with one standard deviation a coordinate.")
    ] = None,
    form: Annotated[
        Literal["corrected", "printed", "tight"],
        typer.Option(help="printed: the paper's letter; corrected: its intent; tight: better TV."),
    ] = "corrected",
    utility_weight: Annotated[float, typer.Option(help="η_u.")] = DEFAULT_UTILITY_WEIGHT,
    efficiency_weight: Annotated[float, typer.Option(help="η_e.")] = DEFAULT_EFFICIENCY_WEIGHT,
    c4: Annotated[float, typer.Option(help="Largest utility.")] = 1.0,
    c5: Annotated[float, typer.Option(help="Largest cost.")] = 1.0,
    clients: Annotated[int, typer.Option(help="K, the number of clients.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The paper's optimal parameters, and what they are worth.

    Example: trilemma solve --c1 0.9 --c2 100 --budget 0.3 --parameters 2410 --delta 0.5 --sigma 1
    """
    constants = Constants(c1, c2)
    problem = Problem(budget, utility_weight, efficiency_weight)
    laws = list(MECHANISMS.values()) if mechanism == "all" else [mechanism_of(mechanism)]
    for name, value in (("c4", c4), ("c5", c5)):
        if finite(name, value) < 0:
            raise InvalidInput(f"{name} must be finite and not negative, got {value}.")
    counted("clients", clients)
    profile = _profile(parameters, delta, sigma, sigma_file)
    if profile.floored:
        print(
            f"trilemma: {profile.floored} of {profile.parameters} sigmas are zero and were "
            f"floored at the smallest positive one.",
            file=sys.stderr,
        )
    solutions = [
        solving.solve(
            each, constants, problem, [profile], form=form, c4=c4, c5=c5, clients=clients
        )
        for each in laws
    ]
    if as_json:
        document = {
            "budget": budget,
            "c1": c1,
            "c2": c2,
            "results": [_result(solution) for solution in solutions],
        }
        print(json.dumps(document, allow_nan=False, indent=2))
    else:
        from trilemma.reporting.words.solutions import show  # rich is not needed for --json

        show(constants, problem, solutions)


def _profile(
    parameters: int | None, delta: float | None, sigma: float | None, sigma_file: Path | None
) -> Profile:
    if sigma is not None and sigma_file is not None:
        raise InvalidInput(
            f"give either --sigma or --sigma-file, not both (got {sigma:g} and {sigma_file})."
        )
    if sigma_file is None:
        if parameters is None:
            raise InvalidInput("give --parameters, the number of parameters of the model.")
        return Profile(parameters, delta, sigma)
    profile = Profile.from_sigmas(_read_sigmas(sigma_file), delta=delta)
    if parameters is not None and parameters != profile.parameters:
        raise InvalidInput(
            f"--sigma-file {sigma_file} has {profile.parameters} entries, but --parameters is "
            f"{parameters}; leave --parameters out, or give the matching file."
        )
    return profile


def _read_sigmas(path: Path) -> Any:
    import numpy as np

    try:
        values = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InvalidInput(f"--sigma-file {path} does not exist.") from None
    except (OSError, ValueError, EOFError) as error:
        raise InvalidInput(
            f"--sigma-file {path} is not a readable .npy file of numbers ({error}); "
            f"write it with numpy.save."
        ) from None
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        raise InvalidInput(
            f"--sigma-file {path} must hold one vector of real numbers, got "
            f"{getattr(values, 'dtype', type(values).__name__)}."
        )
    return values


def _result(solution: Solution) -> dict[str, Any]:
    value = solution.value or ParameterValue(math.nan, math.nan, math.nan)
    return {
        "mechanism": solution.mechanism,
        "parameter": {
            "symbol": solution.parameter.symbol,
            "value": finite_or_none(value.value),
            "log_value": finite_or_none(value.log_value),
            "strength": finite_or_none(value.strength),
        },
        "form": solution.form,
        "feasible": solution.feasible,
        "reason": solution.reason,
        "distortion": solution.distortion,
        "surrogate_leakage": solution.surrogate_leakage,
        "regime": solution.regime,
        "proved": solution.proved,
        "utility_bound": solution.utility_bound,
        "efficiency_bound": solution.efficiency_bound,
        "objective": solution.objective,
    }
