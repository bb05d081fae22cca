"""Pages of docs/benchmarks, each made by the command it names; and peers that are what they say.

A page names its command in its first lines; the script takes those options, writes a file of the
page's name, and holds the page's title and every heading of it as a string.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.attacks import digits
from benchmarks.comparing.dlg import one_by_one, views_of
from benchmarks.comparing.grids import bonferroni, fixed_sequence
from benchmarks.comparing.simulated_attackers import SimulatedAttacker
from benchmarks.tuning import ALPHA
from scipy.stats import binom

from trilemma.beliefs.intervals import acceptance_size, clopper_pearson

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
OTHERS = {  # what these say instead
    "h200.md": "Put together from several runs",
    "prices.md": "Put together from several runs",
    "models.md": "Put together from several runs",
    "verdicts.md": "in parts; each table",
}
LEAST = 5  # letters of a string that can be told from others


@cache
def lines_of(script: Path) -> frozenset[str]:
    """Patterns of the lines of all strings in a script and in the parts of benchmarks it uses."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("benchmarks"):
            for name in (node.module, *(f"{node.module}.{item.name}" for item in node.names)):
                path = ROOT / f"{str(name).replace('.', '/')}.py"
                found |= lines_of(path) if path.exists() else set()
        parts: list[ast.expr] = node.values if isinstance(node, ast.JoinedStr) else []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = [node]
        text = "".join(str(p.value) if isinstance(p, ast.Constant) else "\0" for p in parts)
        plain = [line.removeprefix("docs/benchmarks/").lstrip("# ") for line in text.split("\n")]
        found |= {re.escape(line).replace("\0", ".*") for line in plain if _letters(line) >= LEAST}
    return frozenset(found)


def _letters(line: str) -> int:
    return sum(item.isalpha() for item in line)


def says(script: Path, told: str) -> bool:
    return any(re.fullmatch(line, told) for line in lines_of(script))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_made_by_the_command_it_names(page: Path) -> None:
    if page.name in OTHERS:
        assert OTHERS[page.name] in page.read_text()
        return
    lines = page.read_text().splitlines()
    named = re.search(r"`python benchmarks/(\w+)\.py([^`]*)`", "\n".join(lines[:6]))
    assert named, "no command"
    script = ROOT / "benchmarks" / f"{named[1]}.py"
    source = script.read_text()
    for option in re.findall(r"--[\w-]+", named[2]):
        assert f'"{option}"' in source
    assert says(script, page.name), page.name
    for line in lines:
        if re.match("#+ ", line):
            assert says(script, line.lstrip("# ")), line


@pytest.mark.parametrize(
    "script", sorted((ROOT / "benchmarks").glob("[!_]*.py")), ids=lambda each: each.name
)
def test_a_script_has_its_page(script: Path) -> None:
    assert any(says(script, page.name) for page in PAGES)


def test_grids_pass_a_bad_strength_as_often_as_their_level_says() -> None:
    attacker, draw = SimulatedAttacker("everywhere", 0.286), np.random.default_rng(0)
    size, runs = acceptance_size(3, 0.286, ALPHA), 3000
    bad = sum(fixed_sequence(20, size, 3)(attacker, draw)[0] is not None for _ in range(runs))
    exact = float(binom.cdf(3, size, attacker.success(0.0)))
    interval = clopper_pearson(bad, runs, 0.999)
    assert interval.low <= exact <= min(interval.high, ALPHA)
    bad = sum(bonferroni(20, size, 3)(attacker, draw)[0] is not None for _ in range(300))
    assert bad / 300 > 5 * exact  # each of 20 tests at the full level would not do


def test_a_fixed_sequence_ends_at_its_first_failure() -> None:
    attacker, draw = SimulatedAttacker("step", 0.286, 0.15), np.random.default_rng(0)
    found, units = fixed_sequence(21, 100, 10)(attacker, draw)
    assert found == pytest.approx(0.2)  # 1.2, 1.1, ... down to the step
    assert units == 12 * 100


@pytest.mark.parametrize("ranged", [True, False])
def test_torch_one_by_one_recovers_digits(ranged: bool) -> None:
    views, recovered = views_of(digits("cpu", 0).scenario, 2)
    found = [one_by_one(view, 0, 300, ranged=ranged) for view in views]
    assert recovered(torch.stack(found)) == 1
    assert recovered(1 - torch.stack(found)) == 0
