"""All of a scenario that decides a number, as texts that a run compares before it resumes."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import trilemma
from trilemma.execution.fingerprints import fingerprint
from trilemma.game.prepared_models import fresh_weights
from trilemma.records.digests import keyed_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilemma.execution.journal import Run
    from trilemma.game.scenario import Scenario
    from trilemma.protection.protection import Protection

__all__ = [
    "code_hash", "data_hash", "own_code", "parts_of", "require_own", "require_scenario",
    "scenario_identity",
]  # fmt: skip


def scenario_identity(scenario: Scenario, key: bytes) -> dict[str, str]:
    """What the scenario computes with, by name: two runs mix only where all of it is equal.

    Hashes are keyed, as a plain one would let anyone test whether a record that he guesses was
    there. Library versions are not compared, but written into the run's log.
    """
    weights = fresh_weights(scenario, [0])
    initialise = scenario.initialise
    redrawn = "reset_parameters" if initialise is None else fingerprint(initialise, key=key)
    return {
        "code": _code(),
        "model": fingerprint(scenario.model, key=key),
        "loss": fingerprint(scenario.loss, key=key),
        "local training": repr(scenario.local_training),
        "server_lr": repr(scenario.server_lr),
        "server_decay": repr(scenario.server_decay),
        "rounds": repr(scenario.rounds),
        "sends_statistics": repr(scenario.sends_statistics),
        "cohort": repr(scenario.per_round),
        "distance": "mean squared"
        if scenario.distance is None
        else fingerprint(scenario.distance, key=key),
        "metric": "by the loss"
        if scenario.metric is None
        else fingerprint(scenario.metric, key=key),
        "criterion": repr(scenario.criterion),
        "columns": repr(scenario.input_spec.columns),
        "words": repr(tuple(scenario.words)),
        "classes": repr(scenario.classes),
        # Not the function alone: one that keeps what it finds starts at the model's own weights.
        "initialise": f"{redrawn}, first weights {keyed_digest(key, weights)[:16]}",
        "device": scenario.device,
        "show_records": repr(scenario.show_records),
        "data": data_hash(scenario, key),
    }


def require_scenario(run: Run, scenario: Scenario) -> None:
    """Refuse to resume a run whose chunks were made of another scenario, or by other code."""
    run.require(scenario_identity(scenario, run.key("data")), whose="the scenario's")


def require_own(run: Run, objects: Mapping[str, object]) -> None:
    """Refuse to resume a run by other code of the user's own: what is named module:object."""
    run.require(own_code(objects), whose="the code of")


def own_code(objects: Mapping[str, object]) -> dict[str, str]:
    """What each object of the user's own computes, by its name module:object; ours have none."""
    return {name: fingerprint(item) for name, item in objects.items() if ":" in name}


def parts_of(protection: Protection) -> dict[str, object]:
    """The kinds of transforms and transport that a protection is made of, by module:object."""
    kinds = {type(transform) for transform in (*protection.transforms, protection.transport)}
    named = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in kinds}
    return {name: value for name, value in named.items() if not name.startswith("trilemma.")}


def data_hash(scenario: Scenario, key: bytes) -> str:
    """HMAC-SHA256 of all records: shows whether data are the same to who holds the key.

    Without the key it tells nothing; a plain hash would let anyone test whether a record that he
    guesses was there.
    """
    records = (*scenario.records, scenario.test_records, scenario.public_records)
    return keyed_digest(
        key, *(part for record in records for part in (record.inputs, record.labels))
    )


@cache
def code_hash() -> str:
    """A hash of this package's own source files."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _code() -> str:
    """Version and hash of this package; bytecode, by which the user's own counts, is Python's."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"trilemma {trilemma.__version__} {code_hash()}, Python {python}"
