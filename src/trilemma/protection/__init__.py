"""How a client protects its update: transforms change it, one transport carries it.

From the bottom up: `transforms` and `transports` are what mechanisms do; `protection` puts them
together and `specs` writes them as text; `sessions` are the two sides of a round, `rounds` runs
one, `observing` says what an adversary reads of it.
"""
