"""What the page's templates and scripts are given."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.reporting import examples

from trilemma.reporting.page.sections import (
    front_context,
    front_data,
    verdict_context,
    verdict_data,
)


def test_the_scripts_get_the_document_and_nothing_that_is_no_json() -> None:
    verdict, front = examples.verdict(), examples.front()
    for made, data in ((verdict, verdict_data(verdict)), (front, front_data(front))):
        again = json.loads(json.dumps(data, allow_nan=False))
        assert again["document"] == json.loads(json.dumps(made.as_json()))
        assert len(again["explorer"]["phrases"]) >= len(again["panels"])


def test_the_choice_has_its_place_beside_the_front() -> None:
    verdict = examples.verdict()
    chosen = verdict.choice
    assert chosen is not None
    assert chosen.costs is not None
    assert chosen.leakage is not None
    place = {"leakage": chosen.leakage.value, "loss": chosen.costs.utility_loss.value}
    assert verdict_data(verdict)["front"]["verdict"] == place
    key = replace(verdict, chosen="paillier")
    assert verdict_data(key)["front"]["verdict"]["leakage"] == 0.0
    assert verdict_data(replace(verdict, chosen=None))["front"]["verdict"] is None


def test_pictures_are_laid_out_only_where_records_may_be_shown() -> None:
    verdict, gallery = examples.verdict(), examples.gallery()
    assert verdict_context(verdict, gallery)["boards"]
    assert verdict_context(replace(verdict, show_records=False), gallery)["boards"] == ()
    assert verdict_context(verdict, None)["boards"] == ()


def test_the_page_of_a_front_says_what_was_asked() -> None:
    front = examples.front()
    asked = " ".join(map(str, front_context(front)["asked"]))
    assert str(front.claim.candidates) in asked
    assert str(front.claim.rounds) in asked
