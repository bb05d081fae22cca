"""The worked examples of CONTRIBUTING.md run, and the changes that they name can be made."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from trilemma.cli.main import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
OWN = {
    name.group(1): text
    for kind, text in BLOCKS
    if kind == "python" and (name := re.match(r"# (\w+)\.py\n", text))
}
# What shows that a part of the tree was added.
SHIPPED = {
    "nearest": "from trilemma.attacks import get\n"
    "from trilemma.game.playing.suite import suite_of\n"
    "from trilemma.scenarios.digits import digits\n"
    "assert get('nearest').name in suite_of(digits(), 'candidates').attacks\n",
    "laplace": "from trilemma.protection.specs import parse_protection\n"
    "assert parse_protection('laplace:b=0.5').transforms[0].scale == 0.5 * 2**0.5\n",
    "cohort": "from tests.reporting import examples\n"
    "from trilemma.reporting.page.page import verdict_page\n"
    "from trilemma.reporting.words.cohort_text import cohort_text\n"
    "assert cohort_text(examples.verdict()) in verdict_page(examples.verdict())\n",
}


def test_there_is_an_example_of_each_part() -> None:
    assert set(OWN) == {"nearest", "laplace", "deflated", "in_process"}


@pytest.mark.parametrize("name", OWN)
def test_a_part_of_your_own_runs_as_it_stands(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each example ends with its own check."""
    (tmp_path / f"{name}.py").write_text(OWN[name])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    __import__(name)


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all parts added as the page says."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__"))
    package = tree / "src" / "trilemma"
    for name, folder in (("nearest", "attacks"), ("laplace", "protection/transforms")):
        # The contract is a test of the part's, and imports what stands above it.
        kept = re.sub(r"(?m)^(from trilemma\.testing|check_).*\n", "", OWN[name])
        (package / folder / f"{name}.py").write_text(kept)
    for kind, text in BLOCKS:
        if place := re.match(r"(?:# |<!-- )(src/\S+)", text):
            (tree / place.group(1)).write_text(text)
        if kind == "diff":
            _apply(text, tree)
    return tree


@pytest.mark.slow
@pytest.mark.parametrize("code", SHIPPED.values(), ids=SHIPPED)
def test_the_changes_that_ship_it_are_all_that_is_needed(code: str, changed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=changed,
        env={"PYTHONPATH": f"{changed / 'src'}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", re.findall(r"`trilemma ([^`]+)`", PAGE))
def test_its_commands_are_understood(line: str) -> None:
    name, *words = line.split()
    commands: Any = get_command(app)
    commands.commands[name].make_context(name, words)


def _apply(text: str, tree: Path) -> None:
    """Each line with "+" goes behind the line above it, or in the place of one with "-"."""
    for place, changes in re.findall(r"(?m)^(src/\S+)\n((?:[ +-].*\n)+)", text):
        target = tree / place
        content = target.read_text()
        for mark, line, added in re.findall(r"(?m)^([ -])(.*\n)((?:\+.*\n)+)", changes):
            assert content.count(f"\n{line}") == 1, f"{place} has not one line {line!r}"
            new = re.sub(r"(?m)^\+", "", added)
            content = content.replace(f"\n{line}", f"\n{line if mark == ' ' else ''}{new}")
        target.write_text(content)
