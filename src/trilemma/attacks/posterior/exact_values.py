"""What single values without noise say beyond a smooth density: zeros, and one record's shares.

Inputs are often exactly zero (blank pixels, absent words), and so is then what they contribute to
some coordinates. A zero that is read rules out a record that would have contributed; and where all
others contribute nothing, the value read is one record's share to the last digit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from trilemma.attacks.posterior.candidate_updates import contributions

if TYPE_CHECKING:
    from trilemma.attacks.matching import ViewTensors
    from trilemma.attacks.posterior.posterior_inputs import Batch

__all__ = ["exact_values_told", "values_are_exact"]

_RULED_OUT: Final = 20.0  # log odds against a share where a zero was read: sums do not cancel
_NAMED: Final = 8.0  # log odds for a share that is the value read, but for rounding
_ROUNDING: Final = 1e-5  # relative


def values_are_exact(units: ViewTensors) -> bool:
    """Whether some coordinates of single messages are read, as sums of shares and nothing else.

    Not so under noise, in sums, after clipping or several steps; and where every coordinate is
    known, which leaves no doubt anyhow.
    """
    seen, training = units.view.observation, units.view.local_training
    single = training.algorithm == "fedsgd" and training.record_clip is None
    if seen.clients > 1 or seen.clip is not None or seen.limit is not None or not single:
        return False
    if units.view.task.normalises_batches or bool((units.noise > 0).any()):
        return False
    return not bool((units.known > 0).all())


def exact_values_told(units: ViewTensors, candidate_sets: Batch) -> torch.Tensor:
    """Log odds [U, N] of candidates by the values of single messages, of which some are known.

    One 0 where values are not exact.
    """
    view, training = units.view, units.view.local_training
    if not values_are_exact(units):
        return units.update.new_zeros((), dtype=torch.float64)
    odds = []
    for unit in range(len(units)):
        some = candidate_sets.units(unit, unit + 1).to(units.weights)
        own = contributions(view.task, [units.weights[unit : unit + 1]], some, training)[0]
        places = units.known[unit].nonzero()[:, 0]
        weight = units.client_weights[unit, 0]
        scale = units.known[unit, places] * (weight if weight.ndim == 0 else weight[places])
        shares = own[:, places] * scale / training.unit_size
        seen = units.update[unit, places]
        ruled_out = ((seen == 0) & (shares != 0)).sum(1)
        near = (shares - seen).abs() <= _ROUNDING * seen.abs()
        named = (near & (seen != 0)).sum(1)
        odds.append(_NAMED * named - _RULED_OUT * ruled_out)
    return torch.stack(odds).double()
