"""A server's state after its last good round, in a file that NumPy reads: arrays and a header.

Nothing in it is code: no pickle is written, and none is read.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import InvalidInput
from trilemma.execution.durable_file import replace_file
from trilemma.quantities import whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Arrays", "Checkpoint", "load_checkpoint", "save_checkpoint"]

_KIND: Final = "trilemma checkpoint 1"
_ARRAY: Final = "arr_{}"  # as NumPy numbers them; the first is the header
# What NumPy, zipfile and zlib raise for a file that is none, or was cut or altered.
_UNREADABLE: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, EOFError, OverflowError, MemoryError),
    *(NotImplementedError, RecursionError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error),
)

Arrays = Mapping[str, "NDArray[Any]"]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The model after `rounds` rounds, the events of all that were begun, and `memory`.

    That is what the server's own optimiser remembers, by name and array.
    """

    rounds: int
    model: Arrays
    events: tuple[Event, ...] = ()
    memory: Mapping[str, Arrays] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if whole("rounds", self.rounds) < 0:
            raise InvalidInput(f"rounds must not be negative, got {self.rounds}.")

    def require_like(self, model: Arrays, path: Path) -> None:
        """Raises unless it holds the arrays that the app's model has."""
        own, other = (_shapes(value) for value in (model, self.model))
        if own != other:
            names = sorted(name for name in {*own, *other} if own.get(name) != other.get(name))
            raise InvalidInput(
                f"{path} holds another model, which differs in {names[0]!r}; resume with the app "
                "that wrote it, or name another checkpoint."
            )


def save_checkpoint(path: Path, state: Checkpoint) -> None:
    """Puts the state in place of the last one, as a whole."""
    groups = {"": state.model, **{f"memory {name}": value for name, value in state.memory.items()}}
    names = [(group, name) for group, arrays in groups.items() for name in arrays]
    header = {
        "kind": _KIND,
        "rounds": state.rounds,
        "events": [asdict(event) for event in state.events],
        "memory": list(state.memory),
        "arrays": names,
    }
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    written = io.BytesIO()
    np.savez(written, text, *(groups[group][name] for group, name in names))
    try:
        replace_file(path, written.getvalue())
    except OSError as error:
        raise InvalidInput(
            f"the checkpoint {path} cannot be written ({error.strerror}); make room, or name "
            "another."
        ) from None


def load_checkpoint(path: Path) -> Checkpoint | None:
    """The state that was saved last; None where there is no file yet."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            header = json.loads(file[_ARRAY.format(0)].tobytes())
            if header["kind"] != _KIND:
                raise ValueError(header["kind"])
            groups: dict[str, dict[str, NDArray[Any]]] = {"": {}}
            groups |= {f"memory {name}": {} for name in header["memory"]}
            for index, (group, name) in enumerate(header["arrays"], 1):
                groups[group][name] = file[_ARRAY.format(index)]
        model = groups.pop("")
        events = tuple(Event(**item) for item in header["events"])
        memory = {name.removeprefix("memory "): item for name, item in groups.items()}
        return Checkpoint(header["rounds"], model, events, memory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(
            f"the checkpoint {path} cannot be read ({error.strerror}); name another."
        ) from None
    except _UNREADABLE:
        raise InvalidInput(
            f"the checkpoint {path} is damaged, or is none; put a copy back, or name another file "
            "to begin anew."
        ) from None


def _shapes(arrays: Arrays) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
