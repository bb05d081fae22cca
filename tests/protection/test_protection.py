"""A protection as a value: whose places are sent, what contradicts what, what stands beside it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.protection.five import CLIENTS, PAILLIER, SIZE, a_round, updates

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput
from trilemma.protection.protection import Protection
from trilemma.protection.specs import parse_protection
from trilemma.protection.transforms.bounded import BoundedMask
from trilemma.protection.transforms.compression import Compression, LayerCompression
from trilemma.protection.transforms.randomization import Randomization
from trilemma.protection.transforms.top_k import TopK
from trilemma.protection.transports.paillier_transport import Paillier
from trilemma.protection.transports.plain import Plain
from trilemma.protection.transports.secret_sharing.aggregation_transport import SecretSharing

LAYERS = LayerCompression(((0.5, 30), (0.1, 30)))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("compression:keep=0.5", True),
        ("randomization:variance=0.01,clip=1.0+compression:keep=0.5", True),
        ("compression:keep=0.5+secret-sharing", False),
        (f"compression:keep=0.5+{PAILLIER}", False),
        (f"compression:keep=0.5+{PAILLIER},mode=blind", False),
        ("compression:keep=0.5+secret-sharing:bound=0.1", False),
    ],
)
def test_clients_send_places_of_their_own_where_nothing_has_to_align(text: str, own: bool) -> None:
    protection = parse_protection(text)
    masks = {
        tuple(protection.apply(row, client, a_round(), Seeded(0)).values.ne(0).tolist())
        for client, row in enumerate(updates())
    }
    assert len(masks) == (CLIENTS if own else 1)
    told = {
        tuple(known.tolist())
        for client in range(CLIENTS)
        if (known := protection.mechanism_info(a_round(), SIZE, client).known) is not None
    }
    assert told == masks, "what everyone knows of a client is what it sends"


@pytest.mark.parametrize(
    ("text", "clients"), [("compression:keep=0.2", 5), ("compression:keep=0.2+secret-sharing", 1)]
)
def test_own_places_divide_the_variance_by_the_number_of_clients(text: str, clients: int) -> None:
    """Equal updates u: (1-ρ)/ρ · u²/K in a coordinate of the mean; common places: as for K = 1."""
    protection, update = parse_protection(text), torch.full((40,), 0.1, dtype=torch.float64)
    means = []
    for number in range(400):
        sent = [protection.apply(update, k, a_round(number), Seeded(0)) for k in range(CLIENTS)]
        means.append(torch.stack([item.values for item in sent]).mean(dim=0))
    found = torch.stack(means)
    assert float(found.mean()) == pytest.approx(0.1, rel=0.05)
    assert float(found.var()) == pytest.approx(4 * 0.1**2 / clients, rel=0.1)


def test_caveats_stand_beside_what_is_weak() -> None:
    assert Protection().caveats == ()
    assert "weak" in parse_protection("secret-sharing:bound=1").caveats[0]
    assert "reads the sum" in parse_protection("compression:keep=0.1+secret-sharing").caveats[0]
    assert "one client" in parse_protection("paillier").caveats[0]


@pytest.mark.parametrize(
    ("transforms", "transport", "why"),
    [
        ((TopK(0.1),), SecretSharing(), "by their value"),
        ((TopK(0.1),), Paillier(), "by their value"),
        ((TopK(0.1), BoundedMask(1.0)), Plain(), "by their value"),
        ((BoundedMask(1.0),), SecretSharing(), "add nothing"),
        ((Randomization(1.0), BoundedMask(1.0)), Plain(), "both are noise"),
        ((Compression(0.5), TopK(0.5)), Plain(), "both are compression"),
        (
            (Compression(0.5), Randomization(1.0, clip=1.0)),
            Plain(),
            "put the transform that clips",
        ),
        ((LAYERS, Randomization(1.0)), Plain(), "noise before"),
        ((Randomization(1e-12),), SecretSharing(), "lost on the transport's grid"),
    ],
)
def test_contradictions_are_refused(transforms: Any, transport: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Protection(transforms, transport)


def test_noise_may_follow_layers_that_are_scaled_alike() -> None:
    """Kept coordinates sent as they are all have a gain of 1."""
    plain = LayerCompression(LAYERS.layers, unbiased=False)
    protection = Protection((plain, Randomization(1e-4)))
    mechanism = protection.mechanism_info(a_round(), SIZE, 0)
    assert mechanism.noise is not None
    assert mechanism.noise.scale == pytest.approx(0.01)


def test_an_update_passes_its_parts_in_order() -> None:
    parts = (Randomization(1.0), Compression(0.5))
    assert Protection(parts).parts == (*parts, Plain())
    assert [part.words(str) for part in Protection(parts, SecretSharing()).parts] == [
        "noise of variance 1.0",
        "compression to a random 50.0 % of the coordinates",
        "secret sharing",
    ]
