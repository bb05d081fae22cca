"""Imports go down only: a newcomer can read the rooms in order."""

from __future__ import annotations

import ast
import re
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
    "execution": 3,
    "accounting": 4,
    "protection": 5,
    "attacks": 5,
    "federation": 6,
    "game": 7,
    "scenarios": 8,
    "tuning": 8,
    "paper_framework": 9,
    "deployment": 9,
    "reporting": 10,
    "testing": 10,
    "settings": 10,
    "evidence_pack": 11,
    "api": 12,
    "cli": 13,
    "__init__": 14,
    "__main__": 14,
}
# The same inside a room: by folder, or by module.
SUB_RANK = {
    "protection": {
        "parameter": 0,
        "round_info": 0,
        "spec_texts": 0,
        "transforms": 2,
        "transports": 2,
        "protection": 3,
        "transcripts": 3,
        "sessions": 4,
        "specs": 4,
        "session_rounds": 5,
        "adversary_view": 6,
        "round_arithmetic": 7,
        "__init__": 8,
    },
    "game": {
        "estimates": 0,
        "job_results": 0,
        "differentiability": 0,
        "validation": 1,
        "scenario": 2,
        "prepared_models": 3,
        "gpu_sharing": 3,
        "baseline": 3,
        "scenario_identity": 4,
        "recipe_scenarios": 4,
        "costs": 5,
        "playing": 5,
        "recovering": 6,
        "jobs": 7,
        "job_runner": 8,
        "__init__": 8,
    },
    "tuning": {
        "presets": 0,
        "problem": 0,
        "time_left": 1,
        "calibration": 1,
        "request": 1,
        "results": 2,
        "families": 3,
        "plan": 4,
        "recipe_rule": 4,
        "proof": 5,
        "choice": 6,
        "pareto": 7,
        "possible_jobs": 8,
        "unit_times": 8,
        "replication": 9,
        "audit": 9,
        "audit_canaries": 9,
        "check_report": 9,
        "attack_rates": 9,
        "tuning_run": 9,
        "__init__": 10,
    },
}
FILES = sorted(SOURCE.rglob("*.py"))
# A verdict shows itself in a notebook: a method of it reads the pictures when it is called.
BY_STRING = {"tuning/results/notebook_view.py": {"reporting"}}
MODULE = re.compile(r"trilemma(\.\w+)+")


def room(path: Path, depth: int = 0) -> str:
    return path.relative_to(SOURCE).parts[depth].removesuffix(".py")


def imported(source: str) -> set[str]:
    """All names of ours that a file imports, wherever it does, as trilemma.room.module.name.

    Modules that are named in a string are imported by that name: to preload or to resolve them.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import of {node.module}"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and _is_module(node.value):
            names.add(str(node.value))
    return {name for name in names if name.startswith("trilemma.")}


def _is_module(value: object) -> bool:
    if not (isinstance(value, str) and MODULE.fullmatch(value)):
        return False
    path = SOURCE.joinpath(*value.split(".")[1:])
    return path.with_suffix(".py").exists() or path.is_dir()


def upward(own: str, source: str) -> set[str]:
    """The rooms that a file of the room `own` imports although they are not below it."""
    rooms = {name.split(".")[1] for name in imported(source)} - {own}
    return {other for other in rooms if RANK[other] >= RANK[own]}


def upward_inside(outer: str, own: str, source: str) -> set[str]:
    """The same inside a room, by folder or module."""
    ranks = SUB_RANK[outer]
    names = [name.split(".") for name in imported(source)]
    inside = {name[2] for name in names if name[1] == outer and len(name) > 2} - {own}
    return {other for other in inside if ranks[other] >= ranks[own]}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path: Path) -> None:
    assert room(path) in RANK, f"{room(path)} is a new room: give it a rank"
    allowed = BY_STRING.get(str(path.relative_to(SOURCE)), set())
    assert upward(room(path), path.read_text()) == allowed


@pytest.mark.parametrize(
    "path", [p for p in FILES if room(p) in SUB_RANK], ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_inside_a_room_go_down_only(path: Path) -> None:
    outer, own = room(path), room(path, 1)
    assert own in SUB_RANK[outer], f"{own} is new in {outer}: give it a rank"
    assert not upward_inside(outer, own, path.read_text())


@pytest.mark.parametrize("module", ["protection", "sessions", "session_rounds", "adversary_view"])
def test_a_protection_knows_no_transform_and_no_transport(module: str) -> None:
    """What they are (base), how messages look (wire, payloads), and that there is a plain one."""
    kinds = {"transforms", "transports"}
    source = (SOURCE / "protection" / f"{module}.py").read_text()
    names = [name.split(".") for name in imported(source)]
    inside = [name[2:] for name in names if name[1] == "protection" and name[2] in kinds]
    assert {".".join(name[:2]) for name in inside} <= {
        "transforms.base",
        "transports.PLAIN",
        "transports.base",
        "transports.plain_payloads",
        "transports.wire",
    }


@pytest.mark.parametrize(
    ("own", "source", "above"),
    [
        ("crypto", "from trilemma.protection.protection import Protection", {"protection"}),
        ("protection", "import trilemma.attacks.base", {"attacks"}),
        ("attacks", "def late() -> None:\n    import trilemma.cli.main", {"cli"}),
        ("execution", 'NEEDED = ("trilemma.game.job_runner",)', {"game"}),
        ("tuning", "from trilemma.protection.specs import parse_protection", set()),
        ("tuning", 'SAYS = "trilemma.tune of a scenario"', set()),
    ],
)
def test_an_import_upwards_is_seen(own: str, source: str, above: set[str]) -> None:
    assert upward(own, source) == above


def test_an_import_upwards_inside_a_room_is_seen() -> None:
    upwards = "from trilemma.protection.session_rounds import run_round"
    assert upward_inside("protection", "transforms", upwards) == {"session_rounds"}
    assert not upward_inside("protection", "round_arithmetic", upwards)


def test_no_two_modules_share_a_name() -> None:
    names = [path.stem for path in FILES if path.stem not in ("__init__", "__main__", "base")]
    assert {name for name in names if names.count(name) > 1} == set()
