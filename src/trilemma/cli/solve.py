"""`trilemma solve`: the paper's closed forms from C₁, C₂ and a budget (Table 1)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trilemma.cli.common_options import JsonOption, print_json
from trilemma.errors import InvalidInput
from trilemma.paper_framework import mechanisms
from trilemma.paper_framework.mechanisms import MECHANISMS
from trilemma.paper_framework.profile import Profile
from trilemma.paper_framework.profile_files import ProfileFile
from trilemma.paper_framework.solving import solve as solved
from trilemma.paper_framework.surrogate_bounds import Constants
from trilemma.quantities import counted, finite
from trilemma.tuning.problem import (
    DEFAULT_EFFICIENCY_WEIGHT,
    DEFAULT_UTILITY_WEIGHT,
    Problem,
)

__all__ = ["solve"]

_MOST_CLIENTS = 1_000_000


def solve(
    budget: Annotated[float, typer.Option(help="Largest tolerated leakage, between 0 and 1.")],
    c1: Annotated[
        float | None, typer.Option(help="C1, normalised leakage of unprotected updates.")
    ] = None,
    c2: Annotated[
        float | None, typer.Option(help="C2, how fast belief follows the parameters.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="C1, C2 and profiles from trilemma estimate --profile.")
    ] = None,
    mechanism: Annotated[str, typer.Option(help=f"One of {', '.join(MECHANISMS)}; all.")] = "all",
    parameters: Annotated[
        int | None, typer.Option(help="m, the number of model parameters.")
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            help="Half-width of a coordinate (paillier, secret-sharing), or one a client."
        ),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(help="Standard deviation of a coordinate (randomization), or one a client."),
    ] = None,
    sigma_file: Annotated[
        Path | None, typer.Option(help="A .npy vector with one standard deviation a coordinate.")
    ] = None,
    form: Annotated[
        Literal["corrected", "printed", "tight"],
        typer.Option(help="printed: the paper's letter; corrected: its intent; tight: better TV."),
    ] = "corrected",
    utility_weight: Annotated[str, typer.Option(help="η_u, or one a client, by commas.")] = str(
        DEFAULT_UTILITY_WEIGHT
    ),
    efficiency_weight: Annotated[str, typer.Option(help="η_e, or one a client, by commas.")] = str(
        DEFAULT_EFFICIENCY_WEIGHT
    ),
    max_utility_loss: Annotated[
        float | None, typer.Option(help="Cap on the bound of the utility loss (equation 8).")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(help="Cap on the bound of the efficiency reduction.")
    ] = None,
    c4: Annotated[float, typer.Option(help="Largest utility.")] = 1.0,
    c5: Annotated[float, typer.Option(help="Largest cost.")] = 1.0,
    clients: Annotated[int | None, typer.Option(help="K, the number of clients [1].")] = None,
    as_json: JsonOption = False,
) -> None:
    """The paper's optimal parameters, and what they are worth.

    Examples: trilemma solve --c1 0.9 --c2 100 --budget 0.3 --parameters 2410 --delta 0.5
    --sigma 1; trilemma solve --budget 0.3 --profile digits.npz
    """
    described = (parameters, delta, sigma, sigma_file, clients)
    if profile is not None:
        if any(item is not None for item in (*described, c1, c2)):
            raise InvalidInput(
                f"--profile {profile} holds C1, C2, m, delta, sigmas and the clients; leave out "
                f"the flags that say the same."
            )
        read = ProfileFile.load(profile)
        constants, profiles = read.constants, read.profiles
    else:
        constants = Constants(_given("--c1", c1), _given("--c2", c2))
        profiles = _profiles(*described)
    problem = Problem(
        budget,
        _weights("--utility-weight", utility_weight),
        _weights("--efficiency-weight", efficiency_weight),
        max_utility_loss,
        max_cost,
    )
    for name, value in (("c4", c4), ("c5", c5)):
        if finite(name, value) < 0:
            raise InvalidInput(f"{name} must be finite and not negative, got {value}.")
    names = list(MECHANISMS) if mechanism == "all" else [mechanism]
    if floored := max(item.floored for item in profiles):
        most = "" if len(profiles) == 1 else "up to "
        print(
            f"trilemma: {most}{floored} of {profiles[0].parameters} sigmas are zero and were "
            f"floored at the smallest positive one.",
            file=sys.stderr,
        )
    solutions = [
        solved(mechanisms.mechanism(name), constants, problem, profiles, form=form, c4=c4, c5=c5)
        for name in names
    ]
    if as_json:
        document = {
            "budget": budget,
            "c1": constants.c1,
            "c2": constants.c2,
            "clients": len(profiles),
            "results": [asdict(solution.optimum) for solution in solutions],
        }
        print_json(document)
    else:
        from trilemma.reporting.words.solution_tables import show  # rich is not needed for --json

        show(constants, problem, solutions)


def _given(flag: str, value: float | None) -> float:
    if value is None:
        raise InvalidInput(f"give {flag}, or --profile with what trilemma estimate measured.")
    return value


def _weights(flag: str, text: str) -> float | tuple[float, ...]:
    values = tuple(value for value in _numbers(flag, text) if value is not None)
    return values[0] if len(values) == 1 else values


def _numbers(flag: str, text: str | None) -> tuple[float | None, ...]:
    if text is None:
        return (None,)
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(
            f"{flag} must be a number, or one a client joined by commas, got {text!r:.80}."
        ) from None


def _profiles(
    parameters: int | None,
    delta: str | None,
    sigma: str | None,
    sigma_file: Path | None,
    clients: int | None,
) -> Sequence[Profile]:
    """One profile a client: what is given once holds for all of them."""
    if sigma is not None and sigma_file is not None:
        raise InvalidInput(
            f"give either --sigma or --sigma-file, not both (got {sigma} and {sigma_file})."
        )
    deltas = _numbers("--delta", delta)
    sigmas = _numbers("--sigma", sigma)
    several = {len(values) for values in (deltas, sigmas)} - {1}
    count = counted("clients", clients) if clients is not None else max({1} | several)
    if count > _MOST_CLIENTS:
        raise InvalidInput(f"clients must be at most {_MOST_CLIENTS}, got {count}.")
    if several - {count}:
        raise InvalidInput(
            f"--delta has {len(deltas)} and --sigma {len(sigmas)} entries for {count} clients; "
            f"give one a client, or one."
        )
    if sigma_file is not None:
        profiles = [_from_file(sigma_file, parameters, item) for item in deltas]
    elif parameters is None:
        raise InvalidInput("give --parameters, the number of parameters of the model.")
    else:
        width = max(len(deltas), len(sigmas))
        profiles = [
            Profile(parameters, deltas[k % len(deltas)], sigmas[k % len(sigmas)])
            for k in range(width)
        ]
    return profiles * (count // len(profiles))


def _from_file(path: Path, parameters: int | None, delta: float | None) -> Profile:
    profile = Profile.from_sigmas(_read_sigmas(path), delta=delta)
    if parameters is not None and parameters != profile.parameters:
        raise InvalidInput(
            f"--sigma-file {path} has {profile.parameters} entries, but --parameters is "
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
