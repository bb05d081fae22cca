"""What nodes and their server do in any framework: terms, stages, memory, ledger, identities.

A framework's adapter turns its messages into stages and back, and keeps what a node remembers.
"""
