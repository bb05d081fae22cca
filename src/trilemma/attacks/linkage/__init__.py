"""The record that several messages share, whatever else is in them."""

from trilemma.attacks.linkage.attack import Linkage

__all__ = ["Linkage"]
