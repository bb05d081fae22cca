"""Key files: Paillier's, and the identities of nodes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random

import gmpy2
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from benchmarks.fuzzing.hostile import number, spoilt_bytes, spoilt_json, spoilt_text
from benchmarks.fuzzing.judging import Wrong, require
from trilemma.crypto.keyfiles import load_private, load_public, save_private, save_public
from trilemma.crypto.paillier import PrivateKey, PublicKey
from trilemma.deployment.nodes.identities import NodeIdentity
from trilemma.entropy import System
from trilemma.protection.transports.secret_sharing.identity import Identity

__all__ = ["keys"]


@cache
def _paillier(seed: int) -> PrivateKey:
    return PrivateKey.generate(System(), bits=(128, 256, 512)[seed % 3], insecure=True)


@cache
def _pems() -> tuple[tuple[bytes, ...], bytes]:
    """Private keys, the last of another kind, and the public ones of the others."""
    made = [Ed25519PrivateKey.generate() for _ in range(3)]
    shape = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    other = generate_private_key(SECP256R1()).private_bytes(*shape)
    public = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    shown = b"".join(item.public_key().public_bytes(*public) for item in made)
    return (*(item.private_bytes(*shape) for item in made), other), shown


def keys(draw: Random, folder: Path) -> None:
    """A key that is accepted is one, and is the one that its file holds."""
    (_private, _public, _pem, _identity)[draw.randrange(4)](draw, folder)


def _file(draw: Random, path: Path, numbers: dict[str, int]) -> Path:
    """A key file, as it was written, or spoilt."""
    fields: dict[str, object] = dict(json.loads(path.read_text()))
    path.unlink()
    kind = draw.random()
    if kind < 0.35:
        key = draw.choice(list(numbers))
        value = numbers[key]
        wrong = (0, 1, -1, 2, -value, value + 1, value + 2, value * 3, value // 2, value**2)
        fields[key] = hex(draw.choice((*wrong, int(gmpy2.next_prime(value)), 1 << 70_000)))
    elif kind < 0.45:
        key = draw.choice(list(numbers))
        fields[key] = draw.choice((number(draw), 7, None, [], "0x", "-0x1", "0x_1", fields[key]))
    text = json.dumps(fields)
    if kind > 0.9:
        text = spoilt_text(draw, text)
    elif kind > 0.7:
        text = spoilt_json(draw, fields)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    path.chmod(0o600 if draw.random() < 0.95 else 0o644)
    return path


def _private(draw: Random, folder: Path) -> None:
    key = _paillier(draw.randrange(6))
    save_private(key, folder / "key")
    p, q, h = key.reveal()
    path = _file(draw, folder / "key", {"p": p, "q": q, "h": h})
    found = load_private(path, insecure=draw.random() < 0.9)
    p, q, h = found.reveal()
    require(bool(gmpy2.is_prime(p) and gmpy2.is_prime(q)) and p != q, "p and q are no primes")
    _usable(found.public)
    require(found.decrypt(found.encrypt([5], System())) == [5], "it does not decrypt")
    save_private(found, folder / "again")
    require(load_private(folder / "again", insecure=True).reveal() == (p, q, h), "another key")


def _public(draw: Random, folder: Path) -> None:
    key = _paillier(draw.randrange(6)).public
    save_public(key, folder / "key")
    found = load_public(_file(draw, folder / "key", {"n": key.n, "h": key.h}), insecure=True)
    _usable(found)
    save_public(found, folder / "again")
    require(load_public(folder / "again", insecure=True) == found, "another key")


def _usable(key: PublicKey) -> None:
    require(64 <= key.bits <= 16384, f"a key of {key.bits} bits")
    require(not gmpy2.is_prime(key.n) and not gmpy2.is_square(key.n), "n is a prime or a square")
    require(1 < key.h < key.n - 1 and gmpy2.gcd(key.h, key.n) == 1, "h hides nothing")


def _pem(draw: Random, folder: Path) -> None:
    private, shown = _pems()
    own, peers = folder / "own.pem", folder / "peers.pem"
    kind = draw.random()
    own.write_bytes(spoilt_bytes(draw, private[0]) if kind < 0.5 else draw.choice(private))
    spoil = 0.4 < kind < 0.9
    peers.write_bytes(spoilt_bytes(draw, shown) if spoil else draw.choice((shown, shown[:113])))
    own.chmod(0o600 if draw.random() < 0.95 else 0o644)
    found = NodeIdentity.load(own, peers)
    require(len(found.public) == 32 and len(found.reveal()) == 32, "no Ed25519 key")


def _identity(draw: Random, _: Path) -> None:
    """Raw keys and signatures of peers."""
    alice, bob = (Identity.generate(System()) for _ in range(2))
    public = spoilt_bytes(draw, alice.public) if draw.random() < 0.6 else alice.public
    signature = alice.sign(b"hello")
    signature = spoilt_bytes(draw, signature) if draw.random() < 0.4 else signature
    secret = bob.reveal() if draw.random() < 0.7 else spoilt_bytes(draw, bob.reveal())
    pinned = Identity(secret, {0: public})
    pinned.check(draw.choice((0, 0, 1)), b"hello", signature)
    if public != alice.public or signature != alice.sign(b"hello"):
        raise Wrong("a signature that nobody made holds")
