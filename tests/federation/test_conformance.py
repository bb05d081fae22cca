"""Tests of a deployment's code find the faults that they are for, and no others."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from trilemma.federation.conformance import Finding, Residuals, records_bounded

CLIP, RECORDS, SIZE = 0.5, 12, 30


def gradients(spread: float = 3.0) -> torch.Tensor:
    return spread * torch.randn(RECORDS, SIZE, generator=torch.Generator().manual_seed(1))


def sent(rows: torch.Tensor, *, clip: float = CLIP, by_batch: bool = False) -> torch.Tensor:
    """A client by hand: clipped gradients over a denominator, with the same noise every time."""
    chosen = gradients()[rows]
    norms = chosen.norm(dim=1, keepdim=True)
    total = (chosen * torch.clamp(clip / norms, max=1)).sum(0)
    noise = torch.randn(SIZE, generator=torch.Generator().manual_seed(2))
    return total / (len(rows) if by_batch else RECORDS) + noise


def failing(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.test for finding in findings if not finding.holds}


def test_a_client_by_the_book_passes() -> None:
    assert failing(records_bounded(sent, RECORDS, CLIP / RECORDS)) == set()


def test_a_denominator_by_the_batch_and_a_missing_clip_are_found() -> None:
    def wrong(rows: torch.Tensor) -> torch.Tensor:
        return sent(rows, by_batch=True)

    def unclipped(rows: torch.Tensor) -> torch.Tensor:
        return sent(rows, clip=1e9)

    assert "denominator" in failing(records_bounded(wrong, RECORDS, CLIP / RECORDS))
    assert failing(records_bounded(unclipped, RECORDS, CLIP / RECORDS)) == {"one record"}


def test_records_that_share_the_statistics_of_a_batch_are_found() -> None:
    """A model by somebody else: BatchNorm in training couples what single records do."""
    torch.manual_seed(0)
    inputs, labels = torch.randn(RECORDS, 4), torch.arange(RECORDS) % 2
    for norm, expected in ((torch.nn.BatchNorm1d(3), True), (torch.nn.LayerNorm(3), False)):
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), norm, torch.nn.Linear(3, 2))

        def update(rows: torch.Tensor, model: torch.nn.Module = model) -> torch.Tensor:
            loss = cross_entropy(model(inputs[rows]), labels[rows], reduction="sum") / RECORDS
            grads = torch.autograd.grad(loss, list(model.parameters()))
            return torch.cat([grad.flatten() for grad in grads]).double()

        found = failing(records_bounded(update, RECORDS, 10.0 / RECORDS))
        assert ("denominator" in found) == expected


def residuals(rounds: int, clients: int, *, deviation: float = 1.0, reused: int = 0) -> set[str]:
    draw = torch.Generator().manual_seed(4)
    kept, seen = torch.randn(reused, 800, generator=draw), Residuals(deviation)
    for _ in range(rounds):
        fresh = torch.randn(clients - reused, 800, generator=draw)
        seen.add(torch.cat([kept, fresh]).sum(0), clients)
    return failing(seen.findings())


def test_noise_as_promised_and_fresh_passes() -> None:
    assert residuals(30, 10) == set()


def test_one_client_of_ten_that_reuses_its_seed_is_found() -> None:
    assert residuals(30, 10, reused=1) == {"fresh noise"}


def test_noise_of_another_size_is_found() -> None:
    assert residuals(30, 10, deviation=1.05) == {"noise"}


def test_two_rounds_of_the_same_noise_among_many_are_found() -> None:
    draw, seen = torch.Generator().manual_seed(5), Residuals(1.0)
    rows = torch.randn(40, 500, generator=draw)
    rows[31] = rows[7]
    for row in rows:
        seen.add(row, 1)
    assert failing(seen.findings()) == {"fresh noise"}


@pytest.mark.parametrize("where", ["rounds", "coordinates", "here and there", "nowhere"])
def test_noise_that_is_missing_somewhere_is_found_though_its_sum_is_right(where: str) -> None:
    """Each liar has the variance that was promised, on average: twice of it or hardly any."""
    draw, seen = torch.Generator().manual_seed(6), Residuals(1.0)
    rows = torch.randn(40, 500, generator=draw)
    kept = {
        "rounds": (torch.arange(40) % 2)[:, None],
        "coordinates": (torch.arange(500) % 2)[None],
        "here and there": torch.randint(2, rows.shape, generator=draw),
    }
    if where in kept:
        rows = rows * (2 * kept[where] + 1e-3).sqrt()
    for row in rows:
        seen.add(row, 1)
    assert failing(seen.findings()) == ({"noise"} if where in kept else set())
