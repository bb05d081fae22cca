"""Protection for Flower: two lines in an app that exists already (extra `flower`).

`ClientApp(mods=[protect_mod(terms)])` on the nodes, and on the server
`strategy.start(grid=ProtectedGrid(grid, terms), ...)`. What each side can read, and whom one has
to trust for it, is on the page docs/flower.md.
"""

from __future__ import annotations

from trilemma.federation.deployment import Deployment, ServerTraining
from trilemma.federation.flower.client import protect_mod
from trilemma.federation.flower.grid import ProtectedGrid
from trilemma.federation.nodes.local import local_update
from trilemma.federation.nodes.terms import Terms
from trilemma.federation.nodes.verdicts import from_verdict, measured_deployment

__all__ = [
    "Deployment",
    "ProtectedGrid",
    "ServerTraining",
    "Terms",
    "from_verdict",
    "local_update",
    "measured_deployment",
    "protect_mod",
]
