"""Nodes whose identities are pinned, by files as openssl writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

Config = dict[int, dict[str, str]]


def pin(folder: Path, nodes: Iterable[int]) -> Config:
    """The configuration of each node: its own key, and everybody's public keys."""
    keys = {node: Ed25519PrivateKey.generate() for node in nodes}
    peers = folder / "peers.pem"
    public = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    peers.write_bytes(b"".join(key.public_key().public_bytes(*public) for key in keys.values()))
    made = {}
    for node, key in keys.items():
        file = folder / f"{node}.pem"
        file.touch(0o600)
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        made[node] = {"trilemma-identity": str(file), "trilemma-peers": str(peers)}
    return made
