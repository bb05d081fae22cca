"""The protections of a Flower app, found in its sources, which are read and never run.

The mods are those of the `ClientApp` that pyproject.toml names; the server's wrappers and secure
aggregation are looked up by name in all of the app. Arguments may be numbers, names that are
assigned once, or entries of the app's configuration.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trilemma.errors import InvalidInput
from trilemma.tuning.audit.framework_parts import FRAMEWORKS, part_of
from trilemma.tuning.audit.setting_files import Read, read_text
from trilemma.tuning.audit.setting_parts import Part

__all__ = ["read_flower"]

_WRAPPERS: Final = tuple(
    f"DifferentialPrivacy{side}Side{how}Clipping"
    for side in ("Client", "Server")
    for how in ("Fixed", "Adaptive")
)
_OURS: Final = {"SecAggPlusWorkflow": "SecAggPlus"}
_NOT_AUDITED: Final = ("strategy", "accountant", "timeout")
_WAITS_FOR: Final = {  # a mod, and what has to be at the server for it
    "fixedclipping_mod": "DifferentialPrivacyClientSideFixedClipping",
    "adaptiveclipping_mod": "DifferentialPrivacyClientSideAdaptiveClipping",
    "secaggplus_mod": "SecAggPlusWorkflow",
}
_HARMLESS: Final = ("message_size_mod", "parameters_size_mod", "arrays_size_mod")
_INSTALLED: Final = ("site-packages", "node_modules")
_DEEPEST: Final = 8  # names that stand for names


def read_flower(path: Path) -> Read:
    """What the app of a pyproject.toml does to updates."""
    app, named = _app_of(path)
    mods = app.mods(named)
    names = {source.name(node) for source, node in mods}
    parts: list[Part] = []
    notes: list[str] = []
    for source, node in mods:
        name = source.name(node.func if isinstance(node, ast.Call) else node)
        if name == "protect_mod":
            raise InvalidInput(
                f"the app of {path} is protected by trilemma; `trilemma deploy VERDICT --check "
                f"{path.parent}` compares it with its verdict, and its protection is a setting."
            )
        if name == "LocalDpMod" and isinstance(node, ast.Call):
            parts.append(part_of("flower.LocalDpMod", app.arguments(source, node)))
        elif name not in _WAITS_FOR and name not in _HARMLESS:
            notes.append(f"The mod {name or f'in line {node.lineno}'} is not audited.")
    wrappers = app.wrappers()
    for mod, wrapper in _WAITS_FOR.items():
        if (mod in names) != (wrapper in wrappers):
            lacks = f"server has no {wrapper}" if mod in names else f"clients have no {mod}"
            raise InvalidInput(
                f"the app of {path} has {mod if mod in names else wrapper}, but its {lacks}, "
                "without which it does nothing; add it."
            )
    wrapped = sorted(wrappers, key=lambda name: name in _OURS)  # what carries it comes last
    parts += [part_of(_part_of_call(name), wrappers[name]) for name in wrapped]
    return Read(tuple(parts), tuple(notes))


def _app_of(path: Path) -> tuple[_App, str]:
    """The app of a pyproject.toml, and the name of its ClientApp."""
    try:
        settings = tomllib.loads(read_text(path))["tool"]["flwr"]["app"]
        config = dict(_flat(settings.get("config", {})))
        return _App(path.parent, config), str(settings["components"]["clientapp"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{path} is not valid TOML ({error}); mend it.") from None
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(
            f"{path} names no clientapp under [tool.flwr.app.components]; give the pyproject.toml "
            "of a Flower app."
        ) from None


def _part_of_call(name: str) -> str:
    """The part of a call, whose fields are in the order of Flower's own arguments."""
    return f"flower.{_OURS.get(name, name)}"


def _flat(config: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    """A run's configuration: tables within it are joined by dots."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


@dataclass(frozen=True, eq=False)
class _Source:
    """One file of an app."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        """What it says."""
        try:
            return ast.parse(read_text(self.path))
        except (SyntaxError, RecursionError) as error:
            raise InvalidInput(f"{self.path} is no Python source ({error}); mend it.") from None

    @cached_property
    def imported(self) -> dict[str, str]:
        """Names that it gives to what it imports, and theirs elsewhere."""
        return {
            alias.asname or alias.name: alias.name
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    @cached_property
    def assigned(self) -> dict[str, ast.expr | None]:
        """What a name stands for; None if it is assigned twice."""
        found: dict[str, ast.expr | None] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign | ast.AnnAssign):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        found[target.id] = None if target.id in found else node.value
        return found

    def name(self, node: ast.expr) -> str:
        """The last name of a dotted one, as it is called where it comes from."""
        if isinstance(node, ast.Attribute):
            return node.attr
        return self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""


@dataclass(frozen=True, eq=False)
class _App:
    """The sources of an app, and the configuration of its runs."""

    folder: Path
    config: Mapping[str, Any]

    @cached_property
    def sources(self) -> list[_Source]:
        """Its own Python files."""
        return [
            _Source(file)
            for file in sorted(self.folder.rglob("*.py"))
            if not any(
                part.startswith(".") or part in _INSTALLED
                for part in file.relative_to(self.folder).parts
            )
        ]

    def mods(self, named: str) -> list[tuple[_Source, ast.expr]]:
        """The mods of its ClientApp, in the order in which an update passes them."""
        module, _, attribute = named.partition(":")
        base = self.folder.joinpath(*module.split("."))
        files = [base.with_suffix(".py"), base / "__init__.py"]
        source = next((item for item in self.sources if item.path in files), None)
        if source is None:
            raise InvalidInput(f"{self.folder} has no module {module} for its clientapp; add it.")
        made = source.assigned.get(attribute)
        if not isinstance(made, ast.Call) or source.name(made.func) != "ClientApp":
            raise _computed(source, made or source.tree, f"the clientapp {named}")
        found = self._listed(source, _argument(made, "mods", 1))
        for node in ast.walk(source.tree):
            for call in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(call, ast.Call) and source.name(call.func) == "train":
                    found += self._listed(source, _argument(call, "mods", 9))
        return found[::-1]  # the first mod is the outermost

    def _listed(self, source: _Source, node: ast.expr | None) -> list[tuple[_Source, ast.expr]]:
        if node is None:
            return []
        where, found = self._followed(source, node)
        if isinstance(found, ast.Constant) and found.value is None:
            return []
        if not isinstance(found, ast.List | ast.Tuple):
            raise _computed(source, node, "mods")
        return [self._followed(where, item) for item in found.elts]

    def _followed(self, source: _Source, node: ast.expr) -> tuple[_Source, ast.expr]:
        """What a name stands for, where one file of the app says it once; else the name."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name):
                break
            others = [item for item in self.sources if source.name(node) in item.assigned]
            where = source if node.id in source.assigned else None
            if where is None and len(others) == 1 and node.id in source.imported:
                (where,) = others
            if where is None:
                break
            value = where.assigned[source.name(node) if where is not source else node.id]
            if value is None:
                break
            source, node = where, value
        return source, node

    def wrappers(self) -> dict[str, dict[str, Any]]:
        """What the server makes, in any file, with its arguments."""
        found: dict[str, dict[str, Any]] = {}
        for source in self.sources:
            for node in ast.walk(source.tree):
                name = source.name(node.func) if isinstance(node, ast.Call) else ""
                if not isinstance(node, ast.Call) or name not in (*_WRAPPERS, *_OURS):
                    continue
                values = self.arguments(source, node)
                if found.setdefault(name, values) != values:
                    raise InvalidInput(
                        f"{source.path}, line {node.lineno}: the app sets {name} twice; give the "
                        "setting as text."
                    )
        return found

    def arguments(self, source: _Source, call: ast.Call) -> dict[str, Any]:
        """Those that are audited, by name."""
        name = source.name(call.func)
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            raise InvalidInput(
                f"{source.path}, line {call.lineno}: the arguments of {name} are not written out; "
                "give the setting as text."
            )
        places = list(inspect.signature(FRAMEWORKS[_part_of_call(name)]).parameters)
        if name in _WRAPPERS:
            places.insert(0, "strategy")
        given = dict(zip(places, call.args, strict=False))
        given |= {str(keyword.arg): keyword.value for keyword in call.keywords}
        return {
            key: self._value(source, value, f"{key} of {name}")
            for key, value in given.items()
            if key not in _NOT_AUDITED
        }

    def _value(self, source: _Source, node: ast.expr, what: str) -> Any:
        source, node = self._followed(source, node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._value(source, node.operand, what)
            return -value if isinstance(value, int | float) else value
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._configured(source, str(node.slice.value), what)
        if isinstance(node, ast.Call) and node.args:
            return self._called(source, node, what)
        raise _computed(source, node, what)

    def _called(self, source: _Source, node: ast.Call, what: str) -> Any:
        """Of float(x), int(x), cast(kind, x) and config.get(key, otherwise)."""
        name, first = source.name(node.func), node.args[0]
        if name in ("float", "int"):
            value = self._value(source, first, what)
            try:
                return float(value) if name == "float" else int(value)
            except (TypeError, ValueError):
                raise _computed(source, node, what) from None
        if name == "cast" and len(node.args) == 2:
            return self._value(source, node.args[1], what)
        if name == "get" and isinstance(first, ast.Constant):
            if str(first.value) in self.config or len(node.args) == 1:
                return self._configured(source, str(first.value), what)
            return self._value(source, node.args[1], what)
        raise _computed(source, node, what)

    def _configured(self, source: _Source, key: str, what: str) -> Any:
        if key not in self.config:
            raise InvalidInput(
                f"{source.path}: {what} is the app's {key!r}, which [tool.flwr.app.config] does "
                "not have; add it."
            )
        return self.config[key]


def _argument(call: ast.Call, name: str, place: int) -> ast.expr | None:
    by_name = {keyword.arg: keyword.value for keyword in call.keywords}
    return by_name.get(name, call.args[place] if len(call.args) > place else None)


def _computed(source: _Source, node: ast.AST, what: str) -> InvalidInput:
    line = getattr(node, "lineno", 1)
    return InvalidInput(
        f"{source.path}, line {line}: {what} is computed, and an app is read but not run; give "
        "the setting as text."
    )
