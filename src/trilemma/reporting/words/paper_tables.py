"""The paper's constants, its optima and what was measured there, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilemma.reporting.words.numbers import number, percent
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilemma.game.estimates import Estimate
    from trilemma.paper_framework.constants_from_counts import EstimatedConstants
    from trilemma.paper_framework.paper_result import Measured, Paper, Row

__all__ = [
    "CONSTANTS", "Sheet", "constant_rows", "facts", "remarks", "sheets", "show_estimate",
    "show_paper", "worth",
]  # fmt: skip


CONSTANTS: Final = ("", "C1", "xi", "C2", "xi smoothed", "C2 smoothed")
_FORMS: Final = {
    "printed": "printed",
    "corrected": "corrected",
    "tight": "corrected, with a tight TV",
}


@dataclass(frozen=True)
class Sheet:
    """A table of one form: a label, and a cell for each mechanism."""

    title: str
    mechanisms: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show_estimate(
    headline: str, found: EstimatedConstants, literal: EstimatedConstants | None
) -> None:
    """C₁, ξ and C₂ by datum and by class, and how far they can be trusted."""
    out = Printer()
    out.text(f"{headline}\n")
    out.table(CONSTANTS, constant_rows(found), gap=2)
    out.text("")
    for sentence in remarks(found):
        out.text(sentence)
    if literal is not None:
        read = literal.by_datum
        out.text(
            f"By the letter of Algorithm 3 (attacked at w' = w - lr·update, records paired by "
            f"position; T attempts, where its loop makes T + 1): C1 = {read.c1:.4g}, xi smoothed "
            f"{read.xi_smoothed:.4g}, {percent(literal.recovered)} recovered. This is one reading "
            f"of two: it says more of the pairing and the step than of what leaks."
        )


def show_paper(paper: Paper) -> None:
    """Constants, γ* of each mechanism and form, and beside them what was measured."""
    out = Printer()
    out.facts(facts(paper))
    out.title("Constants (Algorithms 2 to 4, by deep leakage from gradients)")
    out.table(CONSTANTS, constant_rows(paper.estimated), gap=2)
    out.text("")
    for sentence in remarks(paper.estimated):
        out.note(sentence)
    for sheet in sheets(paper):
        out.title(sheet.title)
        out.table(("", *sheet.mechanisms), sheet.rows)
    out.text("")
    for sentence in worth(paper):
        out.note(sentence)


def worth(paper: Paper) -> Iterator[str]:
    """What the optima are worth, and why some cannot be run; each sentence once."""
    said: dict[str, list[str]] = {}
    for row in paper.rows:
        found, measured = row.optimum, row.measured
        notes = (row.note or found.reason, found.guarantee, measured.note if measured else "")
        for sentence in filter(None, notes):
            said.setdefault(sentence, []).append(f"{found.mechanism} {found.form}")
    for sentence, names in said.items():
        whose = "all" if len(names) == len(paper.rows) else ", ".join(names)
        yield f"{whose}: {sentence[:1].upper()}{sentence[1:]}"


def facts(paper: Paper) -> Iterator[tuple[str, str]]:
    """What was attacked, and how: all that decides the numbers."""
    found = paper.estimated
    yield "federation", f"{paper.scenario}: K = {paper.clients}, m = {paper.parameters:,}"
    yield "attacker", f"the server, semi-honest, one round, no knowledge: {paper.attack}"
    yield (
        "recovered",
        f"{paper.criterion}; {percent(found.recovered)} of attempts on unprotected updates",
    )
    effort = (
        f"M = {found.models}, R = {paper.steps}, T = {found.attempts}, S = {found.records}, "
        f"seed {paper.seed}; at γ* the best of {paper.restarts} starts, {paper.seeds} paired "
        f"trainings of {paper.rounds} rounds"
    )
    yield "effort", effort
    yield (
        "prior f_D",
        f"κ = {number(found.kappa)} on the data, the rate of a blind guess; 1 - κ on d0",
    )
    yield "δ", _several(paper.deltas)
    yield "A = √Σσᵢ⁻⁴", f"{_several(paper.precisions)}; {_several(paper.floored)} sigmas floored"
    yield (
        "weights",
        f"η_u = {_weight(paper.utility_weight)}, η_e = {_weight(paper.efficiency_weight)}",
    )
    caps = ((paper.max_utility_loss, "ε_u"), (paper.max_cost, "ε_e"))
    if said := ", ".join(f"{name} ≤ {number(cap)}" for cap, name in caps if cap is not None):
        yield "caps", said
    yield "CPU seconds", f"{paper.cpu_seconds:.0f}"


def constant_rows(found: EstimatedConstants) -> Iterator[tuple[str, ...]]:
    """One row for Algorithm 3, one for Algorithm 4."""
    for name, beliefs in (
        ("Algorithm 3, by datum", found.by_datum),
        ("Algorithm 4, by class", found.by_class),
    ):
        if beliefs is not None:
            yield (
                name,
                f"{beliefs.c1:.4g}",
                _or_infinite(beliefs.xi),
                _or_infinite(beliefs.c2),
                f"{beliefs.xi_smoothed:.4g}",
                f"{beliefs.c2_smoothed:.4g}",
            )


def remarks(found: EstimatedConstants) -> Iterator[str]:
    """What the constants are worth, a sentence each."""
    clients = ", ".join(f"{value:.3f}" for value in found.by_datum.c1_clients[:12])
    more = ", ..." if len(found.by_datum.c1_clients) > 12 else ""
    yield f"C1 of each client, by datum: {clients}{more}."
    if found.by_datum.c2 is None:
        yield (
            f"ξ and C2 are not finite, because {found.by_datum.reason}: the smoothed values add "
            f"half a count to every outcome and say as much of the number of attempts as of the "
            f"data (E6). Algorithm 1 goes on with them."
        )
    if found.relative_error is None:
        asks = found.attempts_needed
        yield (
            "The Chernoff lemma promises nothing here"
            + (
                f"; for a relative error of .1 it asks for M·T = {asks:,}."
                if asks
                else ": some outcome was never seen."
            )
        )
    else:
        from trilemma.paper_framework.surrogate_bounds import c1_error_bound, leakage_error_bound

        error = found.relative_error
        yield (
            f"By the Chernoff lemma no belief errs by more than {percent(error)} of itself, at "
            f"confidence {found.confidence:g}. So C1 errs by at most "
            f"{c1_error_bound(error):.3g} (as printed, Theorem 7.1: "
            f"{c1_error_bound(error, 'printed'):.3g}), and the metric by "
            f"{leakage_error_bound(error):.3g} (Theorem 7.2: "
            f"{leakage_error_bound(error, 'printed'):.3g})."
        )
    if found.diverged:
        yield f"{found.diverged} attacks diverged and count as recoveries."


def sheets(paper: Paper) -> Iterator[Sheet]:
    """γ* of each mechanism, what the paper says of it and what was measured: one sheet a form."""
    for form in dict.fromkeys(row.optimum.form for row in paper.rows):
        own = [row for row in paper.rows if row.optimum.form == form]
        yield Sheet(
            f"γ* as {_FORMS[form]}, for a budget of {number(paper.budget)}",
            tuple(row.optimum.mechanism for row in own),
            tuple((label, *map(cell, own)) for label, cell in _LABELS),
        )


def _gamma(row: Row) -> str:
    gamma = row.optimum.parameter
    return number(gamma.value) if row.gamma is not None else "none"


def _measured(cell: Callable[[Measured], str]) -> Callable[[Row], str]:
    return lambda row: "–" if row.measured is None else cell(row.measured)


def _value(estimate: Estimate | None) -> str:
    return number(None if estimate is None else estimate.value)


def _limits(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate.low:.2g} .. {estimate.high:.2g}"


_LABELS: Final[tuple[tuple[str, Callable[[Row], str]], ...]] = (
    ("parameter γ", lambda row: row.optimum.parameter.symbol),
    ("optimum γ*", _gamma),
    ("from neutral", lambda row: number(row.optimum.parameter.distance)),
    ("TV, modelled", lambda row: number(row.optimum.distortion)),
    ("TV, true", lambda row: number(row.optimum.true_distortion)),
    ("metric, eq. 6", lambda row: number(row.optimum.surrogate_leakage)),
    ("ε_p ≤, Thm 4.1", lambda row: number(row.leakage_bound)),
    ("ε_u ≤", lambda row: number(row.optimum.utility_bound)),
    ("ε_e ≤", lambda row: number(row.optimum.efficiency_bound)),
    ("objective", lambda row: number(row.optimum.objective)),
    ("ε_p measured", _measured(lambda found: _value(found.leakage))),
    ("  interval", _measured(lambda found: _limits(found.leakage))),
    ("  recovered", _measured(lambda found: f"{found.recovered} of {found.units}")),
    ("ε_u measured", _measured(lambda found: _value(found.utility_loss))),
    ("  interval", _measured(lambda found: _limits(found.utility_loss))),
    ("ε_e measured", _measured(lambda found: _value(found.efficiency_reduction))),
    ("  interval", _measured(lambda found: _limits(found.efficiency_reduction))),
    ("  bits, ratio", _measured(lambda found: number(found.bits))),
)


def _several(values: tuple[float | None, ...] | tuple[int, ...]) -> str:
    """One number, or from the least to the largest of the clients'."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high = min(known), max(known)
    return number(low) if low == high else f"{number(low)} to {number(high)}, by client"


def _weight(weight: float | tuple[float, ...]) -> str:
    return ", ".join(map(number, weight)) if isinstance(weight, tuple) else number(weight)


def _or_infinite(value: float | None) -> str:
    return "∞" if value is None else f"{value:.4g}"
