"""The closed-form solutions as a table, the same in plain text on a pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.text import Text

from trilemma.paper_framework.solving import Solution
from trilemma.paper_framework.surrogate_bounds import Constants
from trilemma.reporting.words.terminal import Printer
from trilemma.tuning.problem import Problem

__all__ = ["show"]

_ROWS: tuple[tuple[str, Callable[[Solution], str]], ...] = (
    ("parameter γ", lambda s: s.parameter.symbol),
    ("optimum γ*", lambda s: f"{s.value.value:.5g}" if s.value else "none"),
    ("distance to none", lambda s: _number(s.value.distance if s.value else None)),
    ("form", lambda s: s.form),
    ("TV, modelled", lambda s: _number(s.distortion)),
    ("TV, true", lambda s: _number(s.true_distortion)),
    ("surrogate leakage", lambda s: _number(s.surrogate_leakage)),
    ("regime", lambda s: s.regime.replace("no-protection-needed", "no need")),
    ("proved, model", lambda s: "yes" if s.proved_in_the_model else "no"),
    ("proved, true TV", lambda s: "yes" if s.proved else "no"),
    ("utility loss ≤", lambda s: _number(s.utility_bound)),
    ("efficiency loss ≤", lambda s: _number(s.efficiency_bound)),
    ("objective", lambda s: _number(s.objective)),
)


def show(constants: Constants, problem: Problem, solutions: Sequence[Solution]) -> None:
    """Print the solutions side by side, then one sentence on what each is worth."""
    out = Printer()
    out.text(
        f"C1 = {constants.c1:g}, C2 = {constants.c2:g}, budget = {problem.budget:g} "
        f"(normalised leakage); the paper's closed forms\n"
    )
    rows = ((label, *map(cell, solutions)) for label, cell in _ROWS)
    out.table(("", *(solution.mechanism for solution in solutions)), rows, gap=2)
    out.text("")
    worth: dict[str, list[str]] = {}
    for solution in solutions:
        out.text(f"{solution.parameter.symbol}: {solution.parameter.meaning}.")
        sentence = " ".join(filter(None, (_capitalised(solution.reason), solution.guarantee)))
        worth.setdefault(sentence, []).append(solution.mechanism)
    out.text("")
    for sentence, mechanisms in worth.items():
        out.note(Text.assemble((", ".join(mechanisms), "bold"), f": {sentence}"))


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
