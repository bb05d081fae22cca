"""Every setting of a request is shown, with what its default became."""

from __future__ import annotations

from dataclasses import replace

from tests.reporting import examples

from trilemma.federation.deployment_terms import ServerTraining
from trilemma.federation.server_parts import Origin, PublicRecords, WarmStart
from trilemma.learning import LocalTraining
from trilemma.reporting.page.glossary import GLOSSARY
from trilemma.reporting.page.settings_rows import deployment_rows, federation_rows, verdict_rows
from trilemma.tuning.request import Request


def test_every_field_of_the_request_has_a_row() -> None:
    rows = verdict_rows(examples.verdict())
    assert len(rows) == len(Request.model_fields)
    found = {name: value for name, value, _ in rows}
    assert found["budget"] == "0.3"
    assert found["adversary"] == "server"
    assert found["candidates"] == "38 (by default)"
    assert found["rounds"] == "150 (by default)"
    assert found["participation"] == "known (by default)"
    assert found["threshold"] == "7 (by default)"
    assert found["max cost"] == "not set"
    assert all(meaning for *_, meaning in rows)


def test_what_was_asked_for_is_not_called_a_default() -> None:
    asked = Request(rounds=40, candidates=20, utility_weight=(1.0, 2.0), knows="rest")
    found = {name: value for name, value, _ in verdict_rows(examples.verdict(request=asked))}
    assert found["rounds"] == "40"
    assert found["candidates"] == "20"
    assert found["utility weight"] == "1, 2"
    assert found["knows"] == "rest"


def test_what_a_deployment_must_keep() -> None:
    verdict = examples.verdict()
    found = dict(deployment_rows(verdict.deployment))
    assert found["batch"] == "4"
    assert found["sampling rate"] == "0.0267"
    assert found["weighting"] == "records"
    assert found["server"] == "each step is 1 × the mean update"
    falling = replace(verdict.deployment, server=ServerTraining(6.6667, decay=True))
    found = dict(deployment_rows(falling))
    assert (
        found["server"] == "each step is 6.67 × the mean update, falling to zero over the rounds"
    )
    helped = ServerTraining(
        1.0,
        momentum=0.5,
        warm_start=WarmStart(300, 0.1),
        public_weight=0.1,
        public=PublicRecords(149, "00" * 32, "5e88"),
        centring=(Origin("0", (0.5,)),),
    )
    found = dict(deployment_rows(replace(verdict.deployment, server=None)))
    assert "server" not in found
    own = LocalTraining(batch=4, record_clip=1.0)
    served = replace(verdict.deployment, local_training=own, server=helped)
    assert dict(deployment_rows(served))["server"] == (
        "each step is 1 × the mean update; momentum 0.5; 300 steps on public records come first; "
        "public records make 0.1 of each step; 149 public records (keyed hash 5e88); 1 layer "
        "centred"
    )
    assert "the test records" in dict(federation_rows(verdict))["public records"]


def test_the_glossary_has_the_words_of_a_verdict() -> None:
    assert GLOSSARY.keys() >= {
        "game", "candidate set", "knowledge", "leakage", "limit", "guessing", "tested",
        "participation",
    }  # fmt: skip
