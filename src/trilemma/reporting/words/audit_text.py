"""An audit in sentences and tables, in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilemma.protection.specs import in_words
from trilemma.reporting.words.knowledge_text import WHAT_IS_KNOWN
from trilemma.reporting.words.numbers import (
    at_most,
    bound,
    hundred,
    lost,
    metric,
    number,
    percent,
)
from trilemma.reporting.words.terminal import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilemma.tuning.audit.audit_result import Accuracy, Attempt, Audit
    from trilemma.tuning.audit.setting_guarantees import Guaranteed

__all__ = ["answer", "show_audit"]


def answer(audit: Audit) -> str:
    """Whether the budget is kept, and by what that is known."""
    most, size = audit.largest_success_rate, audit.claim.candidates
    budget = (
        f"the budget of leakage {number(audit.budget)} ({at_most(most)} right guesses among "
        f"{size} candidates)"
    )
    if audit.basis == "proved":
        return f"It keeps {budget}: proved, whatever the attacker knows."
    if audit.keeps:
        return (
            f"No attack of who knows {_known(audit)} was shown to exceed {budget}. Measured; of "
            "other attackers it says nothing."
        )
    worst = _worst(audit)
    if worst is not None and worst.success.low > most:
        return f"It does not keep {budget}: {worst.attack} guesses right more often."
    return f"It was not shown to keep {budget}."


def _known(audit: Audit) -> str:
    return "the rest" if audit.knows == "rest" else WHAT_IS_KNOWN[audit.knows]


def _worst(audit: Audit) -> Attempt | None:
    tried = [attempt for known in audit.known if known.granted for attempt in known.attempts]
    return max(tried, key=lambda each: each.success.low, default=None)


def show_audit(audit: Audit) -> None:
    """Print the answer, what attackers reach, what is proved and lost, and what to do instead."""
    out = Printer()
    rounds, size = audit.claim.rounds, audit.claim.candidates
    over = "one round" if rounds == 1 else f"{rounds:,} rounds"
    out.text(f"{audit.setting}\non {audit.scenario}, {over}, read by the server")
    out.text(f"\n{answer(audit)}", bold=True)
    out.title(f"Right guesses among {size} candidates, over the whole training")
    blind = hundred(1 / size)
    out.table(
        ("attacker knows", "of 100", f"limits ({percent(audit.confidence)})", "attack", ""),
        _rows(audit),
        gap=2,
    )
    out.note(f"Blind guessing gives {blind}.")
    out.title("Proved")
    lines = [*_proofs(audit)]
    out.bullets(lines or ["Nothing: no noise on clipped updates, so epsilon = none."])
    out.title(f"{audit.accuracy.metric.capitalize()}")
    out.note(f"{_lost(audit.accuracy)}, over {audit.accuracy.trainings} paired trainings.")
    out.title("Instead")
    out.facts(_instead(audit))
    if audit.remarks:
        out.title("To know")
        out.bullets(audit.remarks)
    if audit.paste:
        print(f"\n{audit.paste}")


def _rows(audit: Audit) -> Iterator[tuple[str, ...]]:
    for known in audit.known:
        name = WHAT_IS_KNOWN[known.knows]
        if not known.attempts:
            yield name, "–", "", "none applies here", ""
            continue
        best = known.attempts[0]
        low, high = (f"{100 * end:.3g}" for end in (best.success.low, best.success.high))
        yield (
            name,
            f"{100 * best.success.value:.3g}",
            f"{low} to {high}",
            best.attack,
            "" if known.granted else "not granted",
        )


def _proofs(audit: Audit) -> Iterator[str]:
    for item in audit.guaranteed:
        what = "a whole client" if item.level == "client" else "one record"
        whom = (
            "against the server"
            if item.against == "server"
            else "against all who see no more than the models, not against the server"
        )
        said = f"({bound(item.epsilon)}, {item.delta:g})-private for {what} {whom}"
        yield f"{said}: {_bound(item)}."


def _bound(proved: Guaranteed) -> str:
    if proved.success >= 0.995:
        return "that bounds no guess"
    return f"at most {at_most(proved.success)} right guesses"


def _lost(accuracy: Accuracy) -> str:
    if accuracy.lost is None:
        return accuracy.reason
    before = metric(accuracy.unprotected, accuracy.metric)
    after = metric(accuracy.protected, accuracy.metric)
    return f"{before} → {after}: {lost(accuracy.lost, accuracy.metric)}"


def _instead(audit: Audit) -> Iterator[tuple[str, str]]:
    nearest, best = audit.nearest, audit.best
    if nearest is None:
        yield "same kind", audit.no_nearest
    else:
        said = (
            f"{nearest.setting}: {at_most(nearest.success)} right guesses at most, "
            f"{nearest.basis}; {_lost(nearest.accuracy)}."
        )
        yield "same kind", said
    if best is None:
        yield "any kind", audit.no_best
    else:
        said = (
            f"{in_words(best.protection)} at noise multiplier {number(best.noise_multiplier)}: "
            f"{at_most(best.success)} right guesses at most, proved, "
            f"({bound(best.epsilon)}, {best.delta:g})-private; {_lost(best.accuracy)}."
        )
        yield "any kind", said
        yield "to get it", best.command
