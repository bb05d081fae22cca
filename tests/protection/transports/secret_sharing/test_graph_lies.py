"""The same lies, and some more, in graphs: 40 clients that draw 6 each, of whom 3 open a secret.

So small a graph has no failure probability to speak of, but the rules are those of a large one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.protection.transports.secret_sharing.lies import (
    another_identity,
    few_boxes,
    few_keys,
    few_survivors,
    hidden_from_neighbours,
    honest_until,
    isolated,
    largest_camps,
    nobody_advertised,
    other_tables,
    replay,
    substituted,
    two_camps,
    two_models,
)
from tests.protection.transports.secret_sharing.lying import Liar, replace_client, true_mean
from tests.protection.transports.secret_sharing.playing import SHARING, forced

from trilemma.entropy import System
from trilemma.protection.transports.secret_sharing.aggregation_client import SharingClient
from trilemma.protection.transports.secret_sharing.identity import Identity

CLIENTS, THRESHOLD, HELPERS = 40, 27, 2
GRAPH = forced(draws=6, threshold=3, checks=(CLIENTS + HELPERS) // 2 + 1, missing=1)
WHO = Identity.pinned(range(CLIENTS), System())


def a_liar(*, number: int = 0, pinned: bool = True, helpers: int = HELPERS) -> Liar:
    return Liar(
        CLIENTS,
        THRESHOLD,
        pinned=pinned,
        helpers=helpers,
        number=number,
        identities=WHO,
        sharing=GRAPH,
    )


def check_sums(liar: Liar, fewest: int = THRESHOLD) -> None:
    """Every sum that opens is true, and holds so many clients, helpers included."""
    for group, mean in liar.openings().items():
        assert len(group | liar.helpers) >= fewest
        assert abs(mean - true_mean(group)).max() < SHARING.step_size()


def check_refused(liar: Liar, why: str) -> None:
    check_sums(liar)
    assert any(re.search(why, refusal) for refusal in liar.refusals.values()), liar.refusals


def test_an_honest_round_opens_the_sum_of_all() -> None:
    liar = honest_until("confirm", a_liar())
    liar.list_survivors(lambda _: liar.everyone)
    assert not liar.refusals
    assert set(liar.openings()) == {liar.everyone - liar.helpers}
    check_sums(liar)


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (few_boxes, "must share|drew are left"),
        (few_keys, "sealed for another round|drew are left"),
        (nobody_advertised, "fewer than its threshold"),
        (few_survivors, "fewer than its threshold"),
        (two_models, "another model"),
        (two_camps, "signed the lists that client"),
        (other_tables, "sealed for another round or client"),
        (lambda liar: another_identity(liar, bytes(32)), "that is not pinned"),
        (lambda liar: another_identity(liar, WHO[0].public), "by another identity .* by one"),
        (lambda liar: isolated(liar, one_list=False), "signed the lists that client"),
    ],
)
def test_every_lie_is_refused(lie: Callable[[Liar], object], why: str) -> None:
    liar = a_liar()
    lie(liar)
    check_refused(liar, why)


@pytest.mark.parametrize("how", ["no signature", "its own signature", "the client's signature"])
def test_substituted_keys_are_refused(how: str) -> None:
    liar = a_liar()
    substituted(liar, how)
    assert "are not signed by it" in liar.refusals[0]
    assert not liar.boxes


def test_messages_are_not_answered_twice_or_in_another_round() -> None:
    replay(lambda number: a_liar(number=number))


def test_without_pins_a_client_without_neighbours_opens() -> None:
    """Why lists are signed: each is told of a list that holds itself, and is long enough."""
    liar = a_liar(pinned=False)
    victim = isolated(liar, one_list=False)
    sums = liar.openings()
    assert frozenset({victim}) in sums
    assert abs(sums[frozenset({victim})] - true_mean({victim})).max() < SHARING.step_size()


def test_one_list_that_isolates_a_client_opens_the_others_sum_at_most() -> None:
    liar = a_liar()
    victim = isolated(liar, one_list=True)
    assert "drew are left" in liar.refusals[victim]
    check_sums(liar, THRESHOLD - 1)
    assert all(victim not in group for group in liar.openings())


def test_edges_that_one_end_is_not_told_of_open_nothing() -> None:
    liar = a_liar()
    victim = hidden_from_neighbours(liar)
    assert victim in liar.vectors
    assert not liar.openings(), "masks of one end are left in the sum"


def test_a_second_unmask_opens_a_client_only_if_a_session_is_rolled_back() -> None:
    liar = honest_until("confirm", a_liar(helpers=0))
    states = {c: item.export() for c, item in liar.clients.items()}
    liar.list_survivors(lambda _: liar.everyone)
    liar.list_survivors(lambda _: liar.everyone - {3})
    assert all("answers no more" in refusal for refusal in liar.refusals.values())
    assert set(liar.openings()) == {liar.everyone}
    for client, state in states.items():
        replace_client(liar, client, state)
    liar.list_survivors(lambda _: liar.everyone - {3})
    assert frozenset({3}) in liar.openings()


@pytest.mark.parametrize(("checks", "opens"), [(0, True), (CLIENTS // 2 + 1, False)])
def test_two_lists_pass_where_no_signature_is_checked(checks: int, opens: bool) -> None:
    """Why a sample is: of 13 torn clients some have two holders in either camp."""
    sharing = forced(draws=12, threshold=2, checks=checks)
    liar = Liar(CLIENTS, THRESHOLD, identities=WHO, sharing=sharing)
    torn = two_camps(liar)
    assert any(len(group) == 1 and group <= torn for group in liar.openings()) is opens


def test_no_signature_comes_before_the_list_of_survivors() -> None:
    liar = honest_until("confirm", a_liar())
    assert not liar.early
    liar.tell("ALL", dict.fromkeys(liar.everyone, b""))
    assert set(liar.refusals) == liar.everyone
    assert all("must send 'SUR' now, got 'ALL'" in refusal for refusal in liar.refusals.values())


def test_signatures_with_updates_would_open_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why there are none: the third that may be told of other lists holds enough shares."""
    monkeypatch.setattr(SharingClient, "_early", property(lambda client: client._identity))
    sharing = forced(draws=12, threshold=2, checks=CLIENTS // 2 + 1)
    liar = Liar(CLIENTS, THRESHOLD, identities=WHO, sharing=sharing, hurried=True)
    torn = largest_camps(liar)
    assert not liar.refusals
    assert any(len(group) == 1 and group <= torn for group in liar.openings())
