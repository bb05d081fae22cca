"""README.txt of a pack: the statement as questions with answers, and how to check the pack."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilemma.evidence_pack.statement import Statement

__all__ = ["reading_guide"]

_QUESTIONS: Final = {
    "Who attacks?": "threat_model",
    "Knowing what?": "knowledge_granted",
    "Over which rounds?": "rounds_and_sampling",
    "What is hidden?": "unit_of_privacy",
    "What does the attacker read?": "released_statistics",
    "What is the chance, and how sure is it?": "success_rate",
    "Who is exposed most?": "worst_client",
    "In the words of differential privacy?": "differential_privacy",
    "What does it cost?": "accuracy",
}
_FILES: Final = (
    "- verdict.json: all results",
    "- report.html, and report.pdf if it is here: the same, to be read",
    "- statement.json: what this text says, for machines, as docs/statement.schema.json has it",
    "- manifest.json: the digest of each file; *.signature.json: who has signed",
)


def reading_guide(statement: Statement) -> str:
    """Who attacks, knowing what, over which rounds, how often it is right, what is not covered."""
    parts = []
    for head, lines in _parts(statement):
        wrapped = [
            textwrap.fill(line, 80, subsequent_indent="  " if line.startswith("- ") else "")
            for line in lines
        ]
        parts.append("\n".join([head, *wrapped]))
    return "\n\n".join(parts) + "\n"


def _parts(statement: Statement) -> Iterator[tuple[str, list[str]]]:
    protection = f"Protection: {statement.protection or 'none'}"
    yield (
        f"EVIDENCE on {statement.data.scenario}, {statement.date}",
        [statement.answer, protection],
    )
    for question, name in _QUESTIONS.items():
        claimed = getattr(statement, name)
        yield f"{question} [{claimed.status}]", [claimed.sentence]
    played = [
        f"- {each.attacker}: right in {each.right} of {each.games} games against {each.against}"
        for each in statement.games
    ]
    yield "What was played?", played or ["No game."]
    yield "What is not covered?", [f"- {each.sentence}" for each in statement.limits]
    yield "What was not measured?", [f"- {each.sentence}" for each in statement.not_measured]
    again = statement.evaluate_again
    by = [] if again.by is None else [f"- On {again.by} at the latest: our advice."]
    yield "When to evaluate again?", [*(f"- {event}" for event in again.events), *by]
    signer = statement.signed_by
    signed = "This pack is not signed: anyone may have written it."
    if signer is not None:
        signed = f"Signed by {signer.name or 'the owner'} with the Ed25519 key {signer.ed25519}."
    checked = "`trilemma verify` checks files and signature, not that the numbers are true."
    yield "Who says so?", [f"{signed} {checked}"]
    yield "How to make the numbers again?", [statement.reproduce or "The verdict does not say."]
    yield "Files", [*_FILES]
