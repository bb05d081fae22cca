"""How few neighbours are enough: a graph for secure aggregation that clients draw themselves.

Each of n clients draws d others, who hold the shares of its secrets, t of which open one; masks
run along all draws, so that a client has about k = 2d neighbours (Bell et al. 2020, the variant
against a server that lies). Up to c clients, chosen before the draws, help the server; up to n - T
drop out, T the round's threshold; a secret sample of signatures on the lists is checked. Each of
the following fails with probability 2^-40 at most, by union bounds over all clients and sets:

correct  whichever clients drop out, t of each client's d holders are left.
safe     all who reveal shares hold one list of survivors; the helpers open nothing by themselves;
         and whatever list of T or more the server makes up after it has seen the graph, the only
         sum that opens is that of all honest clients on it but for `missing` at most.

An opened sum is over a set A of honest survivors that is closed: of each member's draws t at least
lie in A or are helpers, and none lies in B, the honest survivors outside A. So for |A| = a,

    P <= C(n-c, a) min(P[H(a-1+c) >= t]^a, C(n-c-a, b) P[H(b) = 0]^a),   a + b = T - c,

where H(x) counts draws among x marked ones of n - 1 (hypergeometric).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CORRUPT", "FAILURE_BITS", "Neighbourhood", "log_closed", "log_tail", "neighbourhood"]

CORRUPT: Final = 0.1  # share of clients, at most, that help the server
FAILURE_BITS: Final = 40
_LOG_FAILURE: Final = -FAILURE_BITS * math.log(2)
_LOG_PART: Final = _LOG_FAILURE - math.log(3)  # of each of three ways to be unsafe
_BLOCK: Final = 4096  # sets' sizes at a time
_MISSING_SHARE: Final = 50  # a sum misses a fiftieth of the clients at most


@dataclass(frozen=True)
class Neighbourhood:
    """What each client draws, the shares that open a secret, the signatures that it checks.

    `missing` bounds the honest survivors that a lying server may keep out of the sum.
    """

    draws: int
    threshold: int
    checks: int
    missing: int

    @property
    def neighbours(self) -> int:
        """k: those whom a client draws, and about as many that draw it."""
        return 2 * self.draws


@lru_cache(maxsize=64)
def neighbourhood(clients: int, threshold: int, corrupt: float) -> Neighbourhood | None:
    """The fewest draws for n clients, T left at least and a share that helps; None for all pairs.

    All pairs is the answer where they are no more than twice the neighbours.

    >>> neighbourhood(1000, 667, 0.1)
    Neighbourhood(draws=125, threshold=43, checks=160, missing=8)
    >>> neighbourhood(1000, 900, 0.1).neighbours, neighbourhood(100, 67, 0.1)
    (116, None)
    """
    helpers = math.floor(corrupt * clients)
    checks = _checks(clients, threshold, helpers)
    if checks is None or threshold <= helpers:
        return None
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, clients + 1)))))  # ln k!
    for draws in range(1, (clients - 1) // 4 + 1):
        shares = _shares(logs, clients, clients - threshold, draws)
        alone = log_tail(logs, clients - 1, helpers, draws, shares)
        if shares < 1 or math.log(clients) + alone > _LOG_PART:
            continue
        missing = _missing(logs, clients, threshold, helpers, draws, shares)
        if missing * _MISSING_SHARE <= clients:
            return Neighbourhood(draws, shares, checks, missing)
    return None


def log_tail(
    logs: NDArray[Any], others: int, marked: int | NDArray[Any], draws: int, least: int
) -> Any:
    """ln P[H >= least], H of `draws` among `others`, of which `marked` count; `logs` holds ln k!.

    >>> logs = np.log([1, 1, 2, 6, 24])
    >>> round(float(np.exp(log_tail(logs, 4, 2, 2, 1))), 12)  # 1 - C(2, 2) / C(4, 2)
    0.833333333333
    """
    found = np.arange(max(0, least), draws + 1).reshape(-1, *[1] * np.ndim(marked))
    terms = _choose(logs, marked, found) + _choose(logs, others - marked, draws - found)
    if not len(found):
        return np.full(np.shape(marked), -np.inf)
    return np.minimum(0.0, np.logaddexp.reduce(terms - _choose(logs, others, draws), axis=0))


def _choose(logs: NDArray[Any], n: Any, k: Any) -> Any:
    """ln C(n, k), minus infinity where there is no such choice."""
    n, k = np.broadcast_arrays(n, k)
    able = (k >= 0) & (k <= n)
    top, part = np.where(able, n, 0), np.where(able, k, 0)
    return np.where(able, logs[top] - logs[part] - logs[top - part], -np.inf)


def _shares(logs: NDArray[Any], clients: int, dropped: int, draws: int) -> int:
    """The most shares to ask for: t of each client's holders are left but for 2^-40."""
    lost = np.arange(draws + 1)
    terms = _choose(logs, dropped, lost) + _choose(logs, clients - 1 - dropped, draws - lost)
    terms = terms - _choose(logs, clients - 1, draws) + math.log(clients)
    beyond = np.logaddexp.accumulate(terms[::-1])[::-1]  # of losing j holders or more
    return draws - int(np.count_nonzero(beyond > _LOG_FAILURE)) + 1


def _checks(clients: int, threshold: int, helpers: int) -> int | None:
    """How many of T signatures to check, so that no second list passes with any client.

    Of two lists, one has at most V = (n + c) / 2 true signers, and m random ones of T are all
    true with probability C(V, m) / C(T, m).
    """
    true = (clients + helpers) // 2
    if true >= threshold:
        return None
    log_pass = math.log(clients)
    for checked in range(true):
        if log_pass <= _LOG_PART:
            return checked
        log_pass += math.log((true - checked) / (threshold - checked))
    return true + 1


def _missing(
    logs: NDArray[Any], clients: int, threshold: int, helpers: int, draws: int, shares: int
) -> int:
    """The least e such that no closed set leaves more than e honest survivors out."""
    left, total = threshold - helpers, -math.inf
    for start in range(1, left, _BLOCK):
        inside = np.arange(start, min(start + _BLOCK, left))
        terms = log_closed(logs, clients, left, helpers, draws, shares, inside)
        sums = np.logaddexp(total, np.logaddexp.accumulate(terms))
        if (beyond := np.flatnonzero(sums > _LOG_PART)).size:
            return left - int(inside[beyond[0]])
        total = float(sums[-1])
    return 0


def log_closed(
    logs: NDArray[Any],
    clients: int,
    left: int,
    helpers: int,
    draws: int,
    shares: int,
    inside: NDArray[Any],
) -> NDArray[Any]:
    """ln of the bound on closed sets of `inside` members, of `left` = T - c honest survivors.

    From half of them on, sets speak for the larger ones too, if one fewer stays outside: none of
    their draws lies outside, and that is so for every part of a set.
    """
    honest, outside = clients - helpers, left - inside
    apart = _choose(logs, clients - 1 - outside, draws) - _choose(logs, clients - 1, draws)
    lists = _choose(logs, honest - inside, outside) + inside * apart
    held = inside * log_tail(logs, clients - 1, inside - 1 + helpers, draws, shares)
    held[2 * inside > left] = np.inf
    bound: NDArray[Any] = _choose(logs, honest, inside) + np.minimum(held, lists)
    return bound
