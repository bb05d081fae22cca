"""Sentences of a grammar: the same by the same seed, told apart by their words."""

from __future__ import annotations

import torch

from trilemma.scenarios.text import sentences, text


def test_notes_are_the_same_by_the_same_seed_and_no_two_alike() -> None:
    words, records = sentences(200, seed=0)
    again, same = sentences(200, seed=0)
    assert words == again
    assert len(set(words)) == len(words) == 402
    assert torch.equal(records.inputs, same.inputs)
    assert not torch.equal(records.inputs, sentences(200, seed=1)[1].inputs)
    assert len(torch.unique(records.inputs, dim=0)) == 200
    assert records.inputs.shape == (200, 12)
    assert torch.bincount(records.labels).shape == (4,)


def test_a_ward_says_its_own_words_most_of_the_time() -> None:
    _, records = sentences(400, seed=0)
    shared = 402 - 4 * 90
    said = (records.inputs[:, 1::2] - shared) // 90
    agree = (said == records.labels[:, None]).double().mean()
    assert 0.8 < float(agree) < 0.9, "four in five, and a quarter of the strays"


def test_the_scenario_reads_tokens() -> None:
    scenario = text()
    assert scenario.input_spec.vocabulary == 402
    assert scenario.task.layout.size == 93_252
    assert (len(scenario.records), scenario.classes) == (4, 4)
    assert scenario.heads[0] == "word 1"
    one, other = scenario.pooled().inputs[:2]
    words = [word for word, _ in scenario.cells(one, one)]
    assert words == [scenario.words[place] for place in one.tolist()]
    held = set(other.tolist())
    assert [right for _, right in scenario.cells(one, other)] == [p in held for p in one.tolist()]
