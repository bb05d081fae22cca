from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilemma.deployment.nodes.ledger import Ledger, record_event
from trilemma.deployment.nodes.round_events import Event
from trilemma.errors import BudgetSpent, InvalidInput
from trilemma.execution.durable_file import KeptFile


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.json")


def test_events_are_kept_by_name_and_in_order(ledger: Ledger) -> None:
    ledger.record("a", Event(1.0))
    ledger.record("b", Event(2.0, 7))
    record_event(ledger.path, "a", Event(3.0, 150, 0.1, "secret", "record"))
    ledger.record("a", Event(1.0, 2))
    again = Ledger(ledger.path)
    assert again.events("a") == (
        Event(1.0),
        Event(3.0, 150, 0.1, "secret", "record"),
        Event(1.0, 2),
    )
    assert again.events("b") == (Event(2.0, 7),)
    assert again.events("c") == ()


def test_other_askings_are_counted_apart_and_never_as_rounds(ledger: Ledger) -> None:
    ledger.record("a", Event(1.0, 2))
    for kind in ("evaluate", "query", "evaluate"):
        ledger.count("a", kind)
    ledger.record("a", Event(1.0))
    again = Ledger(ledger.path)
    assert again.asked("a") == {"evaluate": 2, "query": 1}
    assert again.events("a") == (Event(1.0, 3),)
    assert again.asked("b") == {}


def test_a_ledger_from_before_askings_were_counted_is_read(ledger: Ledger) -> None:
    rows = [{"noise_multiplier": 1.0, "rounds": 2, "q": 1.0, "participation": "known"}]
    ledger.path.touch(0o600)
    file = KeptFile(ledger.path, "trilemma ledger 1", "ledger", "mend it")
    file.write({"a": [{**rows[0], "level": "client"}]})
    assert ledger.events("a") == (Event(1.0, 2),)
    ledger.count("a", "evaluate")
    assert ledger.events("a") == (Event(1.0, 2),)


def test_equal_rounds_are_counted_in_one_line(ledger: Ledger) -> None:
    for _ in range(5):
        ledger.record("a", Event(0.5, 1, 0.1, "secret", "record"))
    assert ledger.events("a") == (Event(0.5, 5, 0.1, "secret", "record"),)


def test_spending_stops_where_the_terms_refuse_and_writes_nothing_then(ledger: Ledger) -> None:
    def refusal(events: Sequence[Event]) -> str | None:
        return "three are enough." if sum(event.rounds for event in events) > 3 else None

    for _ in range(3):
        ledger.check("a", Event(1.0), refusal)
        ledger.spend("a", Event(1.0), refusal)
    for action in (ledger.check, ledger.spend):
        with pytest.raises(BudgetSpent, match="three are enough"):
            action("a", Event(1.0), refusal)
    assert ledger.events("a") == (Event(1.0, 3),)
    ledger.spend("b", Event(1.0), refusal)


def test_only_its_owner_can_read_it(ledger: Ledger) -> None:
    old = os.umask(0)
    try:
        ledger.record("a", Event(1.0))
    finally:
        os.umask(old)
    assert {item.stat().st_mode & 0o777 for item in ledger.path.parent.iterdir()} == {0o600}
    ledger.path.chmod(0o640)
    with pytest.raises(InvalidInput, match="is open to other users; run chmod 600"):
        ledger.events("a")


@pytest.mark.parametrize(
    "damage", ["cut", "changed", "empty", "other", "binary", "deep", "event", "count"]
)
def test_a_damaged_ledger_is_refused_and_stays_as_it_is(ledger: Ledger, damage: str) -> None:
    ledger.record("a", Event(1.0, 9))
    text = ledger.path.read_text()
    document = json.loads(text)
    document["data"]["a"]["events"][0]["rounds"] = -1
    whole = json.loads(text)
    whole["data"]["a"]["asked"] = {"evaluate": -1}
    harm = {
        "count": json.dumps(whole).encode(),
        "cut": text[:-20].encode(),
        "changed": text.replace('"rounds": 9', '"rounds": 1').encode(),
        "empty": b"",
        "other": b"[]",
        "binary": b"\xff\xfe\x00",
        "deep": b"[" * 100_000,
        "event": json.dumps(document).encode(),
    }[damage]
    assert harm != text.encode()
    ledger.path.write_bytes(harm)
    for action in (lambda: ledger.events("a"), lambda: ledger.record("a", Event(1.0))):
        with pytest.raises(InvalidInput, match=r"is damaged, and nothing leaves this node"):
            action()
    assert ledger.path.read_bytes() == harm


@given(place=st.integers(0, 10_000), put=st.binary(max_size=3), cut=st.integers(0, 3))
def test_a_ledger_that_was_touched_is_refused_or_says_the_same(
    place: int, put: bytes, cut: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger")
        ledger.record("a", Event(0.52, 9, 0.1, "secret", "record"))
        text = ledger.path.read_bytes()
        place %= len(text)
        ledger.path.write_bytes(text[:place] + put + text[place + cut :])
        with suppress(InvalidInput):
            assert ledger.events("a") == (Event(0.52, 9, 0.1, "secret", "record"),)


def test_a_write_that_fails_leaves_the_old_ledger(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.record("a", Event(1.0))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match=r"cannot be read or written \(No space left"):
        ledger.record("a", Event(1.0))
    assert ledger.events("a") == (Event(1.0),)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file or directory"):
        Ledger(tmp_path / "none" / "ledger").record("a", Event(1.0))


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x1b[31m", "two\nlines"])
def test_a_name_must_be_printable(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 200 printable characters"):
        ledger.record(name, Event(1.0))


def spend_many(path: Path, times: int) -> None:
    for _ in range(times):
        Ledger(path).record("a", Event(1.0))


def test_processes_that_share_it_lose_no_round(ledger: Ledger) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=spend_many, args=(ledger.path, 20)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert ledger.events("a") == (Event(1.0, 60),)
