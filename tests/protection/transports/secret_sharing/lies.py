"""What a lying server tells each client, to open what it must not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tests.protection.transports.secret_sharing.lying import Liar

from trilemma.crypto.masking import KeyPair
from trilemma.entropy import System
from trilemma.protection.transports.secret_sharing.identity import Identity
from trilemma.protection.transports.wire import HEADER_BYTES, pack

# Split lists


@dataclass(frozen=True)
class Plan:
    """Open the sum over `victims`: they mask with `view`, of which the others' keys are asked for.

    `excluded` says whom each client is told to have dropped out.
    """

    victims: frozenset[int]
    view: frozenset[int]
    excluded: Mapping[int, frozenset[int]]

    def is_lie(self, n: int) -> bool:
        """Helpers that are all the others open the last one's update by no lie at all."""
        return len(self.view) < n or any(self.excluded.values())


def plan(n: int, t: int, helpers: int = 0, *, by: str = "boxes") -> Plan | None:
    """The plan for the least sum below the threshold, or None where no lists open one.

    The victims are shown fewer keys (`by` = "keys"), fewer boxes ("boxes"), or as much as all
    ("survivors"). Each other client of their view must be called lost by t clients, none of which
    sees a list of fewer than t.
    """
    honest = n - helpers
    for size in range(1, t):
        most = honest - size
        for lost in range(most + 1) if by != "survivors" else (most,):
            view = frozenset(range(size + lost)) | frozenset(range(honest, n))
            if len(view) < t:
                continue
            room = {c: len(view) - t if c < size else n - t for c in range(honest)}
            if by == "keys":  # the others get no boxes of the victims, and cannot list them
                room |= dict.fromkeys(range(size + lost, honest), n - t - size)
            if (excluded := _excluders(range(size, size + lost), room, t - helpers)) is not None:
                return Plan(frozenset(range(size)), view, excluded)
    return None


def _excluders(
    lost: Iterable[int], room: Mapping[int, int], needed: int
) -> dict[int, frozenset[int]] | None:
    """Lists in which each of the lost is left out by `needed` others, within each one's room."""
    left, lists = dict(room), {client: set[int]() for client in room}
    for peer in lost:
        free = sorted((c for c in left if c != peer and left[c] > 0), key=lambda c: -left[c])
        if len(free) < needed:
            return None
        for client in free[:needed]:
            lists[client].add(peer)
            left[client] -= 1
    return {client: frozenset(item) for client, item in lists.items()}


def split_lists(liar: Liar, made: Plan, by: str) -> None:
    """Play the plan to its end."""
    everyone = liar.everyone

    def keys(client: int) -> frozenset[int]:
        return made.view if by == "keys" and client in made.victims else everyone

    def boxes(client: int) -> frozenset[int]:
        few = by != "survivors" and client in made.victims
        return (made.view if few else everyone) - {client}

    def alive(client: int) -> frozenset[int]:
        seen = frozenset({client, *liar.views[client]})
        return seen - made.excluded.get(client, frozenset())

    liar.advertise()
    liar.show_keys(keys)
    liar.send_boxes(boxes)
    liar.list_survivors(alive)


# Whatever lists the clients sign: two camps, as large as can be


def two_camps(liar: Liar) -> frozenset[int]:
    """One half is told that all survived, the other that n - t of the first half did not.

    Returns those of whom both kinds of share are asked for.
    """
    honest = sorted(liar.everyone - liar.helpers)
    first = frozenset(honest[: (len(honest) + 1) // 2])
    n, t = len(liar.everyone), liar.info.threshold
    torn = frozenset(sorted(first)[: n - t])
    liar.advertise()
    liar.show_keys(lambda _: liar.everyone)
    liar.send_boxes(lambda c: liar.everyone - {c})
    liar.list_survivors(lambda c: liar.everyone - (frozenset() if c in first else torn))
    return torn


def largest_camps(liar: Liar) -> frozenset[int]:
    """As many as may are told that all survived; of the rest just enough sign that some did not.

    Those open a sum of the threshold, and the first have given what opens the lost, almost. The
    first camp is told by signatures that came with the updates, where the liar is hurried.
    """
    honest = sorted(liar.everyone - liar.helpers)
    spare = len(liar.everyone) - liar.info.threshold
    first = frozenset(honest[:spare])
    honest_until("confirm", liar)
    liar.list_survivors(lambda c: liar.everyone - (frozenset() if c in first else first))
    return first


def told_twice(liar: Liar) -> None:
    """All are told that all survived, some of them by signatures alone; then that some did not."""
    first = frozenset(range(len(liar.everyone) // 2))
    honest_until("confirm", liar)
    liar.ask_to_sign(lambda _: liar.everyone, first)
    liar.tell("ALL", {c: pack(liar.signatures_for(c)) for c in liar.everyone - first})
    liar.tell("ALL", {c: pack(liar.early) for c in first})
    liar.list_survivors(lambda c: liar.everyone - {(c + 1) % len(liar.everyone)})


def early_for_late(liar: Liar, older: Liar) -> None:
    """Who signs that one is lost gets signatures that all survived, or those of a round before.

    All others get those of a round before, at once.
    """
    for value in (older, liar):
        honest_until("confirm", value)
    half = frozenset(range(len(liar.everyone) // 2))
    liar.ask_to_sign(lambda c: liar.everyone - {max(liar.everyone)}, half)
    tables = pack(liar.early), pack(older.early)
    for client in liar.everyone:
        liar.tell("ALL", {client: tables[client % 2 if client in half else 1]})


def few_boxes(liar: Liar) -> None:
    """The victim gets the boxes of t - 1 peers (one fewer if that were all), others every box."""
    few = frozenset(range(min(liar.info.threshold, len(liar.everyone) - 1)))
    liar.advertise()
    liar.show_keys(lambda _: liar.everyone)
    liar.send_boxes(lambda c: (few if c == 0 else liar.everyone) - {c})
    liar.list_survivors(lambda c: liar.everyone)


def few_keys(liar: Liar) -> None:
    """The victim is shown t keys (or one fewer), its own among them, all others every key."""
    few = frozenset(range(min(liar.info.threshold, len(liar.everyone) - 1)))
    liar.advertise()
    liar.show_keys(lambda c: few if c == 0 else liar.everyone)
    liar.send_boxes(lambda c: (few if c == 0 else liar.everyone) - {c})
    liar.list_survivors(lambda c: few if c == 0 else liar.everyone)


def nobody_advertised(liar: Liar) -> None:
    """Two halves that are each told that the other never advertised."""
    n = len(liar.everyone)
    halves = frozenset(range(n // 2)), frozenset(range(n // 2, n))

    def own(client: int) -> frozenset[int]:
        return next(halve for halve in halves if client in halve)

    liar.advertise()
    liar.show_keys(own)
    liar.send_boxes(lambda c: own(c) - {c})
    liar.list_survivors(own)


def two_models(liar: Liar) -> None:
    """The victim is shown another model than the others, whose updates would be known to be 0."""
    liar.models = dict.fromkeys(liar.everyone - {0}, b"flat") | {0: b"steep"}
    liar.advertise()
    liar.show_keys(lambda _: liar.everyone)
    liar.send_boxes(lambda c: liar.everyone - {c})
    liar.list_survivors(lambda c: liar.everyone)


def few_survivors(liar: Liar) -> None:
    """All are told the same list, which is one short of the threshold."""
    few = frozenset(range(liar.info.threshold - 1))
    liar.advertise()
    liar.show_keys(lambda _: liar.everyone)
    liar.send_boxes(lambda c: liar.everyone - {c})
    liar.list_survivors(lambda c: few)


# Replays and keys of the server's own


def honest_until(stage: str, liar: Liar) -> Liar:
    everyone = liar.everyone
    for name, act in (
        ("advertise", liar.advertise),
        ("share", lambda: liar.show_keys(lambda _: everyone)),
        ("masked", lambda: liar.send_boxes(lambda c: everyone - {c})),
        ("confirm", lambda: liar.ask_to_sign(lambda _: everyone)),
    ):
        if name == stage:
            break
        act()
    return liar


def replay(make: Callable[[int], Liar]) -> None:
    """One message of each kind, of this round and of another, to each client at each stage."""
    older = honest_until("confirm", make(1))
    older.list_survivors(lambda _: older.everyone)
    for stage in ("share", "masked", "confirm", "unmask"):
        for number in (0, 1):
            liar = honest_until(stage, make(0))
            seen = liar.messages if number == 0 else older.messages
            kinds = [*{item[4:8]: item for item in seen}.values()]
            for client in liar.everyone:
                liar.ask(client, kinds[client % len(kinds)])
            assert set(liar.refusals) == liar.everyone
            reasons = " ".join(liar.refusals.values())
            assert re.search("replayed|not a message of this protocol", reasons)
            assert not liar.openings()


def substituted(liar: Liar, how: str) -> None:
    """Show client 0 keys of the server's own in the name of everyone else."""
    liar.advertise()
    outsider = Identity.generate(System())
    for peer in sorted(liar.everyone - {0}):
        mask_key, message_key = KeyPair.generate(System()), KeyPair.generate(System())
        liar.known[mask_key.public] = mask_key
        keys, name = mask_key.public + message_key.public, liar.adverts[peer][2 * 32 + 64 :]
        if how == "its own signature":
            keys += outsider.sign(b"trilemma keys" + liar.digest + peer.to_bytes(8, "big") + keys)
        elif how == "the client's signature":
            keys += liar.adverts[peer][2 * 32 : 2 * 32 + 64]
        elif name:
            keys += bytes(64)
        liar.adverts[peer] = keys + name
    liar.tell("KEY", {0: pack(liar.adverts)})


# Lies that only a graph invites: to leave one client without neighbours


def loneliest(liar: Liar) -> tuple[int, frozenset[int]]:
    """The honest client with the fewest neighbours, and these."""
    around = {c: liar.circled(c) for c in liar.everyone - liar.helpers}
    victim = min(around, key=lambda c: len(around[c]))
    return victim, around[victim]


def isolated(liar: Liar, *, one_list: bool) -> int:
    """All neighbours of one client are called lost, in one list, or to each but about itself."""
    honest_until("confirm", liar)
    victim, around = loneliest(liar)
    here = liar.everyone - around
    liar.list_survivors(lambda c: here if one_list else here | {c})
    return victim


def hidden_from_neighbours(liar: Liar) -> int:
    """The client with the most neighbours is not told who drew it, though they drew it."""
    honest_until("masked", liar)
    victim = max(liar.everyone - liar.helpers, key=lambda c: len(liar.circled(c)))
    for boxes in liar.boxes.values():
        boxes.pop(victim, None)
    liar.send_boxes(lambda c: liar.everyone - {c})
    liar.list_survivors(lambda _: liar.everyone)
    return victim


def other_tables(liar: Liar) -> None:
    """A helper advertised twice, and each half is shown other keys of it."""
    liar.advertise()
    helper, first = min(liar.helpers), sorted(liar.everyone)[: len(liar.everyone) // 2]
    twin = liar.sharing.client(helper, liar.info, liar.identities[helper], System()).step(b"")
    assert isinstance(twin, bytes)
    tables = liar.adverts, liar.adverts | {helper: twin[HEADER_BYTES:]}
    liar.tell("KEY", {c: pack(tables[c in first]) for c in liar.everyone - {helper}})
    liar.send_boxes(lambda c: liar.everyone - {c})
    liar.list_survivors(lambda _: liar.everyone)


def another_identity(liar: Liar, public: bytes) -> None:
    """A client is named by another identity."""
    liar.advertise()
    liar.adverts[1] = liar.adverts[1][: 2 * 32 + 64] + public
    liar.show_keys(lambda _: liar.everyone)
