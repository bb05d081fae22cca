"""The exact posterior where a sum is made of single records: batches of any size, secret or not.

Under Poisson sampling the denominator is fixed, so that an observation is the sum of what each
present record adds to it, a_i = w_k · clip(g_i) / S. What all others add is known; what is left,
the gap, holds one candidate's part and the noise, or, where a round may not have used the record
at all, perhaps the noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import torch
from torch.nn.functional import pad

from trilemma.attacks.posterior.candidate_updates import contributions
from trilemma.attacks.posterior.posterior_inputs import Batch, blocks, stacked, units_of
from trilemma.errors import InvalidInput
from trilemma.learning import clipped_products, clipped_sums, traced
from trilemma.learning.forward_memory import RECORDED_AT_MOST, held_by_record
from trilemma.records.records import Records

if TYPE_CHECKING:
    from trilemma.attacks.base import View
    from trilemma.attacks.matching import ViewTensors
    from trilemma.learning import LocalTraining, Task
    from trilemma.observations import Noise

__all__ = ["scores_by_record", "secret_participation"]

_BLOCK: Final = 2**22  # numbers held at once: updates times coordinates
_SMALL: Final = 100_000  # parameters: of a larger model the work counts, not its bookkeeping
Likelihood = Callable[[torch.Tensor, torch.Tensor, "Noise | None"], torch.Tensor]


def scores_by_record(views: Sequence[View], likelihood: Likelihood) -> torch.Tensor:
    """log p(G | candidate) [U, N] of each view, up to a constant a row.

    `likelihood(squared gap [N], largest gap [N], noise)` is that of a round known to use one.
    """
    units = units_of(views)
    seen = units.view.observation
    clipped = seen.clip is not None or seen.limit is not None
    if units.view.local_training.algorithm != "fedsgd" or clipped:
        raise InvalidInput(
            "batches of unlike sizes, or of secret participation, are attacked where an update is "
            "a sum over records: use algorithm='fedsgd' and no clip of whole updates."
        )
    candidate_sets = stacked(
        [view.knowledge.candidate_set for view in views], "a candidate set", "rest"
    )
    if all(map(_is_summed, views)):
        return _summed_scores(views, candidate_sets)
    rests, present, owners = _padded(views)
    held = units.weights.shape[1] * (candidate_sets.count + rests.count)
    scores = []
    for start, stop in blocks(len(views), _BLOCK // held):
        some = slice(start, stop)
        gap, shares = _parts(
            units,
            some,
            rests.units(start, stop).to(units.weights),
            present[some].to(units.weights),
            owners[some],
            candidate_sets.units(start, stop).to(units.weights).expanded(stop - start),
        )
        for place, view in enumerate(views[some]):
            scores.append(_score(gap[place], shares[place], view, likelihood))
    return torch.stack(scores)


def _is_summed(view: View) -> bool:
    """Whether what all others make of it is known, under Gaussian noise on every coordinate."""
    seen = view.observation
    noise, weights = seen.noise, seen.weights
    gaussian = noise is not None and noise.kind == "gaussian" and noise.scale > 0
    whole = seen.known is None and isinstance(weights, tuple)
    return view.knowledge.others is not None and gaussian and whole


def _summed_scores(views: Sequence[View], candidate_sets: Batch) -> torch.Tensor:
    """log p(G | candidate) [U, N] by inner products alone: no candidate's gradient is written."""
    task, training = views[0].task, views[0].local_training
    clip, scores = training.record_clip or math.inf, []

    def products(
        weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, along: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return clipped_products(task, weights, inputs, labels, along, clip)

    run: Callable[..., tuple[torch.Tensor, torch.Tensor]] = products
    for place, view in enumerate(views):
        noise, others = view.observation.noise, view.knowledge.others
        weights = view.observation.weights
        assert noise is not None
        assert others is not None
        assert weights is not None
        own = candidate_sets.units(place, place + 1).to(view.weights).expanded(1)
        records = own.inputs[0], own.labels[0]
        given = view.weights, *records, view.observation.update - others
        with torch.no_grad():
            if run is products and not given[0].is_cuda and task.layout.size <= _SMALL:
                # what is found out at the first call cannot be recorded
                run(given[0], *(record[:1] for record in records), given[3])
                held = held_by_record(task, given[0], *(record[0] for record in records))
                if own.count * held <= RECORDED_AT_MOST:
                    run = traced(("clipped products", clip), task, products, given)
            inner, squares = run(*given)
        share = float(weights[0]) / training.batch
        ratio = (2 * share * inner - share**2 * squares) / (2 * noise.scale**2)
        rate = view.knowledge.rate
        scores.append(ratio if rate is None else _mixed(ratio, rate))
    return torch.stack(scores)


def _padded(views: Sequence[View]) -> tuple[Batch, torch.Tensor, torch.Tensor]:
    """The rest of each view as [U, K·B], B the largest batch, who of it is there, and the owners.

    The sought record's place is empty; its owner is the client [U] that it would belong to.
    """
    clients = views[0].observation.clients
    found = [_laid_out(view, clients) for view in views]
    width = max(mask.shape[1] for _, mask, _ in found)
    spread = [_spread(rest, clients, width - mask.shape[1]) for rest, mask, _ in found]
    present = [pad(mask, (0, width - mask.shape[1])).reshape(-1) for _, mask, _ in found]
    return (
        stacked(spread, "the other records", "rest").expanded(len(views)),
        torch.stack(present),
        torch.tensor([owner for _, _, owner in found]),
    )


def _laid_out(view: View, clients: int) -> tuple[Records, torch.Tensor, int]:
    """The rest of a view, which of its places [K, B] are taken by others, and whose is sought."""
    rest, slot = view.knowledge.rest, view.knowledge.slot
    size = 0 if rest is None else len(rest)
    if rest is None or size % clients or not 0 <= slot < size:
        raise InvalidInput(
            "an attacker with the knowledge 'rest' needs the other records, as many places for "
            "each of "
            f"the {clients} clients and the sought record's at its slot, got {size} records and "
            f"slot {slot}."
        )
    there = view.knowledge.present
    mask = torch.ones(size) if there is None else there.detach().cpu().float()
    mask[slot] = 0.0
    return rest, mask.reshape(clients, -1), slot // (size // clients)


def _spread(rest: Records, clients: int, more: int) -> Records:
    """Records [K·B, ...] with `more` places added to each client's, copies of its first."""
    if more == 0:
        return rest
    rows = torch.arange(len(rest)).reshape(clients, -1)
    rows = torch.cat([rows, rows[:, :1].expand(-1, more)], 1).reshape(-1)
    return rest[rows]


def _parts(
    units: ViewTensors,
    some: slice,
    rests: Batch,
    present: torch.Tensor,
    owners: torch.Tensor,
    candidate_sets: Batch,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left of each observation [B, m], and what each candidate would add [B, N, m]."""
    task, training = units.view.task, units.view.local_training
    known, path = units.known[some, None], [units.weights[some]]
    weights = units.client_weights[some]
    places = weights.repeat_interleave(rests.count // weights.shape[1], 1)
    share = places.reshape(*places.shape[:2], -1) * present[..., None] / training.batch
    gap = units.update[some] - known[:, 0] * _added(task, path, rests, training, share)
    own = weights[torch.arange(len(weights)), owners].reshape(len(weights), 1, -1)
    candidates = contributions(task, path, candidate_sets, training)
    return gap, own * known / training.batch * candidates


def _added(
    task: Task,
    path: Sequence[torch.Tensor],
    rests: Batch,
    training: LocalTraining,
    share: torch.Tensor,
) -> torch.Tensor:
    """Σ_b share_b · clip(g_b) [U, m] of what all others add; share [U, n, 1], or [U, n, m]."""
    if training.record_clip is None or share.shape[-1] > 1:
        return (share * contributions(task, path, rests, training)).sum(1)
    units = zip(path[0], rests.inputs, rests.labels, share[..., 0], strict=True)
    clip = training.record_clip
    return torch.cat(
        [clipped_sums(task, w, x[None], y[None], s[None], clip) for w, x, y, s in units]
    )


def _score(
    gap: torch.Tensor, shares: torch.Tensor, view: View, likelihood: Likelihood
) -> torch.Tensor:
    noise, rate = view.observation.noise, view.knowledge.rate
    if rate is None:
        left = gap - shares
        squared = (left * left).sum(1, dtype=torch.float64)
        return likelihood(squared, left.abs().amax(1).double(), noise)
    if noise is None or noise.kind != "gaussian":
        raise InvalidInput(
            f"whether a round used a record is inferred under Gaussian noise, not under "
            f"{'none' if noise is None else noise.kind}; attack other protections with "
            f"participation known."
        )
    return secret_participation(gap, shares, deviation=noise.scale, rate=rate)


def secret_participation(
    gap: torch.Tensor, shares: torch.Tensor, *, deviation: float, rate: float
) -> torch.Tensor:
    """log p(G | candidate j) [N] of a round that used the record with probability q = `rate`.

    (1 - q) N(G; rest, s² I) + q N(G; rest + a g_j, s² I), up to a factor that all candidates
    share. `gap` [m] is G minus the update of all other records; `shares` [N, m] are a·g_j, what
    each candidate would add under the fixed denominator of Poisson sampling; both on the known
    coordinates. Independent rounds add.
    """
    if not (0 <= rate <= 1 and deviation > 0 and math.isfinite(deviation)):
        raise InvalidInput(
            f"a round with secret participation needs a rate in 0 … 1 and positive noise, got "
            f"rate {rate} and deviation {deviation}."
        )
    gap, shares = gap.double(), shares.double()
    # log N(present) - log N(absent) = (2 a g_j·gap - ‖a g_j‖²) / 2s²
    ratio = (2 * shares @ gap - shares.square().sum(1)) / (2 * deviation**2)
    return _mixed(ratio, rate)


def _mixed(ratio: torch.Tensor, rate: float) -> torch.Tensor:
    """log((1 - q) + q e^ratio) [N] of a round that used the record with probability q."""
    absent = torch.full_like(ratio, math.log1p(-rate) if rate < 1 else -math.inf)
    present = ratio + (math.log(rate) if rate > 0 else -math.inf)
    return torch.logaddexp(absent, present)
