"""Cryptographic primitives, blind to learning: Paillier, packing, masks and secret sharing.

`paillier` (keys) with `randomizers` (its speed), `ciphertexts` (the wire), `keyfiles` (the disk)
and `workers` (more cores); `packing` (numbers into plaintexts); `masking` and `shamir` (secure
aggregation); `sealed` (how secrets stay hidden). Every secret comes from `System()` entropy.
"""
