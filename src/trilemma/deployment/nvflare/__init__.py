"""Protection for NVFlare (extra `nvflare`): the site's filters, the client's update, the server.

`privacy.json` of a site puts `AdmitTask` and `ProtectUpdate` into every scope, so that they bind
each job whatever it says; `trilemma deploy VERDICT --nvflare DIR` writes it. A job's training
script sends what `local_update` makes, and its server takes `VerdictStep`. The page
docs/nvflare.md says what each side can read, and whom one has to trust for it.
"""

from __future__ import annotations

from trilemma.deployment.nvflare.local_updates import local_update
from trilemma.deployment.nvflare.server_step import VerdictStep, verdict_recipe
from trilemma.deployment.nvflare.site_filters import AdmitTask, BindScope, ProtectUpdate

__all__ = [
    "AdmitTask",
    "BindScope",
    "ProtectUpdate",
    "VerdictStep",
    "local_update",
    "verdict_recipe",
]
