"""From a verdict to the terms of a federation, if it runs what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trilemma.deployment.nodes.terms import Terms
from trilemma.errors import InvalidInput
from trilemma.execution.run_files import parse_json
from trilemma.federation.deployment_terms import Deployment

__all__ = ["from_verdict", "measured_deployment"]

_VERSION: Final = 4
_DEPLOYMENT: Final = TypeAdapter(Deployment)


def from_verdict(path: str | Path, deployment: Deployment, **settings: Any) -> Terms:
    """Terms with the protection that a verdict file chose for this very deployment.

    What was measured holds for the updates that were attacked, so a federation that differs in any
    field of its deployment is refused, with a sentence for each.
    """
    verdict, measured = _read(path)
    text = verdict["protection"]
    if text is None:
        raise InvalidInput(f"{path} chose no protection: none kept its budget; tune anew.")
    if not isinstance(text, str):
        raise InvalidInput(f"{path} is not a verdict: its protection is {text!r:.80}; tune anew.")
    if differences := measured.mismatches(deployment):
        raise InvalidInput(f"{path} does not fit this federation: {' '.join(differences)}")
    return Terms.deployed(text, measured, **settings)


def measured_deployment(path: str | Path) -> Deployment:
    """The deployment that a verdict file is about.

    A federation takes from it how its nodes and its server train, and states all else of its own:
    `replace(measured_deployment(path), parameters=..., clients=..., rounds=...)`.
    """
    return _read(path)[1]


def _read(path: str | Path) -> tuple[dict[str, Any], Deployment]:
    try:
        verdict = parse_json(Path(path).read_bytes())
        version, _ = verdict["schema_version"], verdict["protection"]
        if version == _VERSION:
            measured = _DEPLOYMENT.validate_json(json.dumps(verdict["deployment"]), strict=True)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"{path} is not a verdict ({reason}); make one anew.") from None
    if version != _VERSION:
        raise InvalidInput(
            f"{path} is a verdict of version {version!r}, which does not say what it was measured "
            f"for as version {_VERSION} does; run trilemma tune again."
        )
    if measured.server is None:
        raise InvalidInput(
            f"{path} does not say how the server trained when it was measured; run trilemma tune "
            "again."
        )
    return verdict, measured
