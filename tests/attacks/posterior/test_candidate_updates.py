from __future__ import annotations

import pytest
import torch
from tests.attacks.posterior.lining_up import small_records, small_task

from trilemma.attacks.posterior.candidate_updates import (
    average_path,
    batch_contexts,
    contributions,
    observed_path,
)
from trilemma.attacks.posterior.posterior_inputs import Batch
from trilemma.entropy import Seeded
from trilemma.learning import LocalTraining, Task, client_update
from trilemma.learning.modules import fitted

MODELS = torch.randn(2, 83, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 2


def shared(count: int, seed: int) -> Batch:
    records = small_records(count, Seeded(seed))
    return Batch(records.inputs, records.labels, True)


def updates(task: Task, records: Batch, training: LocalTraining) -> torch.Tensor:
    """What clients that hold the records [U, m] send."""
    return torch.stack(
        [client_update(task, w, records.inputs, records.labels, training) for w in MODELS]
    )


@pytest.mark.parametrize("clip", [None, 0.3])
def test_contributions_to_a_gradient_add_up_to_the_update(clip: float | None) -> None:
    task, training, records = small_task(), LocalTraining(batch=5, record_clip=clip), shared(5, 2)
    path, mean = average_path(task, MODELS, records, training)
    each = contributions(task, path, records, training)
    assert each.shape == (2, 5, 83)
    sent = updates(task, records, training)
    assert torch.allclose(each.mean(1), sent)
    assert torch.allclose(mean, sent)
    own = Batch(records.inputs.expand(2, 5, 6), records.labels.expand(2, 5), False)
    assert torch.equal(contributions(task, path, own, training), each)


def test_local_steps_follow_the_path_that_is_seen() -> None:
    """Contributions along the path of the client's own update explain more of it."""
    task, training = small_task(), LocalTraining("fedavg", lr=0.3, steps=4, batch=3)
    records, population = shared(3, 3), shared(60, 4)
    sent = updates(task, records, training)
    average = average_path(task, MODELS, population, training)
    assert len(average[0]) == 4
    assert torch.allclose(
        average[1], updates(task, population, LocalTraining("fedavg", lr=0.3, steps=4, batch=60))
    )
    errors = []
    for path in (average, observed_path(task, average, sent - average[1], population, training)):
        explained = contributions(task, path[0], records, training).mean(1)
        errors.append(float((explained - sent).norm() / sent.norm()))
    assert errors[1] < 0.5 * errors[0]


def test_one_step_has_one_model() -> None:
    task, population = small_task(), shared(8, 5)
    path = average_path(task, MODELS, population, LocalTraining(batch=3))
    assert observed_path(task, path, MODELS, population, LocalTraining(batch=3)) is path


def normalised() -> Task:
    layers = (torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8, affine=False), torch.nn.Linear(8, 3))
    model, _ = fitted(torch.nn.Sequential(*layers).double())
    return Task(model, torch.nn.functional.cross_entropy, 3)


def test_contributions_in_company_are_nearer_to_what_a_batch_sends() -> None:
    """Nearer than those by the statistics of all at once, of which a batch's own are a part."""
    task, training, population = normalised(), LocalTraining(batch=4), shared(64, 6)
    models, beside = [MODELS], batch_contexts(task, [MODELS], population, training)
    each = contributions(task, models, population, training, beside)
    assert each.shape == (2, 64, 83)
    own = Batch(population.inputs.expand(2, 64, 6), population.labels.expand(2, 64), False)
    met = batch_contexts(task, models, own, training)
    assert torch.allclose(contributions(task, models, own, training, met), each)
    steps = LocalTraining("fedavg", lr=0.3, steps=2, batch=4)
    walked = contributions(
        task, models * 2, population, steps, batch_contexts(task, models * 2, population, steps)
    )
    assert torch.allclose(walked, 0.6 * each)
    far = contributions(
        task,
        models,
        population,
        training,
        batch_contexts(task, models, population, LocalTraining(batch=10**6)),
    )
    gaps = []
    for made in (each, far):
        sent = torch.stack(
            [updates(task, population.rows(4 * i, 4 * i + 4), training) for i in range(16)], 1
        )
        explained = made.reshape(2, 16, 4, -1).mean(2)
        error = (explained - explained.mean(1, keepdim=True)) - (sent - sent.mean(1, keepdim=True))
        gaps.append(float(error.norm()))
    assert gaps[0] < gaps[1]


def test_no_company_where_records_do_not_meet() -> None:
    population = shared(8, 7)
    assert batch_contexts(small_task(), [MODELS], population, LocalTraining(batch=4)) is None
    assert batch_contexts(normalised(), [MODELS], population, LocalTraining(batch=1)) is None
