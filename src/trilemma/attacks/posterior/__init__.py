"""Beliefs over a candidate set: which candidate is behind an observation, by Bayes."""

from trilemma.attacks.posterior.exact import ExactPosterior
from trilemma.attacks.posterior.gaussian import GaussianPosterior

__all__ = ["ExactPosterior", "GaussianPosterior"]
