"""Protection for Flower: two lines in an app that exists already (extra `flower`).

`ClientApp(mods=[protect_mod(terms)])` on the nodes, and on the server
`strategy.start(grid=ProtectedGrid(grid, terms), ...)`. What each side can read, and whom one has
to trust for it, is on the page docs/flower.md.
"""

from __future__ import annotations

from trilemma.deployment.flower.client_mod import protect_mod
from trilemma.deployment.flower.grid import ProtectedGrid
from trilemma.deployment.nodes.node_training import local_update
from trilemma.deployment.nodes.terms import Terms
from trilemma.deployment.nodes.verdict_terms import from_verdict, measured_deployment
from trilemma.federation.deployment_terms import Deployment, ServerTraining

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
