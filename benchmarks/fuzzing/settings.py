"""trilemma.toml, and what Python code asks for by keyword: requests, problems, deployments."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from random import Random
from typing import Any

import typer
from pydantic import BaseModel

from benchmarks.fuzzing.hostile import JSONS, name, noise, number, spoilt_text
from benchmarks.fuzzing.judging import require
from trilemma.cli.configuration import read_settings
from trilemma.cli.main import app
from trilemma.deployment.nodes.round_events import Event
from trilemma.deployment.nodes.terms import Terms
from trilemma.federation.deployment_terms import Deployment
from trilemma.learning import LocalTraining
from trilemma.settings import Federated, Searched, command_line
from trilemma.tuning.problem import Problem
from trilemma.tuning.request import Request

__all__ = ["again", "budgets", "check_request", "settings"]

COMMANDS: Any = typer.main.get_command(app)
GOOD = {
    "budget": ("0.3", "0.05"), "knows": ('"rest"', '"the rest"', '"anyone"', '"nothing"'),
    "claim": ('"training"', '"one-round"'), "rounds": ("150", "1"), "candidates": ("2", "100"),
    "participation": ('"secret"', '"known"'), "attacks": ('["dlg"]', '"dlg, map"'),
    "families": ('["randomization", "secret-sharing"]', '"compression"'),
    "adversary": ('"server"', '"client"'),
    "confidence": ("0.95", "0.5"), "utility_weight": ("1.0", "[1.0, 2.0]", '"1,2"'),
    "efficiency_weight": ("0", "0.01"), "max_utility_loss": ("0.1", "-0.1"),
    "max_cost": ("2", "1.5"), "bandwidth": ("1e8", "1e-3"), "threshold": ("2", "7"),
    "helpers": ("0", "1"), "person": ("1", "3"), "restarts": ("1", "3"), "steps": ("0", "20"),
    "seeds": ("2", "5"), "strengths": ("0", "6"), "seed": ("0", "7"),
    "scenario": ('"digits"', '"my module:make"'), "data": ('"a folder"',), "clients": ("3", "1"),
    "batch": ("1", "4"), "alpha": ("0.5", "100"), "device": ('"cpu"',),
}  # fmt: skip
PROBLEM = ("budget", "utility_weight", "efficiency_weight", "max_utility_loss", "max_cost")
LOCAL = ("lr", "steps", "batch", "records", "record_clip", "algorithm", "sampling")
TERMS = (
    *("metric_range", "threshold", "min_cohort", "weighting", "delta", "budget", "metrics"),
    *("leakage_budget", "candidates", "learning_rate"),
)
SEARCHED = {"evaluations": ("32", "1"), "units": ("48",), "sampler": ('"grid"', '"motpe"')}


def settings(draw: Random, folder: Path) -> None:
    """What a file says is in its domain, and the command that repeats it gives it again."""
    path = folder / "trilemma.toml"
    path.write_bytes(_toml(draw).encode("utf-8", "surrogatepass"))
    models: tuple[type[BaseModel], ...] = (Federated, Request)
    if draw.random() < 0.3:
        models = (*models, Searched)
    *values, _ = read_settings(draw.choice((None, path)), {}, *models)
    check_request(values[1])
    again("pareto" if len(models) > 2 else "tune", tuple(values))


def again(command: str, values: tuple[Any, ...]) -> None:
    """The command that repeats values gives the same ones."""
    if command == "pareto":  # it has no flags for what a front is not asked
        return
    _, _, *words = shlex.split(command_line(command, *values))
    Path("trilemma.toml").unlink(missing_ok=True)
    context = COMMANDS.commands[command].make_context(command, list(words))
    require(context.params["settings"] is None, f"a file of settings in {words}")
    *found, _ = read_settings(None, context.params, *(type(value) for value in values))
    require(tuple(found) == values, f"the command that repeats gives other values: {words}")


def check_request(request: Request) -> None:
    """The domains, written down once more."""
    require(0 < request.budget < 1 and 0 < request.confidence < 1, "budget or confidence")
    require(0 < request.bandwidth < math.inf, f"a bandwidth of {request.bandwidth}")
    for weight in (request.utility_weight, request.efficiency_weight):
        for item in weight if isinstance(weight, tuple) else (weight,):
            require(0 <= item < math.inf, f"a weight of {item}")
    for cap in (request.max_utility_loss, request.max_cost):
        require(cap is None or math.isfinite(cap), f"a cap of {cap}")
    least = {
        "rounds": 1,
        "candidates": 2,
        "threshold": 1,
        "helpers": 0,
        "person": 1,
        "restarts": 1,
    }
    least |= {"steps": 0, "seeds": 2, "strengths": 0, "seed": 0}
    for key, low in least.items():
        value = getattr(request, key)
        require(value is None or low <= value < 2**63, f"{key} = {value!r:.60}")
    for text in (*(request.families or ()), *(request.attacks or ())):
        require(bool(text) and text == text.strip(), f"a name of {text!r:.60}")


def budgets(draw: Random, _: Path) -> None:
    """Values that Python code makes by keyword, of whatever type."""
    kind = draw.randrange(5)
    if kind == 0:
        check_request(Request(**_keywords(draw, tuple(Request.model_fields))))
    elif kind == 1:
        made = Problem(**_keywords(draw, PROBLEM))
        require(0 < made.budget < 1, f"a budget of {made.budget}")
    elif kind == 2:
        good: dict[str, Any] = {"parameters": 10, "clients": 3, "cohort": 3, "threshold": 2}
        asked = good | _keywords(draw, (*good, "rounds", "sampling_rate", "helpers", "weighting"))
        fixed = Deployment(LocalTraining(), **asked)
        require(1 <= fixed.threshold <= fixed.cohort <= fixed.clients, f"{fixed}")
        require(0 < fixed.sampling_rate <= 1 <= fixed.rounds, f"{fixed}")
    elif kind == 3:
        local = LocalTraining(**_keywords(draw, LOCAL))
        require(0 < local.lr < math.inf and local.steps >= 1 and local.unit_size >= 1, f"{local}")
    else:
        spec = "randomization:variance=1.0,clip=1.0+secret-sharing"
        terms = Terms.of(spec, **_keywords(draw, TERMS))
        require(0 < terms.delta < 1, f"a delta of {terms.delta}")
        require(terms.threshold is None or terms.threshold >= 1, f"{terms.threshold}")
        asked = _keywords(draw, ("noise_multiplier", "rounds", "q", "level"))
        event = Event(**{"noise_multiplier": 1.0} | asked)
        require(event.rounds >= 1 and 0 < event.q <= 1, f"{event}")


def _keywords(draw: Random, names: tuple[str, ...]) -> dict[str, Any]:
    chosen = draw.sample(names, draw.randint(1, min(3, len(names))))
    return {key: _value(draw) for key in chosen}


def _value(draw: Random) -> Any:
    kind = draw.random()
    if kind < 0.4:
        return draw.choice((0.1, 0.3, 1, 2, 3, 7, 1.0, 0.5))
    if kind < 0.6:
        return draw.choice((name(draw), number(draw)))
    return draw.choice(JSONS)


def _toml(draw: Random) -> str:
    kind = draw.random()
    if kind < 0.05:
        return noise(draw, draw.choice((0, 5, 200)))
    known = GOOD | (SEARCHED if draw.random() < 0.3 else {})
    lines = []
    for key in draw.sample(list(known), draw.randint(0, 5)):
        value = draw.choice(known[key]) if draw.random() < 0.6 else _hostile(draw)
        lines.append(f"{_key(draw) if draw.random() < 0.05 else key} = {value}")
    if draw.random() < 0.05:
        lines.insert(0, f"[{draw.choice(('budget', 'a.b', name(draw)))}]")
    text = "\n".join(lines) + "\n"
    return spoilt_text(draw, text) if kind < 0.2 else text


def _key(draw: Random) -> str:
    return draw.choice(("budgett", '"\\u001b[31m"', "'a\"b'", "a.b", "x" * 400, f'"{name(draw)}"'))


def _hostile(draw: Random) -> str:
    kind = draw.random()
    if kind < 0.3:
        return number(draw)
    if kind < 0.5:
        return f'"{number(draw)}"'
    if kind < 0.7:
        return f'"{name(draw)}"'
    depth = draw.choice((3, 40, 400, 20_000))
    return draw.choice(
        (
            *(
                "true",
                "false",
                "1979-05-27",
                "07:32:00",
                "[]",
                "{}",
                '""',
                "[1, 'a']",
                "'''a\nb'''",
            ),
            *(
                "[" * depth + "]" * depth,
                "{a=" * depth + "1" + "}" * depth,
                "+inf",
                "-nan",
                "+nan",
            ),
            *("0x" + "f" * 40, "0x" + "f" * 9000, "1e5", "-0.0", '"\\u001b[31mred"', '["a,b"]'),
            *('[" dlg "]', '[""]', "[nan, 1.0]", "[1e999]", '["1", "2"]', "[true]"),
        )
    )
