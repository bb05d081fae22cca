"""A whole verdict for people, in 80 columns: the same text on a terminal and on a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from trilemma.reporting.words.answer import (
    cost_facts,
    earlier_tests,
    final_tests,
    not_needed,
    summary,
    verdict_metric,
)
from trilemma.reporting.words.numbers import (
    bound,
    count,
    hundred,
    interval,
    listed,
    metric,
    number,
    slower,
)
from trilemma.reporting.words.proof_text import proved
from trilemma.reporting.words.protection_text import family, short_spec, strength
from trilemma.reporting.words.terminal import Printer, short

if TYPE_CHECKING:
    from trilemma.tuning.results.candidate import Candidate
    from trilemma.tuning.results.verdict import Verdict

__all__ = ["show_verdict"]


def show_verdict(verdict: Verdict) -> None:
    """Print the summary, and what it leaves out: the tests, proofs, candidates and limits."""
    out = Printer()
    print(summary(verdict))
    out.title("Details")
    out.facts(_details(verdict))
    _show_tests(out, verdict)
    for item in proved(verdict.candidates):
        out.title(f"Proved against anyone: {listed([family(name) for name in item.conditions])}")
        out.table(item.columns, item.candidate_sets, gap=2)
        for sentence in item.readings:
            out.note(sentence)
    _show_candidates(out, verdict)
    out.title("Not covered, in full")
    out.bullets(verdict.limits)


def _details(verdict: Verdict) -> Iterator[tuple[str, str]]:
    there = verdict.federation
    yield (
        "federation",
        (
            f"{there.scenario}: {count(there.clients, 'client')}, "
            f"{count(there.records_per_update, 'record')} an update "
            f"({verdict.deployment.local_training.algorithm}), "
            f"{count(there.parameters, 'parameter')}; seed {verdict.request.seed}"
        ),
    )
    if verdict.protection is not None:
        spec = short_spec(verdict.protection.describe())
        yield "spec", spec.replace(",", ", ").replace("+", " + ")
    if verdict.choice is not None:
        yield "leakage", f"{_leaks(verdict.choice)}; limit {number(verdict.request.budget)}"
    yield from cost_facts(verdict)
    for item in verdict.beside:
        leak = "" if item.leakage is None else f"; leakage {interval(item.leakage)}"
        yield "beside", f"{item.who}: {item.statement.rstrip('.')}{leak}"
    for belief in verdict.beliefs:
        yield (
            "the paper's leakage",
            f"{belief.attack} {number(belief.mean)}, most exposed client {number(belief.largest)}",
        )


def _show_tests(out: Printer, verdict: Verdict) -> None:
    chosen = verdict.choice
    tests = () if chosen is None else final_tests(chosen)
    if chosen is None or not tests:
        return
    allowed, blind = hundred(verdict.largest_success_rate), hundred(verdict.claim.kappa)
    out.title(f"Tests by fresh games (allowed: {allowed}, guessing: {blind})")
    known = {attack.name: attack for attack in verdict.attacks}
    rows = []
    for test in tests:
        used = known.get(test.attack)
        bare = f"{used.control_recovered} of {used.control_units}" if used else "–"
        passed = "yes" if test.passed else "NO"
        rows.append((test.attack, f"{test.recovered} of {test.units}", passed, bare))
    out.table(("attack", "right guesses", "passed", "unprotected round"), rows, gap=2)
    out.note(earlier_tests(chosen))


def _show_candidates(out: Printer, verdict: Verdict) -> None:
    out.title("All candidates, the least cost first")
    shown = verdict_metric(verdict)
    rows = []
    for item in verdict.candidates:
        costs, found = item.costs, "–"
        if item.leakage or costs:
            found = short(strength(item.name, item.strength))
        rows.append(
            (
                "-" if item.rank is None else f"{item.rank}{'=' if item.tied else ''}",
                family(item.name),
                found,
                _leaks(item),
                "–" if costs is None else metric(costs.protected_metric, shown),
                "–" if costs is None else slower(costs.efficiency_reduction.value),
            )
        )
    out.table(
        ("#", "family", "strength", "leakage", shown.replace("minus the ", "-"), "round"), rows
    )
    for statement, names in _statements(verdict).items():
        out.note(Text.assemble((", ".join(names), "bold"), f": {statement}"))


def _leaks(each: Candidate) -> str:
    if each.certificate is not None:
        return f"at most {bound(each.certificate.leakage)}"
    if each.leakage is not None:
        return f"{each.leakage.value:.2f} [{each.leakage.low:.2f}, {each.leakage.high:.2f}]"
    if each.basis == "cryptographic":
        return "key"
    if each.smallest_leakage is not None:
        return f"not below {each.smallest_leakage:.2f}"
    return "–"


def _statements(verdict: Verdict) -> dict[str, list[str]]:
    """Why candidates cannot be chosen, or need not be, each sentence once."""
    found: dict[str, list[str]] = {}
    for item in verdict.candidates:
        spare = not_needed(verdict, item)
        if spare or item.rank is None:
            found.setdefault(spare or item.statement, []).append(family(item.name))
    return found
