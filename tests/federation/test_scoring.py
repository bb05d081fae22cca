from __future__ import annotations

import pytest
import torch
from tests.federation.small import federation
from torch import nn
from torch.nn.functional import mse_loss

from trilemma.errors import InvalidInput
from trilemma.federation.scoring import Score, read_scores, write_scores
from trilemma.federation.training import start_weights
from trilemma.game.scenario import Scenario
from trilemma.records.records import Records


def test_accuracy_scores_each_answer() -> None:
    scenario = federation()
    weights = start_weights(scenario, None)[0]
    found = Score(scenario, None).of_test(weights, 0)
    right = scenario.model(scenario.test_records.inputs).argmax(1) == scenario.test_records.labels
    assert found.scores is not None
    assert found.scores.tolist() == right.float().tolist()
    assert found.metric == pytest.approx(right.float().mean().item())
    for own, records in zip(
        Score(scenario, None).of_clients(weights, 0), scenario.records, strict=True
    ):
        assert own.scores is not None
        assert len(own.scores) == len(records)
        assert own.metric == pytest.approx(own.scores.mean().item())


def regression(loss: object = mse_loss) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    data = Records(torch.rand(9, 3, generator=draw), torch.rand(9, 2, generator=draw))
    return Scenario(nn.Linear(3, 2), loss, [data], data)  # type: ignore[arg-type]


def test_minus_the_loss_scores_each_record_alone() -> None:
    scenario = regression()
    found = Score(scenario, None).of_test(start_weights(scenario, None)[0], 0)
    data = scenario.test_records
    each = (scenario.model(data.inputs) - data.labels).square().mean(1)
    assert found.scores is not None
    assert torch.allclose(found.scores, -each, atol=1e-6)
    assert found.metric == pytest.approx(-each.mean().item(), rel=1e-6)


def test_a_metric_of_ones_own_or_of_pairs_has_no_scores() -> None:
    scenario = federation()
    own = Score(scenario, lambda outputs, labels: 0.25).of_test(
        start_weights(scenario, None)[0], 0
    )
    assert (own.metric, own.scores) == (0.25, None)
    coupled = regression(lambda outputs, targets: (outputs - targets).square().sum().sqrt())
    found = Score(coupled, None).of_test(start_weights(coupled, None)[0], 0)
    assert found.scores is None


@pytest.mark.parametrize("count", [1, 7, 8, 9, 297])
def test_scores_survive_writing(count: int) -> None:
    bits = (torch.rand(count, generator=torch.Generator().manual_seed(count)) < 0.5).float()
    text = write_scores(bits)
    assert text is not None
    assert len(text) < 12 + count / 5, "a bit a record"
    read = read_scores(text)
    assert read is not None
    assert torch.equal(read, bits)
    values = torch.randn(count, generator=torch.Generator().manual_seed(count))
    again = read_scores(write_scores(values))
    assert again is not None
    assert torch.equal(again, values)
    assert read_scores(write_scores(None)) is None


@pytest.mark.parametrize("text", ["3:!", "x:oA==", "oA=", "-1:oA==" * 2, "abc"])
def test_damaged_scores_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="scores are written as"):
        read_scores(text)
