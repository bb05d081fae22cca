"""What an object computes, as a short text: the same in every process, another after an edit.

Code counts by its bytecode (so comments do not) with the closures, helpers and globals that it
uses; library code counts by name. Trainable weights count by shape alone, since a run draws its
own; buffers, frozen weights and other tensors count by value.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

__all__ = ["fingerprint"]

_LIBRARIES: Final = sys.stdlib_module_names | {
    *("numpy", "peft", "scipy", "sklearn", "torch", "transformers", "trilemma"),
}
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(...))
_VALUES: Final = (
    *(*_PLAIN, Enum, tuple, list, dict, set, frozenset),
    *(FunctionType, MethodType, type, ModuleType, functools.partial),
)
_EMPTY: Final = CellType()
# Of a class, these say where it stands, or are made from the rest of it.
_NO_CODE: Final = {
    *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__"),
    *("__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl"),
}


def fingerprint(value: object, *, key: bytes = b"") -> str:
    """The object's name and a hash, keyed by up to 64 bytes, of all that decides what it computes.

    >>> double, triple = functools.partial(pow, 2), functools.partial(pow, 3)
    >>> fingerprint(double) == fingerprint(functools.partial(pow, 2))
    True
    >>> fingerprint(double) == fingerprint(triple)
    False
    """
    walk = _Walk(key)
    walk.add(value)
    return f"{_name(value)} {walk.digest.hexdigest()}"


def _name(value: object) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    return str(getattr(value, "__qualname__", type(value).__qualname__))


class _Walk:
    """Feeds an object, and all that it refers to, to a hash; each part once, in a fixed order."""

    def __init__(self, key: bytes) -> None:
        self.digest = hashlib.blake2b(key=key, digest_size=8)
        self._seen: dict[int, tuple[int, object]] = {}  # with the object, lest its id is reused

    def add(self, value: Any) -> None:
        """Feed a value; what may refer to itself is fed once."""
        if isinstance(value, Enum):
            self._say("enum", type(value).__qualname__, value.name, value.value)
        elif isinstance(value, _PLAIN):
            self._say(type(value).__name__, value)
        elif isinstance(value, tuple):
            self._say("tuple", len(value))
            self._all(value)
        elif isinstance(value, frozenset | set):
            self._say("set", *sorted(fingerprint(item) for item in value))
        elif id(value) in self._seen:
            self._say("again", self._seen[id(value)][0])
        else:
            self._seen[id(value)] = len(self._seen), value
            self._add_new(value)

    def _add_new(self, value: Any) -> None:
        if isinstance(value, list):
            self._say("list", len(value))
            self._all(value)
        elif isinstance(value, Mapping):
            self._say("mapping", len(value))
            for key, item in value.items():
                self._all((key, item))
        elif isinstance(value, functools.partial):
            self._say("partial")
            self._all((value.func, value.args, value.keywords))
        elif isinstance(value, MethodType):
            self._say("method")
            self._all((value.__func__, value.__self__))
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif _is_array(value):
            self._say("array", *_array(value))
        else:
            self._object(value)

    def _object(self, value: Any) -> None:
        self._say("object")
        self.add(type(value))
        if (wrapped := getattr(value, "__wrapped__", None)) is not None:
            self.add(wrapped)
        elif _is_library(type(value).__module__) and not (
            _is_network(value) or is_dataclass(value)
        ):
            # Its state is its own affair: locks, handles, addresses.
            self._say(*(word for word in (repr(value),) if " at 0x" not in word))
        else:
            for name, item in _state(value):
                self._say(name)
                self.add(item)

    def _function(self, function: FunctionType) -> None:
        self._say("function", function.__module__, function.__qualname__)
        for cell in function.__closure__ or ():  # a library's wrapper holds the user's function
            if cell != _EMPTY:
                self.add(cell.cell_contents)
        if _is_library(function.__module__):
            return
        self._code(function.__code__)
        self._all((function.__defaults__, function.__kwdefaults__))
        for name in sorted(set(_names(function.__code__))):
            if name in function.__globals__:
                self._say(name)
                self._named(function.__globals__[name])

    def _named(self, value: Any) -> None:
        """What code refers to by a name; the state of an object there may be a mere cache."""
        wrapper = is_dataclass(value) or hasattr(value, "__wrapped__")
        if isinstance(value, _VALUES) or wrapper or _is_network(value) or _is_array(value):
            self.add(value)
        else:
            self._say(type(value).__qualname__)

    def _code(self, code: CodeType) -> None:
        self._say("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.add(constant)

    def _class(self, kind: type) -> None:
        self._say("class", kind.__module__, kind.__qualname__)
        if _is_library(kind.__module__):
            return
        for name, var in vars(kind).items():
            if name not in _NO_CODE:
                self._say(name)
                for part in _parts(var):
                    self._named(part)
        for base in kind.__bases__:
            self.add(base)

    def _module(self, module: ModuleType) -> None:
        file = getattr(module, "__file__", None)
        self._say("module", module.__name__)
        if not _is_library(module.__name__) and file is not None and Path(file).is_file():
            self._say(Path(file).read_bytes())

    def _all(self, values: Any) -> None:
        for value in values:
            self.add(value)

    def _say(self, *words: object) -> None:
        for word in words:
            text = word if isinstance(word, bytes) else repr(word).encode()
            self.digest.update(len(text).to_bytes(8, "big") + text)


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


def _is_network(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _names(code: CodeType) -> Iterator[str]:
    """All names that code, and the code within it, looks up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _parts(attribute: Any) -> tuple[Any, ...]:
    """The functions behind a class's attribute, or the attribute."""
    if isinstance(attribute, staticmethod | classmethod):
        return (attribute.__func__,)
    if isinstance(attribute, property):
        return attribute.fget, attribute.fset
    return (attribute,)


def _is_array(value: object) -> bool:
    """Whether it is a tensor or an array; what was never imported cannot be one's kind."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (
        numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)
    )


def _array(value: Any) -> tuple[object, ...]:
    """Shape, type and bytes; of trainable weights no bytes."""
    about = tuple(value.shape), str(value.dtype)
    if not hasattr(value, "requires_grad"):
        return *about, value.tobytes()
    if value.requires_grad and isinstance(value, sys.modules["torch"].nn.Parameter):
        return *about, "trainable"
    return *about, _bytes(value)


def _bytes(tensor: torch.Tensor) -> bytes:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def _state(value: Any) -> Iterator[tuple[str, Any]]:
    """An object's attributes; hooks without their numbers, which count through the process."""
    slots = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    found = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    for name, item in (found | getattr(value, "__dict__", {})).items():
        hooks = "_hooks" in name and isinstance(item, dict)
        yield name, list(item.values()) if hooks else item
