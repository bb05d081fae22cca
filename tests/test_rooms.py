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
    "door": 10,
    "commands": 11,
    "cli": 12,
    "__init__": 13,
    "__main__": 13,
}
# The same inside a room: by folder, or by module.
SUB_RANK = {
    "protections": {
        "parameter": 0,
        "round_info": 0,
        "texts": 0,
        "laws": 1,
        "transforms": 2,
        "transports": 2,
        "protection": 3,
        "transcripts": 3,
        "sessions": 4,
        "specs": 4,
        "rounds": 5,
        "twin": 6,
        "observing": 6,
        "__init__": 7,
    },
    "estimation": {
        "leakage": 0,
        "suitability": 0,
        "given": 1,
        "scenario": 2,
        "models": 3,
        "sharing": 3,
        "identity": 4,
        "paper_bounds": 4,
        "recipes": 4,
        "costs": 5,
        "playing": 5,
        "recovering": 5,
        "jobs": 6,
        "bench": 7,
        "__init__": 8,
    },
    "tuning": {
        "presets": 0,
        "problem": 0,
        "calibrating": 1,
        "request": 1,
        "results": 2,
        "families": 3,
        "plan": 4,
        "surrogate": 4,
        "certificate": 5,
        "choosing": 6,
        "fronts": 7,
        "estimates": 8,
        "asides": 9,
        "telling": 10,
        "forecasting": 11,
        "again": 12,
        "tune": 12,
        "__init__": 13,
    },
}
MOST_MODULES = 12  # of a folder
MOST_IMPORTS = 6  # of a module of tuning/, from tuning/
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path, depth: int = 0) -> str:
    return path.relative_to(SOURCE).parts[depth].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """All names of ours that a file imports, wherever it does, as trilemma.room.module.name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name for name in names if name.startswith("trilemma.")}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    own = room(path)
    assert own in RANK, f"{own} is a new room: give it a rank"
    for other in {name.split(".")[1] for name in imported(path)} - {own}:
        assert RANK[other] < RANK[own], f"{path.name} ({own}) imports {other}"


@pytest.mark.parametrize(
    "path", [p for p in FILES if room(p) in SUB_RANK], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_inside_a_room_go_down_only(path: Path) -> None:
    ranks, own = SUB_RANK[room(path)], room(path, 1)
    assert own in ranks, f"{own} is new in {room(path)}: give it a rank"
    inside = [name.split(".") for name in imported(path)]
    for other in {name[2] for name in inside if name[1] == room(path)} - {own}:
        assert ranks[other] < ranks[own], f"{path.name} ({own}) imports {other}"


FOLDERS = sorted({path.parent for path in FILES})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_folder_can_be_seen_at_a_glance(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, f"{folder.name} holds {len(modules)} modules"


def modules_of(room: str, names: set[str]) -> set[str]:
    """The modules of a room among imported names, as room.folder.module or room.module."""
    found = set()
    for name in names:
        parts = name.split(".")[1:]
        if parts[0] == room:
            while parts and not (SOURCE.joinpath(*parts).with_suffix(".py")).exists():
                parts = parts[:-1]
            found.add(".".join(parts))
    return found


@pytest.mark.parametrize(
    "path", [p for p in FILES if room(p) == "tuning"], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_a_module_of_tuning_needs_few_others(path: Path) -> None:
    others = modules_of("tuning", imported(path))
    assert len(others) <= MOST_IMPORTS, f"{path.name} imports {sorted(others)}"


@pytest.mark.parametrize("module", ["protection", "sessions", "rounds", "observing"])
def test_a_protection_knows_no_transform_and_no_transport(module: str) -> None:
    """What they are (base), how messages look (wire, payloads), and that there is a plain one."""
    kinds = {"transforms", "transports"}
    names = [name.split(".") for name in imported(SOURCE / "protections" / f"{module}.py")]
    inside = [name[2:] for name in names if name[1] == "protections" and name[2] in kinds]
    assert {".".join(name[:2]) for name in inside} <= {
        "transforms.base",
        "transports.PLAIN",
        "transports.base",
        "transports.payloads",
        "transports.wire",
    }


def test_the_rule_can_fail() -> None:
    sample = "from trilemma.tuning import problem\nimport trilemma.cli"
    tree = ast.parse(sample)
    assert isinstance(tree.body[0], ast.ImportFrom)
    assert RANK["tuning"] > RANK["protections"]
    assert RANK["protections"] == RANK["attacks"], (
        "protections and attacks are blind to each other"
    )
