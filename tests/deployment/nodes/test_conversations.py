"""Two nodes that differ in one record answer a server, whatever it asks, in the same way."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from tests.deployment.nodes.conversations import transcripts


def hold(numbers: range) -> Counter[str]:
    """How often a node answered and refused, if no conversation tells two nodes apart."""
    outcomes: Counter[str] = Counter()
    logging.disable(logging.CRITICAL)
    try:
        for number in numbers:
            (what, one), (_, other) = transcripts(number)
            assert one == other, f"conversation {number} ({what}) tells them apart"
            outcomes.update(
                "refused" if isinstance(entry[1], str) else "answered"
                for entry in one
                if isinstance(entry, tuple)
            )
    finally:
        logging.disable(logging.NOTSET)
    return outcomes


def test_no_conversation_tells_a_record() -> None:
    outcomes = hold(range(500))
    assert min(outcomes["answered"], outcomes["refused"]) > 500, "both were tried"


@pytest.mark.slow
def test_ten_thousand_conversations_tell_no_record() -> None:
    hold(range(500, 10_500))
