"""Contract tests for mechanisms, ours and yours.

A check raises AssertionError with one sentence that says what does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from trilemma.entropy import Seeded
from trilemma.errors import TrilemmaError
from trilemma.observations import Adversary, Observation
from trilemma.protection.adversary_view import observe
from trilemma.protection.protection import Protection
from trilemma.protection.round_arithmetic import Arithmetic
from trilemma.protection.round_info import RoundInfo
from trilemma.protection.session_rounds import run_round
from trilemma.protection.specs import parse_protection
from trilemma.protection.transcripts import Transcript
from trilemma.protection.transforms.tunable import Start, Tunable
from trilemma.protection.transports.wire import SERVER

__all__ = ["check_mechanism"]

_SIGMAS: Final = 6.0  # of a statistical comparison: one false alarm in 10⁹


def check_mechanism(
    protection: Protection,
    *,
    stronger: Sequence[Protection] = (),
    refused: Sequence[Callable[[], object]] = (),
    secret: Any = None,
    clients: int = 4,
    size: int = 2000,
    scale: float = 0.1,
    tolerance: float = 0.0,
    seed: int = 0,
) -> None:
    """Checks what a federation, an attacker and a tuner rely on.

    - The mean of a round is the weighted mean of what the transforms made, within half a step of
      the transport's grid, plus `tolerance`; and what they made is the update, clipped and scaled
      as they say, with the noise that they say.
    - What an adversary reads of a round's messages is what their arithmetic shows it.
    - Bits counted equal bytes sent, and the text of the protection is read back as the same.
    - A transform with one free parameter (`Tunable`) has values in its domain, leaves less to read
      at the strongest than at the weakest of them, and sends nothing beyond its reach.
    - Each of `stronger`, in rising order of strength, leaves less to read than the one before.
    - Each call in `refused` raises a `TrilemmaError`.

    Updates are uniform on [-scale, scale]; keep that inside a transport's clip_range. `secret` is
    the clients' key, if the transport needs one.

    >>> from trilemma.protection.specs import parse_protection
    >>> noise = [parse_protection(f"randomization:variance={v}") for v in (1e-4, 1e-2)]
    >>> check_mechanism(
    ...     noise[0],
    ...     stronger=noise[1:],
    ...     refused=[lambda: parse_protection("randomization:variance=-1")],
    ... )
    """
    _check_text(protection)
    source = Seeded(seed)
    generator = source.torch_generator("updates")
    uniform = torch.rand((clients, size), generator=generator, dtype=torch.float64)
    updates = (2 * uniform - 1) * scale
    info = RoundInfo.new(range(clients), source, run="check", threshold=clients)
    weights = [1] * clients if protection.cancels else list(range(1, clients + 1))
    result = run_round(protection, updates, weights, info, entropy=source, secret=secret)
    grid = protection.transport.step_size() / 2 + tolerance + 1e-9 * scale
    _check_mean(protection, updates, weights, info, source, result.mean, grid)
    _check_transforms(protection, updates, info, source, 1e-9 * scale + tolerance)
    _check_bits(protection, result.transcript)
    arithmetic = Arithmetic(protection, updates, weights, info, source)
    for adversary in Adversary:
        shown = observe(protection, result.transcript, adversary)
        fast = list(arithmetic.read_by(adversary))
        _check_observations(protection, shown, fast, adversary, grid)
    for transform in protection.transforms:
        if isinstance(transform, Tunable):
            _check_tunable(type(transform), updates, info, source)
    _check_strength([protection, *stronger], updates, info, source)
    for number, call in enumerate(refused):
        try:
            call()
        except TrilemmaError:
            continue
        raise AssertionError(f"bad parameters, number {number} in refused, were accepted.")


def _check_text(protection: Protection) -> None:
    """Settings files, verdicts and worker processes hold a protection as its text."""
    text = protection.describe()
    try:
        same = parse_protection(text) == protection
    except TrilemmaError as error:
        raise AssertionError(f"the text {text!r} cannot be read back: {error}") from None
    assert same, f"the text {text!r} is read back as another protection."


def _check_mean(
    protection: Protection,
    updates: torch.Tensor,
    weights: Sequence[int],
    info: RoundInfo,
    source: Seeded,
    mean: torch.Tensor,
    grid: float,
) -> None:
    total = torch.zeros_like(updates[0])
    for client, update, weight in zip(info.participants, updates, weights, strict=True):
        made = protection.apply(update, client, info, source, of_sum=True)
        total += made.values * (weight / sum(weights))
    error = float((mean - total).abs().max())
    assert error <= grid, (
        f"the mean under {protection.describe()} is {error:.3g} off the weighted mean of what the "
        f"clients sent, beyond the stated {grid:.3g}."
    )


def _check_transforms(
    protection: Protection, updates: torch.Tensor, info: RoundInfo, source: Seeded, slack: float
) -> None:
    """sent / gain = clip(u) + noise on the known coordinates, zero elsewhere."""
    name = protection.describe()
    for client, update in zip(info.participants, updates, strict=True):
        made = protection.apply(update, client, info, source)
        mechanism = protection.mechanism_info(info, updates.shape[1], client)
        known = made.known if mechanism.known is None else mechanism.known
        if known is None:
            known = torch.ones_like(update, dtype=torch.bool)
        assert not made.values[~known].any(), f"{name} sends coordinates that it says it drops."
        clip = math.inf if mechanism.clip is None else mechanism.clip
        clipped = update * min(1.0, clip / float(update.norm()))
        if mechanism.limit is not None:
            clipped = clipped.clamp(-mechanism.limit, mechanism.limit)
        left = (made.values / mechanism.gain - clipped)[known]
        if mechanism.noise is None:
            worst = float(left.abs().max())
            assert worst <= slack, (
                f"{name} tells of no noise, but a value of client {client} is {worst:.3g} off."
            )
            continue
        stated = mechanism.noise.deviation
        # Var(x²) / 4 Var(x)² is (kurtosis - 1) / 4: 1/2 of a Gaussian, 5/4 of a Laplace
        tails = 1.25 if mechanism.noise.kind == "laplace" else 0.5
        spread = _SIGMAS * math.sqrt(tails / left.numel())
        ratio = float(left.square().mean().sqrt()) / stated
        assert abs(ratio - 1) <= spread, (
            f"{name} tells of noise with deviation {stated:.3g}, but client {client} has "
            f"{ratio:.3g} times that."
        )
        shift = abs(float(left.mean())) / stated
        assert shift <= _SIGMAS / math.sqrt(left.numel()), (
            f"the noise of {name} has mean {shift:.3g} deviations, not 0."
        )


def _check_bits(protection: Protection, transcript: Transcript) -> None:
    for what, counted, from_server in (
        ("up", transcript.bits_up, False),
        ("down", transcript.bits_down, True),
    ):
        bodies = [m.body for m in transcript.messages if (m.sender == SERVER) is from_server]
        assert all(isinstance(body, bytes) for body in bodies), "messages must be bytes."
        sent = 8 * sum(len(body) for body in bodies)
        assert counted == sent > 0, (
            f"{protection.describe()} counts {counted} bits {what}, but {sent} were sent."
        )


def _check_observations(
    protection: Protection,
    shown: Sequence[Observation],
    fast: Sequence[Observation],
    adversary: Adversary,
    grid: float,
) -> None:
    name = protection.describe()
    assert len(shown) == len(fast), (
        f"{name} shows the {adversary} {len(shown)} things in a round, but arithmetic {len(fast)}."
    )
    for ours, theirs in zip(shown, fast, strict=True):
        for field in ("noise", "weights", "known", "clip", "limit", "clients"):
            pair = getattr(ours, field), getattr(theirs, field)
            assert _same(*pair), (
                f"{name} tells the {adversary} {field} = {pair[0]} in a round, but "
                f"arithmetic {pair[1]}."
            )
        error = float((ours.update - theirs.update).abs().max())
        assert error <= 2 * grid, (
            f"what the {adversary} reads under {name} differs by {error:.3g} between a round and "
            f"its arithmetic, beyond {2 * grid:.3g}."
        )


def _same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return type(one) is type(other) and one == other


def _check_tunable(
    mechanism: type[Tunable], updates: torch.Tensor, info: RoundInfo, source: Seeded
) -> None:
    name, size = mechanism.name, updates.shape[1]
    start = Start(float(updates.square().mean()), unknowns=max(1, size // 100), coordinates=size)
    low, high = mechanism.parameter.domain
    weakest, strongest = mechanism.span(start)
    values = (weakest, mechanism.warm(start), strongest)
    assert all(low <= value <= high and 0 < value < math.inf for value in values), (
        f"{name} would begin at {values[1]:.4g} in {weakest:.4g} .. {strongest:.4g}, which its "
        f"parameter {mechanism.parameter.symbol} must keep within {low:g} .. {high:g}."
    )
    for value in values:
        sent = Protection((mechanism.at(value),)).apply(updates[0], 0, info, source).values
        reach = mechanism.at(value).reach(float(updates.abs().max()))
        assert float(sent.abs().max()) <= reach, (
            f"{name} at {value:.4g} sends {float(sent.abs().max()):.4g}, beyond its reach of "
            f"{reach:.4g}."
        )
    ends = [Protection((mechanism.at(value),)) for value in (weakest, strongest)]
    _check_strength(ends, updates, info, source)


def _check_strength(
    rising: Sequence[Protection], updates: torch.Tensor, info: RoundInfo, source: Seeded
) -> None:
    readable = [_readable(item, updates, info, source) for item in rising]
    for weak, strong, before, now in zip(rising, rising[1:], readable, readable[1:], strict=False):
        assert now < before, (
            f"{strong.describe()} should protect more than {weak.describe()}, but leaves "
            f"{now:.4g} of an update to read, where that leaves {before:.4g}."
        )


def _readable(
    protection: Protection, updates: torch.Tensor, info: RoundInfo, source: Seeded
) -> float:
    """The share of an update that the server can read, at best: known · 1/(1 + error²/σ²)."""
    best = 0.0
    seen = Arithmetic(protection, updates, None, info, source).read_by(Adversary.SERVER)
    for index, item in enumerate(seen):
        truth = updates[index] if item.clients == 1 else updates.mean(dim=0)
        known = torch.ones_like(truth, dtype=torch.bool) if item.known is None else item.known
        if not known.any():
            continue
        error = (item.update - truth)[known].square().mean() / truth.square().mean()
        best = max(best, float(known.double().mean() / (1 + error)) / item.clients)
    return best
