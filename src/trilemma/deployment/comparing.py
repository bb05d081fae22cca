"""An app or a job that is there already, compared with a verdict, field by field."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import claimed_terms
from trilemma.deployment.policy import digest_of
from trilemma.deployment.writing import FILTERS
from trilemma.errors import InvalidInput, TrilemmaError
from trilemma.execution.run_files import object_in, objects_in, read_object

__all__ = ["Difference", "compare"]

_STEP: Final = "trilemma.deployment.nvflare.server_step.VerdictStep"
_FEDAVG: Final = "nvflare.app_common.workflows.fedavg.FedAvg"


@dataclass(frozen=True)
class Difference:
    """A field in which an app differs from a verdict: what each of them says."""

    field: str
    verdict: str
    app: str

    def as_json(self) -> dict[str, str]:
        """The same as plain values."""
        return asdict(self)


def compare(verdict: Path, app: Path) -> list[Difference]:
    """The differences of a Flower app, whose code is imported, or of an exported NVFlare job."""
    terms = claimed_terms(verdict)
    if (app / "pyproject.toml").is_file():
        return _flower(verdict, terms, app)
    if servers := sorted(app.rglob("config_fed_server.json")):
        return _nvflare(verdict, terms, app, servers[0])
    raise InvalidInput(
        f"{app} holds no Flower app (pyproject.toml) and no exported NVFlare job "
        "(config_fed_server.json); export a recipe by python job.py --export --export-dir DIR."
    )


# Flower


def _flower(verdict: Path, terms: Terms, app: Path) -> list[Difference]:
    try:
        document = tomllib.loads((app / "pyproject.toml").read_text("utf-8"))
        settings = document["tool"]["flwr"]["app"]
        module, _, name = settings["components"]["clientapp"].partition(":")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(
            f"{app / 'pyproject.toml'} names no clientapp under [tool.flwr.app.components]."
        ) from None
    try:
        own = _terms_of_app(app, module, name)
    except _Contradicts as error:
        return [Difference("terms", "these", f"the app's own contradict it: {error}")]
    if own is None:
        return [Difference("mods", "protect_mod first", "no protect_mod first")]
    assert terms.deployment is not None
    config = settings.get("config", {})
    pairs = {
        "verdict": (digest_of(verdict.read_bytes()), _digest(own.source)),
        "protection": (terms.protection.describe(), own.protection.describe()),
        **_fields(terms.deployment, own.deployment),
        **{name: (getattr(terms, name), getattr(own, name)) for name in _SETTINGS},
    }
    for name in ("rounds", "num-server-rounds"):
        if name in config:
            pairs[f"run config, {name}"] = (terms.deployment.rounds, config[name])
    return _differences(pairs)


_SETTINGS: Final = (
    "metrics", "evaluate_metrics", "queries", "threshold", "min_cohort", "weighting",
    "learning_rate", "budget", "leakage_budget",
)  # fmt: skip


class _Contradicts(Exception):
    """The app's own terms are refused when it is imported, as by `from_verdict`."""


def _terms_of_app(app: Path, module: str, name: str) -> Terms | None:
    """The terms of the app's first mod; None where that is not ours."""
    if importlib.util.find_spec("flwr") is None:
        raise InvalidInput("this needs Flower; install it by pip install 'trilemma[flower]'.")
    from flwr.clientapp import ClientApp

    from trilemma.deployment.site.wrapping import FIRST_MOD, TERMS_OF_MOD, wrapped

    with wrapped(ClientApp), _importable(app):
        try:
            client = getattr(importlib.import_module(module), name)
        except TrilemmaError as error:
            raise _Contradicts(str(error)) from None
        except Exception as error:  # of any kind: it is the app's own code
            raise InvalidInput(
                f"{module}:{name} of {app} cannot be imported ({error}); mend the app."
            ) from error
    terms = getattr(getattr(client, FIRST_MOD, None), TERMS_OF_MOD, None)
    return terms if isinstance(terms, Terms) else None


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules of a folder can be imported inside, and are forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder.absolute()))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder.absolute()))
        for name in set(sys.modules) - before:
            path = getattr(sys.modules[name], "__file__", None)
            if path is not None and Path(path).is_relative_to(folder.absolute()):
                del sys.modules[name]


# NVFlare


def _nvflare(verdict: Path, terms: Terms, app: Path, server: Path) -> list[Difference]:
    assert terms.deployment is not None
    workflows = objects_in(server, read_object(server), "workflows")
    found = [part for part in workflows if part.get("path") == _FEDAVG]
    if not found:
        return [Difference("workflow", _FEDAVG, ", ".join(str(p.get("path")) for p in workflows))]
    fedavg = object_in(server, found[0], "args")
    aggregator = object_in(server, fedavg, "aggregator")
    pairs: dict[str, tuple[Any, Any]] = {
        "rounds": (terms.deployment.rounds, fedavg.get("num_rounds")),
        "clients": (terms.deployment.cohort, fedavg.get("num_clients")),
        "aggregator": (_STEP, aggregator.get("path")),
    }
    if aggregator.get("path") == _STEP:
        own = object_in(server, aggregator, "args")
        server_training = terms.deployment.server
        assert server_training is not None
        stated = {
            "step": server_training.step,
            "decay": server_training.decay,
            "rounds": terms.deployment.rounds,
            "learning_rate": terms.learning_rate,
            "least": terms.deployment.threshold,
        }
        pairs |= {f"server {name}": (value, own.get(name)) for name, value in stated.items()}
    for path in sorted(app.rglob("config_fed_client.json")):
        for executor in objects_in(path, read_object(path), "executors"):
            own = object_in(path, object_in(path, executor, "executor"), "args")
            pairs["training process"] = ("in_process", own.get("execution_mode", "in_process"))
            pairs["what sites send"] = ("DIFF", own.get("params_transfer_type"))
    for path in sorted(app.rglob("privacy.json")):
        pairs |= _scopes(verdict, path)
    return _differences(pairs)


def _scopes(verdict: Path, path: Path) -> dict[str, tuple[Any, Any]]:
    pairs: dict[str, tuple[Any, Any]] = {}
    for scope in objects_in(path, read_object(path), "scopes"):
        label = f"scope {scope.get('name')!r}"
        for name, ours in (("task_data", "AdmitTask"), ("task_result", "ProtectUpdate")):
            filters = objects_in(path, scope, f"{name}_filters") or [{}]
            first = f"{FILTERS}.{ours}"
            pairs[f"{label}, first {name} filter"] = (first, filters[0].get("path"))
            if ours == "AdmitTask" and filters[0].get("path") == first:
                source = object_in(path, filters[0], "args").get("verdict")
                digest = digest_of(verdict.read_bytes())
                pairs[f"{label}, verdict"] = (digest, _digest(source))
    return pairs


# Both


def _fields(measured: Any, own: Any) -> dict[str, tuple[Any, Any]]:
    """Each field of a value and of its parts, of both; an own value of None has none."""
    pairs: dict[str, tuple[Any, Any]] = {}
    there = {} if own is None else asdict(own)
    for part, value in asdict(measured).items():
        other = there.get(part, "none")
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            pairs |= {f"{part}.{key}": (value[key], other.get(key)) for key in value}
        else:
            pairs[part] = (value, other)
    return pairs


def _differences(pairs: Mapping[str, tuple[Any, Any]]) -> list[Difference]:
    return [
        Difference(name, str(measured), str(own))
        for name, (measured, own) in pairs.items()
        if measured != own
    ]


def _digest(source: object) -> str:
    try:
        return "none" if not isinstance(source, str) else digest_of(Path(source).read_bytes())
    except OSError as error:
        return f"none ({source}: {error.strerror})"
