"""The closed-form solutions as a table, the same in plain text on a pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trilemma.bounds import Constants
from trilemma.tuning.problem import Problem
from trilemma.tuning.surrogate.solving import Solution

__all__ = ["show"]

_ROWS: tuple[tuple[str, Callable[[Solution], str]], ...] = (
    ("parameter γ", lambda s: s.parameter.symbol),
    ("optimum γ*", lambda s: f"{s.value.value:.5g}" if s.value else "none"),
    ("distance to none", lambda s: _number(s.value.distance if s.value else None)),
    ("form", lambda s: s.form),
    ("distortion TV", lambda s: _number(s.distortion)),
    ("surrogate leakage", lambda s: _number(s.surrogate_leakage)),
    ("regime", lambda s: s.regime.replace("no-protection-needed", "no need")),
    ("proved", lambda s: "yes" if s.proved else "no"),
    ("utility loss ≤", lambda s: _number(s.utility_bound)),
    ("efficiency loss ≤", lambda s: _number(s.efficiency_bound)),
    ("objective", lambda s: _number(s.objective)),
)


def show(constants: Constants, problem: Problem, solutions: Sequence[Solution]) -> None:
    """Print the solutions side by side, then one sentence on what each is worth."""
    console = Console()
    console.width = min(console.width, 80)
    console.print(
        f"C1 = {constants.c1:g}, C2 = {constants.c2:g}, budget = {problem.budget:g} "
        f"(normalised leakage); basis: surrogate, the paper's closed forms",
        highlight=False,
    )
    table = Table(show_edge=False, pad_edge=False, box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="dim", no_wrap=True)
    for solution in solutions:
        table.add_column(solution.mechanism, no_wrap=True)
    for label, cell in _ROWS:
        table.add_row(label, *(Text(cell(solution)) for solution in solutions))
    console.print(Padding(table, (1, 0)))
    worth: dict[str, list[str]] = {}
    for solution in solutions:
        console.print(Text(f"{solution.parameter.symbol}: {solution.parameter.meaning}."))
        sentence = " ".join(filter(None, (_capitalised(solution.reason), solution.guarantee)))
        worth.setdefault(sentence, []).append(solution.mechanism)
    console.print()
    for sentence, mechanisms in worth.items():
        console.print(Text.assemble((", ".join(mechanisms), "bold"), f": {sentence}"))


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
