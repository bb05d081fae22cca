"""Several inputs a record, in tuples or dicts; masks, padding; records that are their labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from trilemma import LocalTraining, Scenario
from trilemma.errors import InvalidInput
from trilemma.game.job_runner import JobRunner
from trilemma.game.jobs import AttackJob, TrainJob
from trilemma.game.playing.suite import suite_of, why_not
from trilemma.learning import client_update
from trilemma.observations import Adversary
from trilemma.tuning.families.proof_conditions import check_scenario
from trilemma.tuning.recipe_rule import tolerance

ONE = LocalTraining(batch=2, lr=0.5)


class Ward(nn.Module):
    """A scan beside an age."""

    def __init__(self) -> None:
        super().__init__()
        self.scan, self.head = nn.Linear(16, 5), nn.Linear(6, 2)

    def forward(self, scan: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        seen = self.scan(scan.flatten(1)).tanh()
        scores: torch.Tensor = self.head(torch.cat([seen, age], 1))
        return scores


class Masked(nn.Module):
    """The class of a text, of the tokens that its mask leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6), nn.Linear(6, 2)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        held = attention_mask.unsqueeze(-1).to(self.table.weight.dtype)
        mean = (self.table(input_ids) * held).sum(1) / held.sum(1).clamp(min=1)
        scores: torch.Tensor = self.head(mean)
        return scores


def wards(count: int, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    draw = np.random.default_rng(seed)
    scan, age = draw.random((count, 4, 4)), draw.random((count, 1))
    return (scan, age), (scan.mean((1, 2)) > 0.5).astype(int)


def texts(count: int, seed: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(11, (count, 7), generator=draw)
    held = torch.arange(7) < torch.randint(3, 8, (count, 1), generator=draw)
    return {"input_ids": ids * held, "attention_mask": held}, ids[:, 0] % 2


def test_an_update_of_several_inputs_is_that_of_plain_autograd() -> None:
    for model, make in ((Ward(), wards), (Masked(), texts)):
        scenario = Scenario(model, cross_entropy, [make(30, 0), make(30, 1)], make(40, 2), ONE)
        inputs, labels = make(2, 7)
        values = inputs.values() if isinstance(inputs, dict) else inputs
        tensors = [torch.as_tensor(value) for value in values]
        tensors = [tensor.float() if tensor.is_floating_point() else tensor for tensor in tensors]
        loss = cross_entropy(model(*tensors), torch.as_tensor(labels))
        expected = torch.cat(
            [item.flatten() for item in torch.autograd.grad(loss, list(model.parameters()))]
        )
        packed = torch.cat([tensor.flatten(1) for tensor in tensors], 1)
        weights = scenario.task.layout.flatten(dict(model.named_parameters())).detach()
        sent = client_update(scenario.task, weights, packed, torch.as_tensor(labels), ONE)
        torch.testing.assert_close(sent, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("make", [wards, texts])
def test_several_inputs_are_attacked_trained_and_get_a_recipe(make: object) -> None:
    model, drawn = (Ward(), wards) if make is wards else (Masked(), texts)
    scenario = Scenario(model, cross_entropy, [drawn(40, k) for k in range(3)], drawn(60, 9), ONE)
    assert "gaussian-posterior" in suite_of(scenario, "candidates").attacks
    assert ("dlg" in suite_of(scenario, "candidates").attacks) == (make is wards)
    work = JobRunner(scenario, None, 1, 2, 0, "rest")()
    assert work(AttackJob("s", "none", ("exact-posterior",), Adversary.SERVER, 1, 0, 3))
    assert work(TrainJob("none", 0, 2))
    assert 0 < tolerance(scenario) < 10
    check_scenario(scenario, by_record=True)


def test_a_dataset_of_dicts_is_as_good_as_columns() -> None:
    inputs, labels = texts(20, 0)
    rows = [({name: item[k] for name, item in inputs.items()}, labels[k]) for k in range(20)]
    one = Scenario(Masked(), cross_entropy, [(inputs, labels)], texts(20, 1), ONE)
    other = Scenario(Masked(), cross_entropy, [rows], texts(20, 1), ONE)
    assert torch.equal(one.records[0].inputs, other.records[0].inputs)
    assert [part.name for part in other.input_spec.parts] == ["input_ids", "attention_mask"]


def test_inputs_that_do_not_belong_together_are_refused() -> None:
    (scan, age), labels = wards(20, 0)
    with pytest.raises(InvalidInput, match=r"hold 20, 19 records; give each as many"):
        Scenario(Ward(), cross_entropy, [((scan, age[:-1]), labels)], wards(20, 1), ONE)
    with pytest.raises(InvalidInput, match="must have the same inputs"):
        Scenario(Ward(), cross_entropy, [wards(20, 0)], (scan.reshape(20, 16), labels), ONE)
    inputs, kinds = texts(20, 0)
    strange = {"input ids": inputs["input_ids"]}, kinds
    with pytest.raises(InvalidInput, match=r"keywords of the model's forward.*got 'input ids'"):
        Scenario(Masked(), cross_entropy, [strange], strange, ONE)


def next_token(scores: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=-100)


class Bigram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(11, 6), nn.Linear(6, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.table(tokens))
        return scores


def padded(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, _ = texts(count, seed)
    ids, held = inputs["input_ids"], inputs["attention_mask"]
    return ids, torch.where(held, ids, -100)


def test_padding_couples_records_by_a_denominator_alone() -> None:
    """Clipped one by one each record's own loss is taken, so that a proof holds all the same."""
    scenario = Scenario(
        Bigram(), next_token, [padded(30, k) for k in range(2)], padded(40, 9), ONE
    )
    assert scenario.couples_records
    assert scenario.weighs_records
    check_scenario(scenario, by_record=True)
    clipped = scenario.with_local_training(record_clip=0.1)
    task, (x, y) = clipped.task, padded(2, 5)
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach()
    whole = client_update(task, weights, x, y, clipped.local_training)
    own = [client_update(task, weights, x[[i]], y[[i]], LocalTraining(batch=1)) for i in (0, 1)]
    expected = sum(0.5 * item * min(1.0, 0.1 / float(item.norm())) for item in own)
    torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-7)


def contrastive(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs @ outputs.T, torch.arange(len(outputs))) + 0 * labels.sum()


def test_a_loss_between_records_is_still_refused() -> None:
    x = torch.rand(40, 3)
    scenario = Scenario(nn.Linear(3, 2), contrastive, [(x, x[:, :2])], (x, x[:, :2]), ONE)
    assert not scenario.weighs_records
    with pytest.raises(InvalidInput, match="not the mean of its records' losses"):
        check_scenario(scenario, by_record=True)


def test_records_without_labels_are_their_own() -> None:
    x = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    scenario = Scenario(nn.Linear(5, 5), mse_loss, [(x[:20], None)], (x[20:], None), ONE)
    weights = torch.cat(
        [parameter.detach().flatten() for parameter in scenario.model.parameters()]
    )
    sent = client_update(scenario.task, weights, x[:2], x[:2], ONE)
    loss = mse_loss(scenario.model(x[:2]), x[:2])
    gradients = torch.autograd.grad(loss, list(scenario.model.parameters()))
    torch.testing.assert_close(sent, torch.cat([gradient.flatten() for gradient in gradients]))
    assert "are their own labels" in str(why_not(scenario, "dlg"))
    tokens, _ = padded(40, 0)
    text = Scenario(Bigram(), next_token, [(tokens, None)], (tokens, None), ONE)
    assert torch.equal(text.records[0].labels, tokens)
    with pytest.raises(InvalidInput, match="give all of them labels, or none"):
        Scenario(nn.Linear(5, 5), mse_loss, [(x, None)], (x, x), ONE)


def test_a_loss_of_unlabelled_dicts_gets_the_dict() -> None:
    inputs, _ = texts(20, 0)

    class Twice(Masked):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return super().forward(input_ids, attention_mask).tanh()

    def loss(outputs: torch.Tensor, given: dict[str, torch.Tensor]) -> torch.Tensor:
        return mse_loss(outputs.mean(1), given["attention_mask"].to(outputs).mean(1))

    scenario = Scenario(Twice(), loss, [(inputs, None)], (inputs, None), ONE)
    model = scenario.model
    expected = loss(model(**inputs), inputs)
    weights = scenario.task.layout.flatten(dict(model.named_parameters())).detach()
    rows = scenario.records[0].inputs
    torch.testing.assert_close(scenario.task.mean_loss(weights, rows, rows), expected)


def test_targets_of_another_shape_leave_out_what_searches_them() -> None:
    """A Gaussian likelihood has two outputs for each target."""

    def loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mean, log = outputs[:, :1], outputs[:, 1:]
        return (log + (y - mean).square() * torch.exp(-2 * log)).mean()

    x = torch.rand(40, 5)
    scenario = Scenario(nn.Linear(5, 2), loss, [(x, x[:, :1])], (x, x[:, :1]), ONE)
    assert "searches labels of the shape that the model returns" in str(why_not(scenario, "dlg"))
    assert "gaussian-posterior" in suite_of(scenario, "candidates").attacks


def test_several_labels_a_record_are_attacked_by_all() -> None:
    """Multi-label classification: each class is there or not."""
    x = torch.rand(40, 5)
    y = (x[:, :3] > 0.5).float()
    loss = nn.functional.binary_cross_entropy_with_logits
    scenario = Scenario(nn.Linear(5, 3), loss, [(x, y)], (x, y), ONE)
    assert {"dlg", "gaussian-posterior"} <= set(suite_of(scenario, "candidates").attacks)


def test_dropout_as_a_function_is_found_and_switched_off() -> None:
    class Dropping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(self.layer(x), 0.5, self.training)

    x, y = torch.rand(40, 5), torch.arange(40) % 2
    scenario = Scenario(Dropping(), cross_entropy, [(x, y)], (x, y), ONE)
    assert any("within forward() is off" in remark for remark in scenario.remarks)
    assert scenario.task.way.kind == "recorded"

    class Always(Dropping):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(self.layer(x), 0.5)

    with pytest.raises(InvalidInput, match="draws random numbers"):
        Scenario(Always(), cross_entropy, [(x, y)], (x, y), ONE)


def test_a_loss_over_pairs_of_a_batch_is_trained_and_no_proof_covers_it() -> None:
    def pairs(views: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return cross_entropy(views[:, :3] @ views[:, 3:].T, torch.arange(len(views)))

    torch.manual_seed(0)
    clients = [(torch.randn(20, 5), None) for _ in range(2)]
    scenario = Scenario(nn.Linear(5, 6), pairs, clients, (torch.randn(20, 5), None), ONE)
    with pytest.raises(InvalidInput, match="not the mean of its records' losses"):
        check_scenario(scenario, by_record=True)
    with pytest.raises(InvalidInput, match="not the mean of its records' losses"):
        scenario.with_local_training(record_clip=1.0)
