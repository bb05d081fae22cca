"""Secret sharing: clients add masks that cancel in the sum.

`law` is the paper's half; `bounded` its real-valued masks, which are weak; `transport` the secure
aggregation that a federation runs, with `client` and `server` its two sides, and `identity` for
clients that pin each other's keys.
"""

from __future__ import annotations

from trilemma.mechanisms.secret_sharing.law import SecretSharingLaw

__all__ = ["SecretSharingLaw"]
