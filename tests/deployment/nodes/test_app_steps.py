from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy

from trilemma.deployment.nodes.app_steps import Step, require_training, watched_steps
from trilemma.errors import InvalidInput
from trilemma.learning import LocalTraining

Make = Callable[[torch.nn.Module], torch.optim.Optimizer]


def net() -> torch.nn.Module:
    torch.manual_seed(1)
    inner = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU())
    return torch.nn.Sequential(inner, torch.nn.Linear(5, 2))


def sgd(**settings: float) -> Make:
    return lambda model: torch.optim.SGD(model.parameters(), lr=0.1, **settings)  # type: ignore[arg-type]


_PLAIN = sgd()


def train(make: Make = _PLAIN, steps: int = 2, batch: int = 4, parts: int = 1) -> list[Step]:
    """A loop as apps write it; each step may add up gradients of several passes."""
    model = net()
    with watched_steps() as seen:
        optimizer = make(model)
        for _ in range(steps):
            optimizer.zero_grad()
            for _ in range(parts):
                count = batch // parts
                loss = cross_entropy(model(torch.ones(count, 3)), torch.ones(count).long())
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                model(torch.ones(9, 3))  # to see how it goes; no gradient comes of it
    return seen


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_steps_are_seen_with_their_records(parts: int) -> None:
    assert train(parts=parts) == [Step("SGD", (0.1,), (), 4)] * 2


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (sgd(momentum=0.9), "the app steps by SGD with momentum, and plain SGD was measured"),
        (sgd(weight_decay=0.1), "SGD with weight_decay"),
        (lambda model: torch.optim.Adam(model.parameters(), lr=0.1), "the app steps by Adam"),
        (lambda model: torch.optim.SGD(model.parameters(), lr=0.2), "rate of 0.2, and 0.1"),
    ],
)
def test_another_training_than_was_measured_is_named(make: Make, sentence: str) -> None:
    measured = LocalTraining("fedavg", lr=0.1, steps=2, batch=4)
    require_training(train(), measured)
    with pytest.raises(InvalidInput, match=f"{sentence}.*train by local_update"):
        require_training(train(make), measured)


def test_more_steps_or_other_batches_are_named() -> None:
    measured = LocalTraining("fedavg", lr=0.1, steps=2, batch=4)
    with pytest.raises(InvalidInput, match="the app takes 3 steps, and 2 were measured"):
        require_training(train(steps=3), measured)
    with pytest.raises(InvalidInput, match="its steps have 5 records, and 4 were measured"):
        require_training(train(batch=5), measured)
    with pytest.raises(InvalidInput, match="takes no step of a PyTorch optimiser"):
        require_training([], measured)


def test_what_comes_after_is_not_watched() -> None:
    with pytest.raises(ZeroDivisionError), watched_steps():
        raise ZeroDivisionError
    seen = train()
    model = net()
    optimizer = sgd()(model)
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    assert len(seen) == 2


def test_a_pass_that_raises_leaves_the_count_right() -> None:
    model = net()
    with watched_steps() as seen:
        optimizer = sgd()(model)
        with pytest.raises(RuntimeError):
            model(torch.ones(4, 7))
        optimizer.step()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    assert seen[1].batch == 4
