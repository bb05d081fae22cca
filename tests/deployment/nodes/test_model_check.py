"""A node's look: honest models pass, plain attacks stand out, and no record has a part in it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trilemma.attacks.crafted import craft
from trilemma.deployment.nodes.model_check import ModelCheck, Probes, Seen, look
from trilemma.errors import InvalidInput, ModelRefused
from trilemma.learning import Task

SIZE, CLASSES = 20, 3


def public() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, CLASSES, (120,), generator=draw)
    inputs = torch.rand(120, SIZE, generator=draw)
    inputs[torch.arange(120), labels] += 1.0
    return inputs, labels


def network(activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(SIZE, 24), activation(), nn.Linear(24, CLASSES))


def probes() -> Probes:
    inputs, labels = public()
    return Probes.of(inputs[:60], labels[:60], seed=1)


def crafted(kind: str, activation: type[nn.Module] = nn.ReLU) -> nn.Module:
    model = network(activation)
    task = Task(model, cross_entropy, CLASSES)
    weights = task.layout.flatten(dict(model.named_parameters())).detach()
    made = craft(kind, task, weights, public()[0][60:], seed=2)
    with torch.no_grad():
        named = dict(model.named_parameters())
        for name, values in task.layout.unflatten(made).items():
            named[name].copy_(values)
    return model


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Sigmoid, nn.Tanh])
def test_an_honest_training_passes_from_its_first_step_to_its_last(
    activation: type[nn.Module],
) -> None:
    model, seen = network(activation), None
    inputs, labels = public()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(60):
        if step % 6 == 0:
            found = look(model, cross_entropy, probes(), seen)
            assert not found.alarms, (step, found)
            seen = found.seen
        optimiser.zero_grad()
        loss = cross_entropy(model(inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Sigmoid])
@pytest.mark.parametrize("kind", ["imprint", "trap", "overflow"])
def test_plain_attacks_stand_out_in_the_first_round(
    kind: str, activation: type[nn.Module]
) -> None:
    assert look(crafted(kind, activation), cross_entropy, probes()).alarms


def test_a_silent_trapdoor_is_not_seen_in_the_first_round() -> None:
    """What the page says that a look cannot see, so that nobody relies on it."""
    assert not look(crafted("trapdoor"), cross_entropy, probes()).alarms


def test_a_silent_trapdoor_is_seen_in_place_of_a_unit_that_was_accepted() -> None:
    seen = look(network(), cross_entropy, probes()).seen
    assert not look(network(), cross_entropy, probes(), seen).alarms
    (said,) = look(crafted("trapdoor"), cross_entropy, probes(), seen).alarms
    assert said.startswith("a unit moved by")


def test_a_model_that_jumps_is_seen_by_who_saw_it_before() -> None:
    model, seen = network(), None
    for _ in range(3):
        seen = look(model, cross_entropy, probes(), seen).seen
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.001)
    assert not look(model, cross_entropy, probes(), seen).alarms
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            )
    said = look(model, cross_entropy, probes(), seen).alarms
    assert any("moved" in item for item in said)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e38])
def test_numbers_that_are_not_finite_or_make_such_are_seen(value: float) -> None:
    model = network()
    with torch.no_grad():
        first, last = model.get_parameter("0.weight"), model.get_parameter("2.weight")
        first[0, 0] = value
        last.mul_(1e38 if value == 1e38 else 1.0)
        last[:, 0] = 1.0
    assert look(model, cross_entropy, probes()).alarms


def test_a_look_leaves_the_model_and_its_gradients_as_they_are() -> None:
    model = network()
    before = copy.deepcopy(model.state_dict())
    look(model, cross_entropy, probes())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_convolutions_tokens_and_regressions_are_looked_at() -> None:
    images = nn.Sequential(nn.Conv2d(1, 9, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9 * 36, 10))
    assert not look(images, cross_entropy, Probes.seeded((1, 8, 8), 0, 1, 10, seed=3)).alarms
    words = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 16), nn.ReLU(), nn.Flatten(),
                          nn.Linear(16 * 5, 4))  # fmt: skip
    tokens = torch.randint(0, 30, (40, 5), generator=torch.Generator().manual_seed(2))
    given = Probes(tokens, torch.arange(40) % 4)
    found = look(words, cross_entropy, given)
    assert {"alike", "slices", "loudest"} <= set(found.measures)
    assert not found.alarms
    numbers = nn.Sequential(nn.Linear(SIZE, 12), nn.Tanh(), nn.Linear(12, 1))
    real = Probes(public()[0], torch.randn(120, 1, generator=torch.Generator().manual_seed(4)))
    assert not look(numbers, nn.functional.mse_loss, real).alarms


def arrays(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def test_a_node_warns_or_refuses_with_one_sentence_for_all_findings() -> None:
    check, memory = ModelCheck(network(), cross_entropy, probes()), dict[str, Any]()
    check.require(arrays(network()), memory)
    kept = dict(memory)
    said = set()
    for kind in ("imprint", "overflow"):
        assert check.require(arrays(crafted(kind)), memory, "warn").alarms
        with pytest.raises(ModelRefused) as error:
            check.require(arrays(crafted(kind)), memory, "refuse")
        said.add(str(error.value))
    assert len(said) == 1
    assert memory == kept, "a model with findings is no measure for the next"
    with pytest.raises(InvalidInput, match="warn or refuse"):
        check.require(arrays(network()), memory, "maybe")


def test_a_node_remembers_the_last_model_over_messages() -> None:
    check, memory = ModelCheck(network(), cross_entropy, probes()), dict[str, Any]()
    model = network()
    for _ in range(3):
        check.require(arrays(model), memory)
        assert all(isinstance(value, bytes) for value in memory.values())
        with torch.no_grad():
            model.get_parameter("0.bias").add_(0.01)
    assert check.require(arrays(model), memory).measures["step"] == pytest.approx(1.0, rel=1e-4)


def test_seen_counts_no_step_before_the_second_model() -> None:
    found = look(network(), cross_entropy, probes(), Seen(arrays(network())))
    assert "step" not in found.measures


def test_too_few_probes_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"Probes\.seeded"):
        Probes.of(torch.zeros(3, 2), torch.zeros(3), seed=0)
