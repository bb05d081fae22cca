"""Tune the protection of federated updates: privacy, utility, efficiency."""
