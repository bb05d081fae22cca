"""One request: from keywords, checked at the door, the same from text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trilemma.errors import InvalidInput, UnknownName
from trilemma.observations import Adversary
from trilemma.tuning.request import Request


def test_the_defaults() -> None:
    asked = Request()
    assert (asked.budget, asked.knows, asked.claim) == (0.3, "candidates", "training")
    assert asked.adversary is Adversary.SERVER


def test_values_are_coerced_at_the_door() -> None:
    """A string or a NumPy number must not slip past a comparison or a digest."""
    asked = Request(
        adversary="client", budget=np.float64(0.25), seed=np.int64(3), knows="the rest"
    )
    assert asked.adversary is Adversary.CLIENT
    assert type(asked.budget) is float
    assert type(asked.seed) is int
    assert asked.knows == "rest"
    assert asked == Request(adversary=Adversary.CLIENT, budget=0.25, seed=3, knows="rest")


def test_names_and_weights_may_be_text() -> None:
    asked = Request(families="randomization, compression", utility_weight="1,2")
    assert asked.families == ("randomization", "compression")
    assert asked.utility_weight == (1.0, 2.0)
    assert Request(**asked.model_dump()) == asked


def test_layers_are_centred_by_a_word_or_a_number() -> None:
    assert [Request(centring=value).centring for value in ("0.3", 0.25, "public", "none")] == [
        *(0.3, 0.25, "public", "none")
    ]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"budget": 2}, "budget"),
        ({"budget": math.nan}, "budget"),
        ({"budget": "1e999"}, "budget"),
        ({"budget": "0.3"}, "budget is '0.3': .*a number is needed"),
        ({"seed": True}, "seed is True: .*a number is needed"),
        ({"confidence": 1.0}, "confidence must lie strictly"),
        ({"confidence": math.inf}, "confidence"),
        ({"knows": "everything"}, "knows is 'everything'"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"recipe": "own"}, "recipe is 'own'"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"server_step": -1.0}, "server_step must be positive"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"public_weight": math.inf}, "public_weight"),
        ({"warm_start": -1}, "warm_start must be at least 0, got -1"),
        ({"centring": "mean"}, "centring is 'mean'"),
        ({"clip": 0.5, "basis": "measured"}, "clip=0.5 is about the trainings of a proof"),
        ({"candidates": 1}, "candidates must be at least 2, got 1"),
        ({"seeds": 1}, "seeds must be at least 2, got 1"),
        ({"bandwidth": math.inf}, "bandwidth"),
        ({"bandwidth": 0}, "bandwidth"),
        ({"strengths": 1}, "strengths"),
        ({"utility_weight": -1}, "utility_weight"),
        ({"max_cost": math.nan}, "max_cost"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"restarts": 2.5}, "restarts is 2.5"),
        ({"basis": "measured", "knows": "anyone"}, "leave one out"),
        ({"participation": "secret"}, "add knows='anyone'"),
    ],
)
def test_bad_values_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        Request(**settings)


def test_an_unknown_setting_lists_what_is_known() -> None:
    with pytest.raises(UnknownName, match="did you mean 'budget'"):
        Request(bugdet=0.3)


def test_a_request_or_keywords_but_not_both() -> None:
    asked = Request(budget=0.2)
    assert Request.of(asked, {}) is asked
    assert Request.of(None, {"budget": 0.2}) == asked
    with pytest.raises(InvalidInput, match="not both"):
        Request.of(asked, {"budget": 0.2})


def test_a_preset_fills_what_is_not_given() -> None:
    quick = Request(preset="quick", seeds=4)
    assert (quick.claim, quick.confidence, quick.strengths) == ("one-round", 0.9, 0)
    assert quick.seeds == 4
    assert Request(**quick.model_dump()) == quick
    with pytest.raises(InvalidInput, match="preset is 'fast'"):
        Request(preset="fast")


def test_a_rate_of_right_picks_and_its_leakage_are_inverse() -> None:
    for candidates in (20, 38, 1000):
        for rate in (0.002, 0.1, 1 / 6, 0.5, 0.97):
            if rate <= 1 / candidates:
                with pytest.raises(InvalidInput, match=f"among {candidates} candidates"):
                    Request(at_most=rate).resolved(1 / candidates)
                continue
            found, p_max = Request(at_most=rate).resolved(1 / candidates)
            assert p_max == rate
            _, again = Request(budget=found.budget).resolved(1 / candidates)
            assert again == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("text", ["1 in 0", "1 in 2 in 3", "often", "", "nan", "-1 in 6", "120 %"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(InvalidInput, match="at_most"):
        Request(at_most=text)


def test_a_malicious_server_is_no_clients_attack() -> None:
    assert Request().server == "curious"
    with pytest.raises(InvalidInput, match="malicious"):
        Request(server="malicious", adversary=Adversary.CLIENT)
