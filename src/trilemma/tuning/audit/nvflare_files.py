"""The filters of a site's privacy.json, or of an NVFlare job, as NVFlare itself applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trilemma.errors import InvalidInput
from trilemma.execution.run_files import object_in, objects_in, read_object
from trilemma.tuning.audit.framework_parts import FRAMEWORKS, part_of
from trilemma.tuning.audit.setting_files import Read
from trilemma.tuning.audit.setting_parts import Part

__all__ = ["read_nvflare"]


def read_nvflare(path: Path) -> Read:
    """Of a privacy.json, a client configuration, a site's folder or a job's."""
    if path.is_dir():
        for name in ("privacy.json", "local/privacy.json"):
            if (path / name).is_file():
                return _scopes(path / name, read_object(path / name))
        return _job(path)
    document = read_object(path)
    if "scopes" in document:
        return _scopes(path, document)
    if "task_result_filters" in document:
        return Read(*_configured(path, document))
    raise InvalidInput(
        f"{path} has neither scopes nor task_result_filters; give a Flower app's pyproject.toml, "
        "a site's privacy.json or an NVFlare job folder."
    )


def _scopes(path: Path, document: Mapping[str, Any]) -> Read:
    """The filters of the default scope; a job may name another one."""
    named = {str(scope.get("name")): scope for scope in objects_in(path, document, "scopes")}
    chosen = document.get("default_scope")
    if chosen is None and len(named) == 1:
        (chosen,) = named
    if str(chosen) not in named:
        raise InvalidInput(
            f"{path} names no default_scope among {', '.join(named) or 'none'}; add one, or keep "
            "the scope that you ask about alone."
        )
    own = _outgoing(objects_in(path, named[str(chosen)], "task_result_filters"))
    notes = tuple(
        f"This is the scope {chosen}; a job may name {name}, which filters results otherwise."
        for name, scope in named.items()
        if _outgoing(objects_in(path, scope, "task_result_filters")) != own
    )
    return Read(tuple(_parts(path, own)), notes)


def _job(folder: Path) -> Read:
    """The client configurations of a job, which must agree; a site's own filters come before."""
    try:
        other = sorted(folder.rglob("config_fed_client.*"))
    except OSError as error:
        raise InvalidInput(f"cannot read {folder} ({error.strerror}); check its name.") from None
    files = [path for path in other if path.suffix == ".json"]
    if not files:
        raise InvalidInput(
            f"{folder} holds no config_fed_client.json"
            + (f" but {other[0].name}; export the job as JSON." if other else
               ", nor a privacy.json or a Flower app's pyproject.toml; check its name.")
        )  # fmt: skip
    first, *others = ((file, _configured(file, read_object(file))) for file in files)
    for file, found in others:
        if found != first[1]:
            raise InvalidInput(
                f"{first[0]} and {file} filter results differently; give one of the two files."
            )
    parts, notes = first[1]
    for meta in sorted(folder.rglob("meta.json")):
        if scope := read_object(meta).get("scope"):
            said = (
                f"The job names the scope {scope}, whose filters are in the sites' privacy.json."
            )
            notes = (*notes, said)
    return Read(parts, notes)


def _configured(
    path: Path, document: Mapping[str, Any]
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The filters of results to train, and whether they are applied to whole weights."""
    parts: list[Part] = []
    notes: tuple[str, ...] = ()
    for entry in _outgoing(objects_in(path, document, "task_result_filters")):
        tasks = entry.get("tasks")
        if not isinstance(tasks, list) or "filters" not in entry:
            raise InvalidInput(f"{path}: task_result_filters need tasks and filters; mend it.")
        if "train" in tasks:
            parts += _parts(path, objects_in(path, entry, "filters"))
        elif "*" in tasks:
            notes = ("NVFlare takes the task * of a filter by its name: it filters nothing.",)
    for executor in objects_in(path, document, "executors"):
        given = object_in(path, object_in(path, executor, "executor"), "args")
        if given.get("params_transfer_type", "FULL") != "DIFF" and parts:
            said = "The job sends whole weights, not differences, and these are what is filtered."
            notes = (*notes, said)
    return tuple(parts), notes


def _outgoing(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that a site applies to what it sends."""
    return [
        entry
        for entry in entries
        if entry.get("disabled") is not True
        and str(entry.get("direction") or "out").lower() != "in"
    ]


def _parts(path: Path, filters: list[dict[str, Any]]) -> Iterator[Part]:
    for entry in _outgoing(filters):
        full = str(entry.get("path") or entry.get("class_path") or entry.get("name") or "")
        name = f"nvflare.{full.rpartition('.')[2]}"
        if name == "nvflare.ProtectUpdate":
            raise InvalidInput(
                f"{path} protects by trilemma; audit the protection that its AdmitTask names, in "
                "args or in the verdict there."
            )
        if name not in FRAMEWORKS:
            known = ", ".join(known for known in FRAMEWORKS if known.startswith("nvflare"))
            raise InvalidInput(
                f"{path} has the filter {full!r:.80}, which is not known here ({known} are); "
                "audit what it does as a part of trilemma's own."
            )
        args = dict(object_in(path, entry, "args"))
        kinds = args.pop("data_kinds", None) or ["WEIGHT_DIFF"]
        if not isinstance(kinds, list):
            raise InvalidInput(f"{path}: data_kinds of {full!r:.80} must be a list; mend it.")
        if "WEIGHT_DIFF" in kinds:
            yield part_of(name, args)
