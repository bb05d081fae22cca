"""Federated digits with Flower, unprotected or under any protection of trilemma."""
