"""The record that several messages share, whatever else is in them."""

from trilemma.attacks.linkage.linkage_attack import Linkage

__all__ = ["Linkage"]
