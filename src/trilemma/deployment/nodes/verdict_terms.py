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

__all__ = ["claimed_terms", "from_verdict", "measured_deployment"]

_VERSION: Final = 4
_DEPLOYMENT: Final = TypeAdapter(Deployment)


def from_verdict(path: str | Path, deployment: Deployment, **settings: Any) -> Terms:
    """Terms with the protection that a verdict file chose for this very deployment.

    What was measured holds for the updates that were attacked, so a federation that differs in any
    field of its deployment is refused, with a sentence for each.
    """
    content = _content(path)
    if differences := _read(path, content)[1].mismatches(deployment):
        raise InvalidInput(f"{path} does not fit this federation: {' '.join(differences)}")
    return claimed_terms(path, content, **settings)


def measured_deployment(path: str | Path) -> Deployment:
    """The deployment that a verdict file is about.

    A federation takes from it how its nodes and its server train, and states all else of its own:
    `replace(measured_deployment(path), parameters=..., clients=..., rounds=...)`.
    """
    return _read(path, _content(path))[1]


def claimed_terms(path: str | Path, content: bytes | None = None, **settings: Any) -> Terms:
    """Terms for the deployment that a verdict file itself states (its `content`, where read)."""
    verdict, measured = _read(path, _content(path) if content is None else content)
    text = verdict["protection"]
    if text is None:
        raise InvalidInput(f"{path} chose no protection: none kept its budget; tune anew.")
    if not isinstance(text, str):
        raise InvalidInput(f"{path} is not a verdict: its protection is {text!r:.80}; tune anew.")
    source = str(Path(path).absolute())
    return Terms.deployed(text, measured, source=source, **settings)


def _content(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None


def _read(path: str | Path, content: bytes) -> tuple[dict[str, Any], Deployment]:
    try:
        verdict = parse_json(content)
        version, _ = verdict["schema_version"], verdict["protection"]
        if version == _VERSION:
            measured = _DEPLOYMENT.validate_json(json.dumps(verdict["deployment"]), strict=True)
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
