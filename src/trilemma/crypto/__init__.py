"""Cryptographic primitives, blind to learning: Paillier, packing, masks and secret sharing.

`paillier` (keys) with `randomizers` (its speed), `ciphertexts` (the wire) and `keyfiles` (the
disk); `packing` (numbers into plaintexts); `masking` and `shamir` (secure aggregation); `sealed`
(how secrets stay hidden). Every secret comes from `System()` entropy.
"""
