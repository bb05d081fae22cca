"""Imports go down only: a newcomer can read the rooms in order."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "trilemma"

# A room may import rooms of a lower rank, and itself.
RANK = {
    "errors": 0,
    "entropy": 1,
    "naming": 1,
    "quantities": 1,
    "updates": 1,
    "learning": 2,
    "observations": 2,
    "records": 2,
    "crypto": 3,
    "beliefs": 3,
    "work": 3,
    "bounds": 4,
    "protections": 5,
    "attacks": 5,
    "federation": 6,
    "estimation": 7,
    "scenarios": 8,
    "tuning": 8,
    "reporting": 9,
    "testing": 9,
    "commands": 10,
    "cli": 11,
    "__init__": 12,
    "__main__": 12,
}
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("trilemma.")}
    return rooms


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    own = room(path)
    assert own in RANK, f"{own} is a new room: give it a rank"
    for other in imported_rooms(path) - {own}:
        assert RANK[other] < RANK[own], f"{path.name} ({own}) imports {other}"


def test_the_rule_can_fail() -> None:
    sample = "from trilemma.tuning import problem\nimport trilemma.cli"
    tree = ast.parse(sample)
    assert isinstance(tree.body[0], ast.ImportFrom)
    assert RANK["tuning"] > RANK["protections"]
    assert RANK["protections"] == RANK["attacks"], (
        "protections and attacks are blind to each other"
    )
