"""The runs in a folder, and how far each has come; a damaged one does not hide the others."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from trilemma.errors import InvalidInput
from trilemma.execution.journal import JOURNAL
from trilemma.execution.run_folder import in_use
from trilemma.execution.store import Store

__all__ = ["RunListed", "list_runs"]


@dataclass(frozen=True)
class RunListed:
    """A run folder: the command that made it, its finished chunks, and what it has written.

    `damage` is the sentence on a journal that cannot be used, or empty.
    """

    folder: Path
    command: str
    chunks: int
    results: tuple[str, ...]
    in_use: bool
    damage: str = ""


def list_runs(parent: Path) -> list[RunListed]:
    """The run folders in `parent`, by name; nothing in them is changed."""
    return [_listed(path.parent) for path in sorted(parent.glob(f"*/{JOURNAL}"))]


def _listed(folder: Path) -> RunListed:
    command, chunks, damage = "?", 0, ""
    try:
        with closing(Store.look(folder / JOURNAL)) as store:
            if not store.is_empty():
                store.check()
                command = store.settings().get(("", "command"), command).strip('"')
                chunks = store.count()
    except InvalidInput as error:
        damage = str(error)
    results = tuple(path.name for path in sorted(folder.glob("*.json")))
    return RunListed(folder, command, chunks, results, in_use(folder), damage)
