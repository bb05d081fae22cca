from __future__ import annotations

import torch

from trilemma.attacks.posterior.clipped_distribution import clip_factors, simulated_factors
from trilemma.attacks.posterior.inner_products import Table, tabulate

M, P, N, SIZE, CLIP = 40, 25, 3, 4, 1.2


def numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


PEOPLE = numbers(P, M, seed=0) / 3 + 0.2
GUESSES = numbers(N, M, seed=1) * torch.tensor([[0.1], [0.5], [3.0]])
MEAN = PEOPLE.mean(0)
WHOLE = torch.ones(1).double()


def table(known: torch.Tensor) -> Table:
    rows, guesses = ((PEOPLE - MEAN) * known)[None], ((GUESSES - MEAN) * known)[None]
    anchors = torch.stack([torch.zeros(M).double(), MEAN * known])[None]
    return tabulate(
        (lambda a, b: rows[:, a:b], P),
        (lambda a, b: guesses[:, a:b], N),
        anchors,
        known.sum()[None],
    )


def factors(batches: torch.Tensor) -> torch.Tensor:
    cut: torch.Tensor = CLIP / torch.linalg.vector_norm(batches.mean(1), dim=-1)
    return cut.clamp(max=1.0)


def test_factors_are_those_of_batches_of_the_population() -> None:
    found = clip_factors(table(torch.ones(M).double()), CLIP, size=SIZE, whole=WHOLE, seed=0)
    draw = torch.Generator().manual_seed(9)
    drawn = PEOPLE[torch.randint(0, P, (20_000, SIZE), generator=draw)]
    others = factors(drawn)
    assert abs(float(found.others[0] - others.mean())) < 4 * float(others.std()) / 64**0.5
    assert 0.3 < float(others.mean()) < 0.99, "some are clipped"
    for j in range(N):
        with_j = drawn.clone()
        with_j[:, 0] = GUESSES[j]
        own = factors(with_j)
        assert abs(float(found.own[0, j] - own.mean())) < 4 * float(own.std()) / 64**0.5
    assert float(found.own[0, 2]) < float(found.own[0, 0]), "a large candidate is cut more"
    assert found.jitter is not None
    assert float(found.jitter[0]) > 0


def test_a_mask_tells_the_norm_of_the_whole() -> None:
    known = (torch.arange(M) % 2 == 0).double()
    whole = clip_factors(table(torch.ones(M).double()), CLIP, size=SIZE, whole=WHOLE, seed=0)
    half = clip_factors(table(known), CLIP, size=SIZE, whole=2 * WHOLE, seed=0)
    assert abs(float(whole.others[0] - half.others[0])) < 0.1


def test_without_a_clip_nothing_is_cut() -> None:
    found = clip_factors(table(torch.ones(M).double()), None, size=SIZE, whole=WHOLE, seed=0)
    assert found.jitter is None
    assert bool((found.own == 1).all())
    assert bool((found.others == 1).all())


def test_simulated_batches_are_clipped_as_they_are() -> None:
    norms = torch.tensor([0.5, 2.4, 4.8], dtype=torch.float64)  # factors 1, 1/2, 1/4
    found = simulated_factors(norms, CLIP, N)
    assert torch.allclose(found.own, torch.full((1, N), 7 / 12).double())
    assert torch.allclose(found.others, torch.tensor([7 / 12]).double())
    assert found.jitter is not None
    assert torch.allclose(found.jitter, torch.tensor([7 / 48]).double())  # (25 + 1 + 16) / 144 / 2
    free = simulated_factors(norms, None, N)
    assert free.jitter is None
    assert torch.equal(free.own, torch.ones(1, N).double())
