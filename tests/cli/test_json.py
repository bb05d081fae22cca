"""Every command has --json, whose object docs/commands.schema.json describes.

`here` validates what each test prints with --json; these are the commands that others leave out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.own_scenario import small
from tests.cli.running import SCHEMAS, here, require_schema
from tests.reporting import examples
from typer.main import get_command

import trilemma
from trilemma.cli.main import app


def test_every_command_has_json_and_a_schema() -> None:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        own = getattr(command, "commands", {"": command}).values()
        for one in own:
            assert any("--json" in option.opts for option in one.params), name
        assert name in SCHEMAS, name


@pytest.mark.parametrize(
    "words",
    [
        ("explain",),
        ("explain", "--at-most", "1 in 6", "--candidates", "4"),
        ("new", "fresh", "--kind", "table"),
        ("runs", "."),
        ("report", "run"),
        ("figures", "run", "--out", "plots"),
        ("keys", "new", "own.key", "--bits", "2048", "--public", "own.pub"),
        ("keys", "new", "signer.pem", "--sign"),
    ],
)
def test_an_object_and_nothing_else_is_printed(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run").mkdir()
    examples.verdict().save(tmp_path / "run" / "verdict.json")
    monkeypatch.chdir(tmp_path)
    code, out, err = here(monkeypatch, capsys, *words, "--json")
    assert code == 0, err
    document = json.loads(out)
    assert all((tmp_path / name).is_file() for name in document.get("files", []))


def test_what_a_budget_allows_is_what_is_printed_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = here(monkeypatch, capsys, "explain", "--at-most", "1 in 6", "--json")
    rates = {row["candidates"]: row["rate"] for row in json.loads(out)["rates"]}
    assert rates[100] == pytest.approx(1 / 6)
    _, out, _ = here(
        monkeypatch, capsys, "explain", "--at-most", "1 in 6", "--candidates", "5", "--json"
    )
    assert json.loads(out)["rates"] == [{"candidates": 5, "rate": None, "leakage": None}]


def test_a_look_has_its_schema() -> None:
    found = trilemma.check(small(), attacks=["analytic"], families=["randomization"])
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    require_schema("check", document)
    assert (document["scenario"], document["candidates"]) == ("small", 21)
    assert document["cpu_seconds"]["tune"]["least"] > 0
