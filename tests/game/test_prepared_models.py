import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.game.prepared_models import fresh_weights, prepare_models
from trilemma.game.scenario import Scenario
from trilemma.learning import LocalTraining


def scenario(model: nn.Module | None = None, lr: float = 0.5) -> Scenario:
    draw = torch.Generator().manual_seed(0)
    data = TensorDataset(
        torch.rand(40, 5, generator=draw), torch.randint(0, 3, (40,), generator=draw)
    )
    return Scenario(
        model or nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)),
        cross_entropy,
        [data],
        data,
        LocalTraining(lr=lr),
    )


def test_r_steps_are_r_steps_of_plain_sgd() -> None:
    """Against torch.optim.SGD, one model at a time: R steps, not the R + 1 of the paper (E15)."""
    task = scenario()
    weights = prepare_models(task, [2, 5], steps=3, seed=7)
    for row, number in zip(weights, [2, 5], strict=True):
        model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
        start = task.task.layout.unflatten(fresh_weights(task, [number], seed=7)[0])
        model.load_state_dict(start)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        draw = Seeded(7).generator("steps", number)
        for _ in range(3):
            rows = torch.from_numpy(draw.choice(40, 32, replace=False))
            optimiser.zero_grad()
            batch = task.records[0][rows]
            cross_entropy(model(batch.inputs), batch.labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        expected = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        assert torch.allclose(row, expected, atol=1e-6)


def test_a_model_depends_on_its_number_and_the_seed_only() -> None:
    one, two = scenario(), scenario()
    torch.manual_seed(123)
    together = prepare_models(one, [0, 1, 2], steps=2, seed=1)
    alone = prepare_models(two, [1], steps=2, seed=1)
    assert torch.allclose(together[1], alone[0], atol=1e-6)
    assert not torch.allclose(together[0], together[1])
    assert not torch.allclose(alone, prepare_models(two, [1], steps=2, seed=2))


def test_weights_are_those_of_torchs_own_seed() -> None:
    made = scenario()
    (found,) = fresh_weights(made, [3], seed=5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Seeded(5).integer("weights", 3))
        layers = nn.Linear(5, 4), nn.Linear(4, 3)
    drawn = [p.detach().reshape(-1) for layer in layers for p in layer.parameters()]
    assert torch.equal(found, torch.cat(drawn))


def test_the_global_generator_is_left_as_it_was() -> None:
    task = scenario()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    prepare_models(task, [0], steps=1)
    assert torch.equal(torch.rand(1), expected)


class OwnTensor(nn.Module):
    def __init__(self, scale: torch.Tensor) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)
        self.scale = nn.Parameter(scale)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.inner(inputs) * self.scale
        return outputs


def test_a_tensor_that_nothing_redraws_is_refused_by_name() -> None:
    drawn = scenario(OwnTensor(torch.tensor([1.0, 2.0, 1.0])))
    with pytest.raises(InvalidInput, match=r"'scale' has no reset_parameters.*OwnTensor"):
        prepare_models(drawn, [0])


def test_a_tensor_of_one_number_starts_from_it() -> None:
    made = scenario(OwnTensor(torch.full((3,), 0.5)))
    named = made.task.layout.unflatten(fresh_weights(made, [4])[0])
    assert torch.equal(named["scale"], torch.full((3,), 0.5))
    again = made.task.layout.unflatten(fresh_weights(made, [5])[0])
    assert not torch.equal(named["inner.weight"], again["inner.weight"])


def test_divergence_and_a_negative_count_are_refused() -> None:
    linear = scenario(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), lr=1e20)
    with pytest.raises(InvalidInput, match="lower the learning rate"):
        prepare_models(linear, [0], steps=5)
    with pytest.raises(InvalidInput, match="must be >= 0"):
        prepare_models(scenario(), [0], steps=-1)


class Redrawn(nn.Module):
    """A module that draws all below it anew, a frozen layer among them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8).requires_grad_(False), nn.Linear(8, 3)

    def reset_parameters(self) -> None:
        self.body.reset_parameters()
        self.head.reset_parameters()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(x).tanh())
        return scores


def test_a_frozen_body_stays_whatever_a_reset_redraws() -> None:
    model, records = Redrawn(), (torch.rand(20, 6), torch.arange(20) % 3)
    before = model.body.weight.clone()
    scenario = Scenario(model, nn.functional.cross_entropy, [records], records)
    weights = fresh_weights(scenario, [0, 1])
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(model.body.weight, before)
    assert torch.equal(scenario.task.model.get_parameter("body.weight"), before)
