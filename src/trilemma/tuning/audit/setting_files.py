"""Settings as they stand in files: a Flower app, a site's privacy.json, an NVFlare job.

Files are read, never run: of Python sources the calls and their arguments are looked up, which may
be numbers, names that are assigned once, or entries of the app's configuration.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trilemma.errors import InvalidInput
from trilemma.tuning.audit.framework_setting import part_of
from trilemma.tuning.audit.setting_parts import FRAMEWORKS, Own, Part

__all__ = ["read_setting"]

_LARGEST: Final = 1_000_000  # bytes of a file
_POSITIONAL: Final = {
    "LocalDpMod": ("clipping_norm", "sensitivity", "epsilon", "delta"),
    "DifferentialPrivacyClientSideFixedClipping": (
        "strategy", "noise_multiplier", "clipping_norm", "num_sampled_clients"
    ),
    "DifferentialPrivacyServerSideFixedClipping": (
        "strategy", "noise_multiplier", "clipping_norm", "num_sampled_clients"
    ),
    "DifferentialPrivacyClientSideAdaptiveClipping": (
        "strategy", "noise_multiplier", "num_sampled_clients", "initial_clipping_norm",
        "target_clipped_quantile", "clip_norm_lr", "clipped_count_stddev",
    ),
    "DifferentialPrivacyServerSideAdaptiveClipping": (
        "strategy", "noise_multiplier", "num_sampled_clients", "initial_clipping_norm",
        "target_clipped_quantile", "clip_norm_lr", "clipped_count_stddev",
    ),
    "SecAggPlusWorkflow": ("num_shares", "reconstruction_threshold"),
}  # fmt: skip
_NOT_AUDITED: Final = ("strategy", "accountant", "timeout")
_MODS: Final = {"fixedclipping_mod", "adaptiveclipping_mod", "secaggplus_mod", "secagg_mod"}


def read_setting(path: Path) -> tuple[Part, ...]:
    """The parts that a file, or a folder, sets; `none` where it sets no protection."""
    if not path.exists():
        raise InvalidInput(f"there is no file {path}; check its name.")
    if path.is_dir():
        if (path / "pyproject.toml").exists():
            return _flower(path / "pyproject.toml")
        return _job(path)
    if path.suffix == ".toml":
        return _flower(path)
    document = _json(path)
    if "scopes" in document:
        return _scopes(path, document)
    if "task_result_filters" in document:
        return _filters(path, document["task_result_filters"])
    raise InvalidInput(
        f"{path} has neither scopes nor task_result_filters; give a Flower app's pyproject.toml, "
        "a site's privacy.json or an NVFlare job folder."
    )


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInput(f"{path} has more than {_LARGEST:,} bytes; name another file.")
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {path} ({error.strerror}); check its name.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is no text; check its name.") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} is not valid JSON ({error}); mend it.") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} holds no JSON object; check its name.")
    return document


def _scopes(path: Path, document: Mapping[str, Any]) -> tuple[Part, ...]:
    """The filters of the default scope; a job may name another one."""
    scopes = document["scopes"]
    if not isinstance(scopes, list) or not all(isinstance(scope, dict) for scope in scopes):
        raise InvalidInput(f"{path}: scopes must be a list of objects; mend it.")
    named = {str(scope.get("name")): scope for scope in scopes}
    chosen = document.get("default_scope")
    if chosen is None and len(named) == 1:
        (chosen,) = named
    if str(chosen) not in named:
        raise InvalidInput(
            f"{path} names no default_scope among {', '.join(named) or 'none'}; add one, or keep "
            "the scope that you ask about alone."
        )
    return _filters(path, named[str(chosen)].get("task_result_filters") or [])


def _job(folder: Path) -> tuple[Part, ...]:
    """Filters of results in the client configurations of a job, which must agree."""
    files = sorted(folder.rglob("config_fed_client.json"))
    if not files:
        other = sorted(folder.rglob("config_fed_client.*"))
        raise InvalidInput(
            f"{folder} holds no config_fed_client.json"
            + (f" but {other[0].name}; export the job as JSON." if other else
               ", nor a Flower app's pyproject.toml; check its name.")
        )  # fmt: skip
    found = [
        (file, _filters(file, _json(file).get("task_result_filters") or [])) for file in files
    ]
    first, parts = found[0]
    for file, other_parts in found[1:]:
        if other_parts != parts:
            raise InvalidInput(
                f"{first} and {file} filter results differently; give one of the two files."
            )
    return parts


def _filters(path: Path, entries: Any) -> tuple[Part, ...]:
    """Of {"name" or "path", "args"}, alone or below {"tasks", "filters"}."""
    parts: list[Part] = []
    for entry in _entries(path, entries):
        full = str(entry.get("path") or entry.get("class_path") or entry.get("name") or "")
        name = f"nvflare.{full.rpartition('.')[2]}"
        if name not in FRAMEWORKS:
            known = ", ".join(known for known in FRAMEWORKS if known.startswith("nvflare"))
            raise InvalidInput(
                f"{path} has the filter {full!r:.80}, which is not known here ({known} are); "
                "audit what it does as a part of trilemma's own."
            )
        args = entry.get("args") or {}
        if not isinstance(args, dict):
            raise InvalidInput(f"{path}: args of {full!r:.80} must be an object; mend it.")
        kinds = args.get("data_kinds")
        if kinds is not None and "WEIGHT_DIFF" not in kinds:
            continue  # it leaves weight differences as they are
        parts.append(part_of(name, {k: v for k, v in args.items() if k != "data_kinds"}))
    return tuple(parts) or (Own("none"),)


def _entries(path: Path, entries: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(entries, list) or not all(isinstance(item, dict) for item in entries):
        raise InvalidInput(f"{path}: task_result_filters must be a list of objects; mend it.")
    for entry in entries:
        if "filters" not in entry:
            yield entry
        elif {"train", "*"} & set(entry.get("tasks") or ["train"]):
            yield from _entries(path, entry["filters"])


def _flower(path: Path) -> tuple[Part, ...]:
    try:
        document = tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not valid TOML ({error}); mend it.") from None
    app = document.get("tool", {}).get("flwr", {}).get("app", {})
    if not app:
        raise InvalidInput(
            f"{path} has no [tool.flwr.app]; give the pyproject.toml of a Flower app."
        )
    config = dict(_flat(app.get("config", {})))
    calls: list[tuple[str, dict[str, Any]]] = []
    mods: set[str] = set()
    for file in sorted(path.parent.rglob("*.py")):
        if any(part.startswith(".") for part in file.relative_to(path.parent).parts):
            continue
        source = _Source.read(file, config)
        calls += source.calls()
        mods |= source.mods()
    return _together(path, calls, mods)


def _flat(config: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    """A run's configuration: tables within it are joined by dots."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


def _together(
    path: Path, calls: list[tuple[str, dict[str, Any]]], mods: set[str]
) -> tuple[Part, ...]:
    parts: list[Part] = []
    for name, values in calls:
        part = part_of(f"flower.{name}", values)
        if part not in parts:
            parts.append(part)
    names = {part.name for part in parts}
    for mod, wrapper in (
        ("fixedclipping_mod", "flower.DifferentialPrivacyClientSideFixedClipping"),
        ("adaptiveclipping_mod", "flower.DifferentialPrivacyClientSideAdaptiveClipping"),
    ):
        if mod in mods and wrapper not in names:
            raise InvalidInput(
                f"the app of {path} uses {mod}, but no server wraps its strategy in "
                f"{wrapper.partition('.')[2]}, which it waits for; add it, or leave it out."
            )
        if wrapper in names and mod not in mods:
            raise InvalidInput(
                f"the app of {path} wraps its strategy in {wrapper.partition('.')[2]}, but no "
                f"client has {mod}: nothing is clipped; add the mod."
            )
    if {"secaggplus_mod", "secagg_mod"} & mods and "flower.SecAggPlus" not in names:
        parts.append(FRAMEWORKS["flower.SecAggPlus"]())
    parts.sort(key=lambda part: part.name == "flower.SecAggPlus")
    return tuple(parts) or (Own("none"),)


class _Source:
    """One file of an app: its calls and mods, without running it."""

    def __init__(self, path: Path, tree: ast.Module, config: Mapping[str, Any]) -> None:
        self.path, self.tree, self.config = path, tree, config
        self.assigned: dict[str, ast.expr | None] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        twice = target.id in self.assigned
                        self.assigned[target.id] = None if twice else node.value

    @classmethod
    def read(cls, path: Path, config: Mapping[str, Any]) -> _Source:
        try:
            return cls(path, ast.parse(_text(path)), config)
        except (SyntaxError, ValueError, RecursionError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"{path} is no Python source ({error}); mend it.") from None

    def calls(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The protections that are made, with their arguments."""
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            name = _last(node.func)
            if name not in _POSITIONAL:
                continue
            if any(isinstance(arg, ast.Starred) for arg in node.args) or any(
                keyword.arg is None for keyword in node.keywords
            ):
                raise InvalidInput(
                    f"{self.path}, line {node.lineno}: the arguments of {name} are not written "
                    "out; give the setting as text."
                )
            given = dict(zip(_POSITIONAL[name], node.args, strict=False))
            given |= {
                keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None
            }
            values = {
                key: self._value(value, f"{key} of {name}")
                for key, value in given.items()
                if key not in _NOT_AUDITED
            }
            yield "SecAggPlus" if name == "SecAggPlusWorkflow" else name, values

    def mods(self) -> set[str]:
        """Mods that stand in a list, as ClientApp takes them."""
        lists = (node for node in ast.walk(self.tree) if isinstance(node, ast.List))
        return {_last(elt) for node in lists for elt in node.elts} & _MODS

    def _value(self, node: ast.expr, what: str, depth: int = 0) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(node.operand, what, depth)
            return -value if isinstance(value, int | float) else value
        if isinstance(node, ast.Call) and _last(node.func) in ("float", "int") and node.args:
            value = self._value(node.args[0], what, depth)
            return int(value) if _last(node.func) == "int" else float(value)
        if isinstance(node, ast.Call) and _last(node.func) == "cast" and len(node.args) == 2:
            return self._value(node.args[1], what, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._configured(str(node.slice.value), what)
        if isinstance(node, ast.Call) and _last(node.func) == "get" and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant):
                if str(key.value) in self.config or len(node.args) == 1:
                    return self._configured(str(key.value), what)
                return self._value(node.args[1], what, depth)
        if isinstance(node, ast.Name) and depth < 8:
            value = self.assigned.get(node.id)
            if value is not None:
                return self._value(value, what, depth + 1)
        raise InvalidInput(
            f"{self.path}, line {node.lineno}: {what} is computed, and an app is read but not "
            "run; give the setting as text."
        )

    def _configured(self, key: str, what: str) -> Any:
        if key not in self.config:
            raise InvalidInput(
                f"{self.path}: {what} is the app's {key!r}, which [tool.flwr.app.config] does not "
                "have; add it."
            )
        return self.config[key]


def _last(node: ast.expr) -> str:
    """The last name of a dotted one."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
