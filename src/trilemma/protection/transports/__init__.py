"""What carries an update: in the clear, encrypted, or masked; one file or folder each.

`base` is what a transport is, `fixed_point` what those on a grid share, `PLAIN` the one that a
protection has which names none.
"""

from __future__ import annotations

from typing import Final

from trilemma.protection.transports.base import Transport
from trilemma.protection.transports.plain import Plain

__all__ = ["PLAIN"]

PLAIN: Final[Transport] = Plain()
