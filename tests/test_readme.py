"""What the README and the page on the paper show is what happens."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text() + (ROOT / "docs" / "paper.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = re.findall(r"^\$ (trilemma solve .*)$", README, flags=re.MULTILINE)


def test_the_readme_has_snippets() -> None:
    assert PYTHON
    assert COMMANDS


def test_the_documentation_is_named_within_two_screens() -> None:
    """A link comes after 90 lines at most, and after the two commands."""
    lines = README.splitlines()
    first = next(place for place, line in enumerate(lines) if "](docs/" in line)
    assert lines.index("$ make test   # sets up .venv, then runs the tests") < first < 90


@pytest.mark.parametrize("snippet", PYTHON)
def test_python_snippets_run(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(snippet, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_and_print_what_the_readme_shows(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=True
    )
    after = README.split(f"$ {command}\n", 1)[1]
    shown = after.split("```", 1)[0].strip()
    assert _squeezed(shown) in _squeezed(done.stdout)


def _squeezed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
