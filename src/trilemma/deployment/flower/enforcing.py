"""What a node with a policy answers an app that brings no protection: nothing."""

from __future__ import annotations

import logging
from typing import Final

from flwr.app import Context, Error, Message

from trilemma.deployment.site.wrapping import TERMS_OF_MOD

__all__ = ["refusal_of"]

_LOG: Final = logging.getLogger("trilemma.flower")
_REFUSED: Final = 2  # Flower's code for a client that raised


def refusal_of(first_mod: object, message: Message, context: Context) -> Message | None:
    """The refusal of a message to an app whose first mod is not ours; None where it is.

    Whether the mod's terms are strong enough is the mod's own to check.
    """
    if hasattr(first_mod, TERMS_OF_MOD):
        return None
    _LOG.warning(
        "node %d refuses: the node's policy asks for protected updates, and the app's first mod "
        "is not protect_mod; write ClientApp(mods=[protect_mod(terms)]).",
        context.node_id,
    )
    reason = "PolicyRefused: the log of the node says why"
    return Message(Error(_REFUSED, reason), reply_to=message)
