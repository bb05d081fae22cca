"""Cryptographic primitives, blind to learning: Paillier, packing, masks and secret sharing."""
