"""Secure aggregation: clients add masks that cancel in the sum.

`transport` is the protocol, `client` and `server` its two sides, `identity` the keys that clients
pin.
"""
