"""What a curious server tries: attacks on batches of independent units."""

from __future__ import annotations

from collections.abc import Callable

from trilemma.attacks.base import Attack, InputSpec, Reconstructions, View
from trilemma.attacks.dlg import DLG, IDLG
from trilemma.errors import UnknownName

__all__ = ["ATTACKS", "DLG", "IDLG", "Attack", "InputSpec", "Reconstructions", "View", "get"]

ATTACKS: dict[str, Callable[[], Attack]] = {"dlg": DLG, "idlg": IDLG}


def get(name: str) -> Attack:
    """The attack called `name`, with its default effort.

    >>> get("dlg").name
    'dlg'
    """
    if name not in ATTACKS:
        raise UnknownName("attack", name, ATTACKS)
    return ATTACKS[name]()
