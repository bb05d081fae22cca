"""README.txt of a pack: the statement as questions with answers, and how to check the pack."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilemma.evidence.statement import Claimed, Statement

__all__ = ["reading_guide"]


def reading_guide(statement: Statement) -> str:
    """Who attacks, knowing what, over which rounds, how often it is right, what is not covered."""
    asked: dict[str, Claimed] = {
        "Who attacks?": statement.threat_model,
        "Knowing what?": statement.knowledge_granted,
        "Over which rounds?": statement.rounds_and_sampling,
        "What is hidden?": statement.unit_of_privacy,
        "What leaves the clients?": statement.released_statistics,
        "What is the chance, and how sure is it?": statement.success_rate,
        "Who is exposed most?": statement.worst_client,
        "In the words of differential privacy?": statement.differential_privacy,
        "What does it cost?": statement.accuracy,
    }
    played = [
        f"- {each.attacker}: {each.right} of {each.games} games against {each.against}"
        for each in statement.games
    ]
    again = statement.evaluate_again
    by = [] if again.by is None else [f"- At the latest on {again.by}, as we advise."]
    signer = statement.signed_by
    signed = "This pack is not signed: anyone may have written it."
    if signer is not None:
        signed = f"Signed by {signer.name or 'the owner'} of the Ed25519 key {signer.ed25519}."
    lines = [
        f"Evidence on {statement.data.scenario}, {statement.date}",
        statement.answer,
        f"Protection: {statement.protection or 'none'}",
        *(f"{question} [{item.status}]\n{item.sentence}" for question, item in asked.items()),
        "\n".join(["What was played?", *(played or ["Nothing."])]),
        "\n".join(["What is not covered?", *(f"- {each.sentence}" for each in statement.limits)]),
        "\n".join(
            ["What was not measured?", *(f"- {each.sentence}" for each in statement.not_measured)]
        ),
        "\n".join(["When to evaluate again?", *(f"- {event}" for event in again.events), *by]),
        f"Who says so?\n{signed} `trilemma verify` checks files and signature, not that the "
        f"numbers are true: for that, run the evaluation again: {statement.reproduce}",
        "Files: verdict.json (all results), report.html and report.pdf (the same to be read), "
        "statement.json (what this text says, for machines), manifest.json (digests).",
    ]
    return "\n\n".join(map(_wrapped, lines)) + "\n"


def _wrapped(paragraph: str) -> str:
    """Lines of 80 columns; what follows a dash is indented."""
    return "\n".join(
        textwrap.fill(line, 80, subsequent_indent="  " if line.startswith("- ") else "")
        for line in paragraph.splitlines()
    )
