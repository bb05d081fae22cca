"""What was asked and what was tuned, as rows of a table."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from trilemma.federation.deployment_terms import ServerTraining
from trilemma.reporting.words.numbers import count, number

if TYPE_CHECKING:
    from trilemma.federation.deployment_terms import Deployment
    from trilemma.game.playing.claims import Claim
    from trilemma.tuning.request import Request
    from trilemma.tuning.results.pareto_front import Front
    from trilemma.tuning.results.verdict import Federation, Verdict

__all__ = ["deployment_rows", "federation_rows", "request_rows", "verdict_rows"]


def request_rows(
    request: Request, claim: Claim, **resolved: Any
) -> tuple[tuple[str, str, str], ...]:
    """(setting, value, meaning) of every field; `resolved` says what a default became."""
    found = {"candidates": claim.candidates, "participation": claim.participation, **resolved}
    rows = []
    for name, field in type(request).model_fields.items():
        value = getattr(request, name)
        text = _text(value)
        if value is None:
            text = f"{_text(found[name])} (by default)" if name in found else "not set"
        rows.append((name.replace("_", " "), text, field.description or ""))
    return tuple(rows)


def verdict_rows(verdict: Verdict) -> tuple[tuple[str, str, str], ...]:
    """The request of a verdict, with what its defaults became."""
    run = verdict.deployment
    return request_rows(
        *(verdict.request, verdict.claim),
        rounds=run.rounds,
        threshold=run.threshold,
        families=tuple(candidate.name for candidate in verdict.candidates),
        attacks=tuple(attack.name for attack in verdict.attacks),
    )


def federation_rows(result: Verdict | Front) -> tuple[tuple[str, str], ...]:
    """(what, how) of the federation that was tuned, the data and the code."""
    there = result.federation
    return (
        (
            "federation",
            (
                f"{there.scenario}: {count(there.clients, 'client')}, "
                f"{count(there.records, 'record')}, {count(there.parameters, 'parameter')}"
            ),
        ),
        ("an update", f"uses {count(there.records_per_update, 'record')}"),
        ("public records", _public(there)),
        ("versions", ", ".join(f"{name} {value}" for name, value in result.versions.items())),
        ("data hash", f"{there.data_hash} (keyed; the key is in the run folder)"),
    )


def deployment_rows(deployment: Deployment) -> tuple[tuple[str, str], ...]:
    """(what, how) of all that a deployment must keep for the claim to hold."""
    training = deployment.local_training
    rows = [
        (field.name, getattr(where, field.name))
        for where in (training, deployment)
        for field in fields(where)
        if field.name != "local_training"
    ]
    return tuple(
        (name.replace("_", " "), _text(value)) for name, value in rows if value is not None
    )


def _server(server: ServerTraining) -> str:
    falls = ", falling to zero over the rounds" if server.decay else ""
    parts = [f"each step is {number(server.step)} × the mean update{falls}"]
    if server.momentum:
        parts.append(f"momentum {number(server.momentum)}")
    if server.averaging:
        parts.append(f"the model is averaged by {number(server.averaging)}")
    if server.warm_start is not None:
        parts.append(f"{count(server.warm_start.steps, 'step')} on public records come first")
    if server.public_weight:
        parts.append(f"public records make {number(server.public_weight)} of each step")
    if server.public is not None:
        named = f"(keyed hash {server.public.digest[:16]})"
        parts.append(f"{count(server.public.number, 'public record')} {named}")
    if server.centring:
        parts.append(f"{count(len(server.centring), 'layer')} centred")
    return "; ".join(parts)


def _public(there: Federation) -> str:
    if there.public_is_test:
        return f"{there.public_records:,}, the test records, as the scenario gives none"
    return f"{there.public_records:,} of the scenario"


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, float):
        return number(value)
    if isinstance(value, ServerTraining):
        return _server(value)
    return str(value)
