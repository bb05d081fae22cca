from __future__ import annotations

import subprocess
import sys

import pytest

ROUND = """
import resource
import numpy as np
from trilemma.crypto.packing import FixedPoint, Packing
from trilemma.crypto.paillier import PrivateKey
from trilemma.entropy import System

key, entropy, m, clients = PrivateKey.generate(System(), bits=2048), System(), 1_000_000, 10
packing = Packing(FixedPoint(clip=1.0), key.public.plaintext_bits)
expected, sent = np.zeros(m, np.int64), []

def messages():
    for client in range(clients):
        update = np.random.default_rng(client).uniform(-1, 1, m)
        expected[:] += packing.fixed.quantise(update)
        message = key.encrypt(packing.pack(update), entropy).to_bytes()
        sent.append(len(message))
        yield key.public.receive(message)

total = key.public.add(messages())
result = packing.unpack(key.decrypt(total), m, total.summands)
assert (result.units == expected).all()
assert max(sent) <= 6.1 * m, sent
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_a_million_parameters_of_ten_clients_stay_below_two_gibibytes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROUND], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) * 1024 < 2 * 1024**3
