"""State that a model keeps beside its weights, such as BatchNorm's: other numbers, another range.

What is sent of such an array is divided by state_range / clip_range before anything protects it,
and what comes back is multiplied again: one grid, clip and noise then serve both. A claim
that covers such state was measured with it as any other coordinates: under a deployment it is
sent so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from trilemma.deployment.nodes.terms import Terms
    from trilemma.updates import Layout

__all__ = ["units"]


def units(layout: Layout, terms: Terms) -> torch.Tensor | float:
    """What one unit of each coordinate [m] of a sent update stands for, or of all of them.

    >>> from trilemma.deployment.nodes.terms import Terms
    >>> from trilemma.updates import Layout
    >>> layout = Layout(("weight", "norm.running_var"), ((2,), (1,)))
    >>> units(layout, Terms.of("secret-sharing:clip_range=4.0", state_range=100.0))
    tensor([ 1.,  1., 25.])
    """
    fixed = terms.protection.transport.fixed
    held = [name.rpartition(".")[2] in terms.state for name in layout.names]
    if fixed is None or terms.deployment is not None or not any(held):
        return 1.0
    one = [terms.state_range / fixed.clip if item else 1.0 for item in held]
    return torch.repeat_interleave(torch.tensor(one), torch.tensor(layout.sizes))
