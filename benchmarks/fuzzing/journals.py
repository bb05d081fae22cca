"""Run folders whose journal, key or log was damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.fuzzing.hostile import name, noise, number, spoilt_bytes
from benchmarks.fuzzing.judging import require, require_sentence
from trilemma.errors import TrilemmaError
from trilemma.execution.journal import JOURNAL, Run
from trilemma.execution.run_listing import RunListed, list_runs

__all__ = ["journals"]

SETTINGS = {"command": "tune", "seed": 7, "budget": 0.3, "families": ["a", "b"]}
PAYLOADS = {"a": b"first", "b": b"\0" * 40, "c": bytes(range(200))}
STATEMENTS = (
    *("UPDATE chunks SET payload = ?", "UPDATE chunks SET key = ? WHERE key = 'a'"),
    "UPDATE chunks SET digest = ?",
    *("UPDATE settings SET value = ?", "UPDATE settings SET name = ? WHERE name = 'seed'"),
    *("UPDATE settings SET whose = ?  WHERE name = 'seed'", "UPDATE settings SET digest = ?"),
    *("DELETE FROM chunks WHERE key <> ?", "DELETE FROM settings WHERE name <> ?"),
    *("DROP TABLE chunks", "DROP TABLE settings", "ALTER TABLE chunks RENAME TO other"),
    *("CREATE TABLE other (a)", "PRAGMA user_version = 1", "PRAGMA user_version = -5"),
    "INSERT INTO chunks VALUES ('d', ?, x'00')",
)


@cache
def _good() -> tuple[bytes, bytes]:
    """The journal and the key of a run with three chunks."""
    with TemporaryDirectory() as made:
        folder = Path(made) / "run"
        with Run.open(folder, SETTINGS) as run:
            run.key("data")
            for key, payload in PAYLOADS.items():
                run.commit(key, payload)
        return (folder / JOURNAL).read_bytes(), (folder / "run.key").read_bytes()


def journals(draw: Random, folder: Path) -> None:
    """Damage is told or harmless, never computed with, and hides no other run."""
    for text in ("a", "c"):
        _write(folder / text)
    damaged = folder / draw.choice(("b", "b?", "50%", "{x}", "\x1b[31mred", "b b"))
    _write(damaged)
    _damage(draw, damaged)
    found = {item.folder.name: item for item in list_runs(folder)}
    for text in ("a", "c"):
        expected = RunListed(folder / text, "tune", 3, (), False)
        require(found.get(text) == expected, f"run {text} is listed as {found.get(text)}")
    if damaged.name in found and (said := found[damaged.name].damage):
        try:
            raise TrilemmaError(said)
        except TrilemmaError as error:
            require_sentence(str(error))
    if draw.random() < 0.2:
        with Run.open(damaged, SETTINGS, fresh=True) as run:
            run.commit("new", b"new")
            old = [key for key in PAYLOADS if run.committed(key) is not None]
            require(not old, f"a fresh start keeps old chunks {old}")
        return
    with Run.open(damaged, SETTINGS) as run:
        kept = {key: run.committed(key) for key in PAYLOADS}
        wrong = [key for key, payload in kept.items() if payload not in (None, PAYLOADS[key])]
        require(not wrong, f"damaged chunks {wrong} are used")
        run.key("data")


def _write(folder: Path) -> None:
    folder.mkdir()
    journal, key = _good()
    (folder / JOURNAL).write_bytes(journal)
    (folder / "run.key").write_bytes(key)
    (folder / "run.key").chmod(0o600)


def _damage(draw: Random, folder: Path) -> None:
    journal, kind = folder / JOURNAL, draw.random()
    if kind < 0.4:
        value = draw.choice(
            (number(draw), name(draw), None, 5e-324, 2**63 - 1, b"\xff\0", "[" * 9999)
        )
        if isinstance(value, str):
            value = draw.choice((value.encode("utf-8", "surrogatepass"), value))
        with closing(sqlite3.connect(journal)) as store, store:
            statement = draw.choice(STATEMENTS)
            try:
                store.execute(statement, (value,) if "?" in statement else ())
            except (sqlite3.Error, UnicodeEncodeError):
                store.execute("UPDATE chunks SET payload = 'text'")
    elif kind < 0.75:
        journal.write_bytes(spoilt_bytes(draw, journal.read_bytes()))
    elif kind < 0.85:
        journal.write_bytes(noise(draw, draw.choice((0, 1, 99))).encode("utf-8", "surrogatepass"))
    elif kind < 0.9:
        (folder / f"{JOURNAL}-wal").write_bytes(draw.randbytes(draw.choice((0, 32, 4152))))
    elif kind < 0.97:
        key = folder / "run.key"
        key.write_bytes(spoilt_bytes(draw, key.read_bytes()))
        key.chmod(draw.choice((0o600, 0o600, 0o644)))
    else:
        journal.unlink()
        journal.mkdir()
