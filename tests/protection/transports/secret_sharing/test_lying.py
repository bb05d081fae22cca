"""Lies played against unmodified clients: what opens, and what is refused by which reason."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pytest
from tests.protection.transports.secret_sharing.lies import (
    early_for_late,
    few_boxes,
    few_keys,
    few_survivors,
    honest_until,
    largest_camps,
    nobody_advertised,
    plan,
    replay,
    split_lists,
    substituted,
    told_twice,
    two_camps,
    two_models,
)
from tests.protection.transports.secret_sharing.lying import Liar, replace_client, true_mean
from tests.protection.transports.secret_sharing.playing import SHARING

from trilemma.crypto.masking import KeyPair, RoundContext, seal, unseal
from trilemma.crypto.shamir import SHARE_BYTES, split
from trilemma.entropy import System
from trilemma.errors import InvalidInput
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import pack

BOTH = pytest.mark.parametrize("pinned", [True, False], ids=["pinned", "unpinned"])


def check_opened(liar: Liar, clients: set[int]) -> None:
    """These clients' sum is among those that came out, each to within rounding."""
    sums = liar.openings()
    assert frozenset(clients) in sums
    for group, mean in sums.items():
        np.testing.assert_allclose(mean, true_mean(group), atol=SHARING.step_size())


@pytest.mark.parametrize(
    ("n", "t", "helpers", "by", "opened"),
    [
        (5, 3, 0, "boxes", 1),
        (10, 6, 0, "boxes", 1),
        (20, 12, 0, "boxes", 1),
        (10, 7, 2, "boxes", 1),
        (10, 6, 0, "keys", 1),
        (20, 12, 0, "keys", 1),
        (10, 7, 0, "survivors", 6),
        (10, 7, 3, "survivors", 2),
    ],
)
def test_without_pins_split_lists_open_less_than_the_threshold(
    n: int, t: int, helpers: int, by: str, opened: int
) -> None:
    """Why a server must be honest but curious where nothing is pinned."""
    made = plan(n, t, helpers, by=by)
    assert made is not None
    liar = Liar(n, t, helpers=helpers, pinned=False)
    split_lists(liar, made, by)
    assert not liar.refusals
    check_opened(liar, set(range(opened)))


SPLITS = {
    "boxes": "where identities are pinned all of them must share",
    "keys": "was not there before|must share|fewer than the threshold",
    "survivors": "signed the lists that client",
}


def check_refused(liar: Liar, why: str) -> None:
    """Nothing opens that holds fewer than the threshold, and somebody says why not.

    Nobody has to where t clients signed one list, and the others were told that all survived: what
    these reveal opens nothing.
    """
    sums = liar.openings()
    assert len(sums) <= 1
    for group in sums:
        assert len(group | liar.helpers) >= liar.info.threshold
    if liar.refusals:
        assert any(re.search(why, refusal) for refusal in liar.refusals.values()), liar.refusals
        return
    (group,) = sums
    told = {item.survivors for item in liar.lists.values()}
    assert told == {tuple(sorted(group | liar.helpers)), tuple(sorted(liar.everyone))}


def allowed(sizes: Iterable[int]) -> list[tuple[int, int]]:
    return [(n, t) for n in sizes for t in range(2 * n // 3 + 1, n + 1)]


def play_every_lie(n: int, t: int, *, hurried: bool) -> None:
    for by, why in SPLITS.items():
        for helpers in {0, 2 * t - n - 1}:
            made = plan(n, t, helpers, by=by)
            if made is not None and made.is_lie(n):
                liar = Liar(n, t, helpers=helpers, hurried=hurried)
                split_lists(liar, made, by)
                check_refused(liar, why)
    for lie, why in (
        (few_boxes, "must share" if t < n else "fewer than its threshold"),
        (few_keys, "must share" if t < n else "fewer than its threshold"),
        (nobody_advertised, "fewer than its threshold"),
        (few_survivors, "fewer than its threshold"),
        (two_models, "another model"),
    ):
        liar = Liar(n, t, hurried=hurried)
        lie(liar)
        check_refused(liar, why)
        assert not liar.openings()
    if t < n:
        liar = Liar(n, t, helpers=2 * t - n - 1, hurried=hurried)
        two_camps(liar)
        check_refused(liar, "signed the lists that client")
    if hurried:
        return  # which matters to no lie before survivors are told
    for how in ("no signature", "its own signature", "the client's signature"):
        liar = Liar(n, t)
        substituted(liar, how)
        assert "are not signed by it" in liar.refusals[0]
        assert not liar.boxes
    replay(lambda number: Liar(n, t, number=number))


def play_every_early_lie(n: int, t: int) -> None:
    """Signatures that came with updates, for lists other than those they were given for."""
    for hurried in (True, False):
        liar = Liar(n, t, helpers=2 * t - n - 1, hurried=hurried)
        lost = largest_camps(liar)
        assert not liar.refusals
        assert set(liar.openings()) == {liar.everyone - liar.helpers - lost}, "as is allowed"
    liar = Liar(n, t)
    told_twice(liar)
    assert set(liar.openings()) == {liar.everyone}, "as the protocol has it"
    assert all("answers no more" in refusal for refusal in liar.refusals.values())
    assert set(liar.refusals) == liar.everyone
    liar = Liar(n, t)
    early_for_late(liar, Liar(n, t, number=1, identities=_known(liar)))
    assert not liar.openings()
    assert set(liar.refusals) == liar.everyone
    why = "clients signed the lists that" if t < n else "clients signed|fewer than its threshold"
    assert all(re.search(why, refusal) for refusal in liar.refusals.values())


def _known(liar: Liar) -> dict[int, Identity]:
    return {c: item for c, item in liar.identities.items() if item is not None}


@pytest.mark.parametrize(("n", "t"), [*allowed((3, 4, 5, 7)), (10, 7)])
def test_pinned_clients_refuse_every_lie(n: int, t: int) -> None:
    for hurried in (False, True):
        play_every_lie(n, t, hurried=hurried)
    play_every_early_lie(n, t)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "t"), allowed(range(3, 21)))
def test_pinned_clients_refuse_every_lie_at_every_size(n: int, t: int) -> None:
    for hurried in (False, True):
        play_every_lie(n, t, hurried=hurried)
    play_every_early_lie(n, t)


@pytest.mark.parametrize("n", range(3, 21))
def test_lower_thresholds_are_refused_by_name(n: int) -> None:
    for t in range(1, 2 * n // 3 + 1):
        with pytest.raises(InvalidInput, match=f"above two thirds of the {n} clients"):
            Liar(n, t)
        if 2 * t <= n:
            with pytest.raises(InvalidInput, match=f"above half of the {n} clients"):
                Liar(n, t, pinned=False)


@pytest.mark.parametrize("hurried", [False, True])
@pytest.mark.parametrize(("n", "t"), [(4, 3), (7, 5), (10, 7), (10, 9)])
def test_the_bound_on_helpers_is_tight(n: int, t: int, hurried: bool) -> None:
    """2t - n helpers sign two lists that t clients signed each, and single updates open."""
    liar = Liar(n, t, helpers=2 * t - n, hurried=hurried)
    for client in two_camps(liar):
        check_opened(liar, {client})


@pytest.mark.parametrize("hurried", [False, True])
@BOTH
def test_a_second_unmask_opens_a_client_only_if_a_session_is_rolled_back(
    pinned: bool, hurried: bool
) -> None:
    """Why a node writes down what it revealed before it replies."""
    liar = honest_until("confirm", Liar(6, 5, pinned=pinned, hurried=hurried))
    states = {c: item.export() for c, item in liar.clients.items()}
    liar.list_survivors(lambda _: liar.everyone)
    assert set(liar.openings()) == {liar.everyone}, "as the protocol has it"
    liar.list_survivors(lambda _: liar.everyone - {3})
    assert all("answers no more" in refusal for refusal in liar.refusals.values())
    assert set(liar.openings()) == {liar.everyone}
    for client, state in states.items():
        replace_client(liar, client, state)
    liar.list_survivors(lambda _: liar.everyone - {3})
    check_opened(liar, {3})


def test_substituted_keys_open_an_update_where_nothing_is_pinned() -> None:
    """The server plays everyone else: it reads the victim's shares, and knows all its masks."""
    liar = Liar(3, 2, pinned=False)
    context = RoundContext(liar.info.run, liar.info.number)
    liar.advertise()
    victim, fakes = liar.adverts[0][32:], {}
    for peer in (1, 2):
        mask_key, fakes[peer] = KeyPair.generate(System()), KeyPair.generate(System())
        liar.known[mask_key.public] = mask_key
        liar.adverts[peer] = mask_key.public + fakes[peer].public
    liar.tell("KEY", {0: pack(liar.adverts)})
    boxes = {}
    for peer, box in liar.boxes[0].items():
        both = unseal(fakes[peer], victim, box, context=context, sender=0, receiver=peer)
        liar.keep("seed", 0, peer, both[:SHARE_BYTES])
        own = split(bytes(32), 2, 3, System())[0].reveal()
        boxes[peer] = seal(
            fakes[peer],
            victim,
            own + own,
            context=context,
            sender=peer,
            receiver=0,
            entropy=System(),
        )
    liar.tell("BOX", {0: pack(boxes)})
    check_opened(liar, {0})
