from __future__ import annotations

import weakref

import torch

from trilemma.learning.recording.operation_list import Listing, Step, steps_in
from trilemma.learning.recording.tracing import recorded

ATEN = torch.ops.aten


def test_steps_are_done_in_their_order_and_results_keep_their_form() -> None:
    listing = Listing()
    x, y, two = listing.argument(), listing.argument(), listing.constant(torch.tensor(2.0))
    both = listing.operation(ATEN.cat.default, ([x, y], 0), {})
    twice = listing.operation(ATEN.mul.Tensor, (both, two), {})
    more = listing.operation(ATEN.add.Tensor, (twice, x), {"alpha": 3})
    listing.result = {"more": [more], "plain": (x, "word")}
    made = listing(torch.ones(1), torch.tensor([4.0]))
    assert type(made["more"]) is list
    assert made["more"][0].tolist() == [5.0, 11.0]
    assert made["plain"][0].tolist() == [1.0]
    assert made["plain"][1] == "word"
    assert more.inputs == [twice, x]
    assert steps_in(listing.result) == [more, x]


def test_what_no_later_step_takes_is_let_go() -> None:
    """A large model has no room for all that is made on the way."""
    listing = Listing()
    made: list[weakref.ref[torch.Tensor]] = []

    def grown(given: torch.Tensor) -> torch.Tensor:
        alive = [item() for item in made if item() is not None]
        assert len(alive) <= 1, "only what it was given"
        new = given + 1
        made.append(weakref.ref(new))
        return new

    step: Step = listing.argument()
    for _ in range(5):
        step = listing.operation(grown, (step,), {})
    listing.operation(grown, (step,), {})  # which nobody takes
    listing.result = step
    assert listing(torch.zeros(1)).item() == 5
    assert len(made) == 6


def test_conjugates_are_not_what_they_are_made_of() -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        made = torch.fft.rfft(x)
        power: torch.Tensor = (made * made.conj()).real
        return power

    x, y = torch.rand(2, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(recorded(squared, (x,))(y), squared(y))


def test_parts_that_are_written_into_are_not_joined_later() -> None:
    aten = torch.ops.aten

    def gradients(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x[:2] * 2, x[2:] * 3
        first = aten.slice_backward(a, [4], 0, 0, 2, 1)
        second = aten.slice_backward(b, [4], 0, 2, 4, 1)
        a.mul_(10)
        return first + second, a

    x = torch.rand(4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(recorded(gradients, (x,))(x)[0], gradients(x)[0])


def test_what_is_given_as_out_is_written_into() -> None:
    def doubled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = x * 2
        kept = made * 1
        torch.mul(x, 3, out=made)
        return made + 0.5, kept + 0.5

    x = torch.rand(3, generator=torch.Generator().manual_seed(0))
    for found, expected in zip(recorded(doubled, (x,))(x), doubled(x), strict=True):
        assert torch.equal(found, expected)
