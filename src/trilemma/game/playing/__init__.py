"""The game of the line-up: who is tagged, what an adversary sees of it, and what it picks."""
