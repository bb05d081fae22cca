"""The identification game: its target, what an adversary sees of it, and what it guesses."""
