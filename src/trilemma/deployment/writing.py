"""What a federation needs to run a verdict: an app or a job, and a policy, in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal

from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.deployment.policy import Policy, digest_of
from trilemma.errors import InvalidInput
from trilemma.execution.run_files import (
    new_folder,
    objects_in,
    parse_json,
    read_object,
    write_text,
)
from trilemma.federation.deployment_terms import Deployment

__all__ = ["FILTERS", "Framework", "joined_scopes", "policy_of", "write_deployment"]

Framework = Literal["flower", "nvflare"]
FILTERS: Final = "trilemma.deployment.nvflare.site_filters"
_STATED: Final = (  # what a federation says of itself; how it trains is the verdict's to say
    "parameters", "clients", "cohort", "threshold", "rounds", "total_records",
)  # fmt: skip
_FILES: Final[Mapping[Framework, tuple[str, ...]]] = {
    "flower": (
        "pyproject.toml",
        "README.md",
        *(f"protected_app/{name}.py" for name in ("__init__", "terms", "task")),
        *(f"protected_app/{name}.py" for name in ("client_app", "server_app")),
    ),
    "nvflare": ("job.py", "client.py", "net.py", "README.md"),
}
_VERDICT: Final[Mapping[Framework, str]] = {
    "flower": "protected_app/verdict.json",
    "nvflare": "verdict.json",
}
_POLICY: Final = "trilemma-policy.toml"


def write_deployment(
    verdict: Path,
    framework: Framework,
    folder: Path,
    *,
    scenario: str | None = None,
    scopes: Path | None = None,
) -> list[Path]:
    """Writes the files, nothing over one that is there, and says where they are.

    `scenario` is named where the verdict does not say how it was made; `scopes` is a site's
    privacy.json that trilemma's filters join.
    """
    content = _content(verdict)
    terms = claimed_terms(verdict, content)
    deployment = terms.deployment
    assert deployment is not None
    if framework == "nvflare":
        _require_plain(terms)
    source = dict(parse_json(content).get("source") or {})
    name = source.pop("scenario", None) if scenario is None else scenario
    if not isinstance(name, str):
        raise InvalidInput(
            "the verdict was made in Python and does not say how to make its scenario; name it "
            "with --scenario module:function."
        )
    words = {
        "scenario": json.dumps(name),
        "options": repr(source if scenario is None else {}),
        "own": _own(deployment),
        "rounds": str(deployment.rounds),
        "clients": str(deployment.clients),
        "digest": digest_of(content),
        "verdict": str(verdict),
    }
    texts = {folder / path: _filled(framework, path, words) for path in _FILES[framework]}
    texts[folder / _VERDICT[framework]] = content.decode("utf-8")
    texts[folder / _POLICY] = policy_of(terms, content, framework).as_toml()
    if framework == "flower":
        texts[folder / "LICENSE"] = _template("LICENSE")
    else:
        texts[folder / "privacy.json"] = _scopes_text(folder.absolute(), scopes)
    if there := [path for path in texts if path.exists()]:
        raise InvalidInput(f"{there[0]} is there already; name another folder.")
    for path, text in texts.items():
        new_folder(path.parent)
        write_text(path, text)
    return list(texts)


def policy_of(terms: Terms, content: bytes, framework: Framework) -> Policy:
    """The policy of a node that keeps to a verdict; NVFlare tells a node nothing of its cohort."""
    deployment = terms.deployment
    assert deployment is not None
    in_flower = framework == "flower"
    hides = terms.protection.transport.server_reads != "messages"
    return Policy(
        smallest_cohort=deployment.cohort if in_flower else None,
        threshold=deployment.threshold if in_flower and hides else None,
        protection=terms.protection,
        rounds=deployment.rounds,
        metrics=(),
        verdicts=(digest_of(content),),
    )


def joined_scopes(document: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    """A privacy.json with trilemma's filters first in each of its scopes, and in those to come.

    `settings` are the arguments of `AdmitTask`; filters of ours that are there already give way.
    """
    path = Path("privacy.json")
    scopes = objects_in(path, document, "scopes") or [{"name": "trilemma"}]
    admit = {"path": f"{FILTERS}.AdmitTask", "direction": "in", "args": dict(settings)}
    protect = {"path": f"{FILTERS}.ProtectUpdate", "direction": "out", "args": {}}
    bind = {"id": "trilemma", "path": f"{FILTERS}.BindScope", "args": dict(settings)}
    joined = []
    for scope in scopes:
        into, out = (
            [part for part in objects_in(path, scope, name) if not _is_ours(part)]
            for name in ("task_data_filters", "task_result_filters")
        )
        filters = {"task_data_filters": [admit, *into], "task_result_filters": [protect, *out]}
        joined.append({**scope, **filters})
    others = [part for part in objects_in(path, document, "components") if not _is_ours(part)]
    default = document.get("default_scope") or joined[0].get("name")
    return {
        **document,
        "scopes": joined,
        "default_scope": default,
        "components": [*others, bind],
    }


def _scopes_text(folder: Path, scopes: Path | None) -> str:
    document = {} if scopes is None else read_object(scopes)
    settings = {
        "verdict": str(folder / "verdict.json"),
        "policy": str(folder / _POLICY),
        "ledger": str(folder / "ledger.json"),
    }
    return json.dumps(joined_scopes(document, settings), indent=2) + "\n"


def _is_ours(part: Mapping[str, Any]) -> bool:
    return str(part.get("path", "")).startswith(FILTERS)


def _require_plain(terms: Terms) -> None:
    if terms.protection.transport.server_reads != "messages":
        raise InvalidInput(
            f"{terms.protection.transport.name} needs secure aggregation, which is not there for "
            "NVFlare yet; write it with --flower, or tune with --families randomization."
        )


def _own(deployment: Deployment) -> str:
    stated = {name: getattr(deployment, name) for name in _STATED}
    assert set(stated) <= {part.name for part in fields(deployment)}
    return "".join(f"    {name}={value!r},\n" for name, value in stated.items())


def _filled(framework: Framework, path: str, words: Mapping[str, str]) -> str:
    text = _template(f"{framework}/{path}.txt")
    for name, value in words.items():
        text = text.replace(f"@{name}", value)
    return text


def _template(name: str) -> str:
    return (resources.files("trilemma.deployment") / "templates" / name).read_text("utf-8")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
