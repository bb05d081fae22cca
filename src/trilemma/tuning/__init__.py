"""Choosing a protection: the problem, and the bases on which it is answered."""
