"""How a client protects its update: transforms change it, one transport carries it.

`protection` puts them together, `laws` is the paper's half of the four mechanisms, `dp` the
differential privacy of what leaves.
"""
