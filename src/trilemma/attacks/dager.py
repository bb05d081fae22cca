"""Exact texts from the gradient of a language model's first layers (DAGER, Petrov et al. 2024).

The gradient of a weight that reads rows x_p is Σ_p δ_p x_pᵀ: what was read spans its rows. While a
batch has fewer tokens than the layer is wide, a row that lies in that span was read. The first
layer behind the embeddings reads a token at a place, so that all of them can be tried; a later one
of a causal model reads a token after those before it, which puts texts together word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch
from torch.nn.functional import linear, multi_head_attention_forward
from torch.overrides import TorchFunctionMode

from trilemma.attacks.base import KnowledgeLevel, Reconstructions, View, common_view
from trilemma.attacks.matching import ViewTensors
from trilemma.errors import InvalidInput

if TYPE_CHECKING:
    from trilemma.learning import Task
    from trilemma.records.range import InputSpec

__all__ = ["Dager"]

_ZERO: Final = 1e-6  # of the largest singular value: less is rounding of single precision
_NEAR: Final = 1e-2  # of a row's length, outside of the span: true rows are at 1e-4, others at 0.3
_MOST: Final = 64  # beginnings of texts that are kept
_ROWS: Final = 1 << 14  # rows that are run through the model at once
_FULL: Final = 0.95  # of a layer's width, beyond which every row lies in the span
_LARGEST: Final = 2048  # tokens of which each is tried for a last place
_COMPARED: Final = 20_000  # coordinates of an update
_TURNS: Final = 3  # in which the last tokens of a batch's texts settle


@dataclass(frozen=True)
class Dager:
    """Texts of a batch, word by word, by the span of what the first layers read.

    Tokens that no layer's gradient shows, as a causal model's last, which is a label alone, are
    those whose update is nearest to what was seen. Under noise all directions are in the span: the
    part of it above the noise is taken, and where there is none the batch counts as lost.
    """

    name: ClassVar[str] = "dager"
    knows: ClassVar[KnowledgeLevel] = "nothing"

    @staticmethod
    def applies(task: Task, spec: InputSpec, records: int = 1) -> bool:
        """Whether a trained layer reads one token at one place, and is wider than a batch is long.

        Of so many records; else every row lies in the span.
        """
        if spec.vocabulary is None or spec.parts or len(spec.shape) != 1:
            return False
        layers = _layers(task, spec)
        return bool(layers) and records * spec.size < _FULL * layers[0].width

    def __call__(self, views: Sequence[View], *, restarts: int, seed: int) -> Reconstructions:
        view = common_view(views)
        spec, task = view.input_spec, view.task
        layers = _layers(task, spec) if spec.vocabulary is not None else ()
        if not layers:
            raise InvalidInput(
                f"the attack {self.name!r} reads the gradient of a layer behind an embedding, "
                f"which this {type(task.model).__name__} has not; attack with "
                f"'gaussian-posterior'."
            )
        units = ViewTensors.of(views, "double")
        found = torch.zeros(len(views), view.records, *spec.shape, dtype=torch.int64)
        failed = torch.zeros(len(views), dtype=torch.bool)
        for unit, own in enumerate(views):
            texts = None
            if bool(torch.isfinite(units.update[unit]).all()):
                known = bool(units.known[unit].all())
                noise = float(units.noise[unit])
                texts = _texts(own, layers, units.update[unit], noise) if known else None
            failed[unit] = texts is None and not bool(torch.isfinite(units.update[unit]).all())
            if texts is not None:
                found[unit] = texts
        device = units.update.device
        return Reconstructions(
            found.to(device), None, torch.zeros(len(views), device=device), failed.to(device)
        )


@dataclass(frozen=True)
class _Layer:
    """A weight [d, e] that reads rows [e] (`reads` "columns"), or [e, d] as Conv1D has it."""

    name: str
    transposed: bool
    alone: bool  # whether a row depends on its own token and place only
    width: int  # e


def _texts(
    view: View, layers: Sequence[_Layer], update: torch.Tensor, noise: float
) -> torch.Tensor | None:
    """The texts [S, length] of one update [m]; None where the span tells nothing."""
    spec, count = view.input_spec, view.records
    vocabulary = spec.vocabulary or 0
    (length,) = spec.shape
    gradients = {layer.name: view.task.layout.unflatten(update)[layer.name] for layer in layers}
    first, *later = layers
    span = _span(gradients[first.name], first, noise)
    if span is None:
        return None
    read = _Reader(view.task, view.weights)
    # Every token at every place, as texts of that token alone.
    tokens = torch.arange(vocabulary, device=view.weights.device)
    rows = read(first, tokens[:, None].expand(-1, length))  # [V, length, e]
    there = _outside(rows, span) < _NEAR  # [V, length]
    second = None
    for layer in later:
        own = None if layer.alone else _span(gradients[layer.name], layer, noise)
        if own is not None and own.shape[1] >= span.shape[1]:  # else rows are mixed in it
            second = layer, own
            break
    begun = tokens.new_zeros(1, 0)
    for place in range(length):
        options = tokens[there[:, place]]
        if not len(options):
            break
        if second is None:  # which words are of one text is not seen
            column = options[torch.arange(count) % len(options)]
            begun = torch.cat([begun.expand(count, -1), column[:, None]], 1)
            continue
        begun = torch.cat(
            [
                begun.repeat_interleave(len(options), 0),
                options.repeat(len(begun))[:, None],
            ],
            1,
        )
        layer, own = second
        filled = torch.cat(
            [begun, begun[:, -1:].expand(-1, length - begun.shape[1])], 1
        )  # a causal row reads nothing behind itself
        distance = _outside(read(layer, filled)[:, place], own)
        best = distance.argsort()[: max(_MOST, count)]
        begun = begun[best[distance[best] < _NEAR]] if place else begun[best]
        if not len(begun):
            return None
    if begun.shape[1] == 0:
        return None
    begun = begun[torch.arange(count) % len(begun)] if len(begun) < count else begun[:count]
    return _ended(view, begun, update, length)


def _ended(view: View, begun: torch.Tensor, update: torch.Tensor, length: int) -> torch.Tensor:
    """Texts [S, length] whose last token, which is a label alone, explains the update best.

    Two texts at a time: an update is the mean of its records', of which the others stay. Some of
    its coordinates, drawn once for all, are compared.
    """
    count, missing = len(begun), length - begun.shape[1]
    if missing == 0:
        return begun
    task, vocabulary = view.task, view.input_spec.vocabulary or 0
    texts = torch.cat([begun, begun.new_zeros(count, missing)], 1)
    if missing > 1 or vocabulary > _LARGEST:
        return texts
    weights = view.weights.double()
    draw = torch.Generator().manual_seed(0)
    some = torch.randperm(len(weights), generator=draw)[:_COMPARED].to(weights.device)

    def gradient(text: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = task.way.grad(task.mean_loss)(weights, text[None], text[None])
        return gradient[some]

    tokens = torch.arange(vocabulary, device=texts.device)
    try:
        with torch.no_grad():
            gradients = torch.stack(
                [
                    torch.stack(
                        [gradient(torch.cat([text[:-1], token[None]])) for token in tokens]
                    )
                    for text in texts
                ]
            )  # [S, V, c]
    except (RuntimeError, ValueError, IndexError, TypeError):
        return texts  # labels are no tokens: nothing tells the last ones
    # Each text's own part, at first the mean over all its ends; then two at a time, the nearest:
    # one by one, two texts that have each other's end stay so.
    own, ends = gradients.mean(1), torch.zeros(count, dtype=torch.int64, device=texts.device)
    pairs = list(combinations(range(count), 2))
    products = {pair: gradients[pair[0]] @ gradients[pair[1]].T for pair in pairs}  # [V, V]
    squares = gradients.square().sum(2)
    for _ in range(_TURNS):
        before = ends.clone()
        for one, other in pairs or [(0, 0)]:
            both = sorted({one, other})
            rest = count * update[some] - own.sum(0) + own[both].sum(0)
            near = squares[both] - 2 * gradients[both] @ rest  # |g|² - 2 ⟨g, rest⟩
            gaps = near[0]
            if one != other:
                gaps = near[0][:, None] + near[1] + 2 * products[one, other]
            for row, end in zip(both, torch.unravel_index(gaps.argmin(), gaps.shape), strict=True):
                ends[row], own[row] = end, gradients[row, end]
        if torch.equal(ends, before):
            break
    texts[:, -1] = ends
    return texts


def _span(gradient: torch.Tensor, layer: _Layer, noise: float) -> torch.Tensor | None:
    """An orthonormal basis [e, r] of what a layer read; None where that is nothing, or all."""
    matrix = (gradient if layer.transposed else gradient.T).double()  # [e, d]
    left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
    edge = noise * (matrix.shape[0] ** 0.5 + matrix.shape[1] ** 0.5)  # of noise alone
    rank = int((values > max(_ZERO * float(values[0]), edge)).sum())
    return left[:, :rank] if 0 < rank < _FULL * matrix.shape[0] else None


def _outside(rows: torch.Tensor, span: torch.Tensor) -> torch.Tensor:
    """The share [...] of each row's length [..., e] that lies outside of a span."""
    rest = rows - (rows @ span) @ span.T
    share: torch.Tensor = rest.norm(dim=-1) / rows.norm(dim=-1).clamp(min=1e-30)
    return share


@dataclass(frozen=True)
class _Reader:
    """Runs texts through the model, and tells what a layer reads of them."""

    task: Task
    weights: torch.Tensor

    def __call__(self, layer: _Layer, texts: torch.Tensor) -> torch.Tensor:
        """Rows [n, length, e] for texts [n, length], in double precision."""
        texts = texts.to(self.weights.device)
        rows = [
            _reads(self.task, self.weights.double(), part)[layer.name][0]
            for part in torch.split(texts, max(1, _ROWS // texts.shape[1]))
        ]
        return torch.cat(rows)


def _layers(task: Task, spec: InputSpec) -> tuple[_Layer, ...]:
    """The layers of a causal model that read a row a token, in their order.

    The first of them reads a token at its place, whatever the others are. What a row depends on
    is tried at the model's own weights with other tokens before it, and behind.
    """
    (length,) = spec.shape
    vocabulary = spec.vocabulary or 0
    if length < 3 or vocabulary < 3:
        return ()
    middle = length // 2
    weights = task.layout.flatten(dict(task.model.named_parameters())).detach().double()
    texts = torch.arange(length).remainder(vocabulary).repeat(3, 1)
    texts[1, :middle] = (texts[1, :middle] + 1) % vocabulary
    texts[2, middle + 1 :] = (texts[2, middle + 1 :] + 1) % vocabulary
    try:
        reads = _reads(task, weights, texts.to(weights.device))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return ()
    found: list[_Layer] = []
    for name, (rows, transposed) in reads.items():
        row = rows[:, middle]
        causal = torch.allclose(row[0], row[2], rtol=1e-9, atol=1e-12)
        alone = causal and torch.allclose(row[0], row[1], rtol=1e-9, atol=1e-12)
        if causal and (alone or found):
            found.append(_Layer(name, transposed, alone, rows.shape[-1]))
    return tuple(found)


def _reads(
    task: Task, weights: torch.Tensor, texts: torch.Tensor
) -> dict[str, tuple[torch.Tensor, bool]]:
    """What each trained weight reads of texts [n, length]: rows [n, length, e], and its side."""
    tensors = task.layout.unflatten(weights)
    watch = _Watch(tensors, tuple(texts.shape))
    with torch.no_grad(), watch:
        task.run(tensors, texts)
    return watch.reads


class _Watch(TorchFunctionMode):
    """Notes what weights read that are used once, in order; True: the weight is [e, d]."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], shape: tuple[int, ...]) -> None:
        super().__init__()
        self._names = {id(tensor): name for name, tensor in tensors.items() if tensor.ndim == 2}
        self._shape = shape
        self.reads: dict[str, tuple[torch.Tensor, bool]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func is linear:
            self._note(args[0], args[1] if len(args) > 1 else given["weight"], False)
        elif func is torch.addmm and len(args) > 2:
            self._note(args[1], args[2], True)
        elif func is multi_head_attention_forward and args[5] is not None:
            self._note(args[0].transpose(0, 1), args[5], False)
        return func(*args, **given)

    def _note(self, read: torch.Tensor, weight: torch.Tensor, transposed: bool) -> None:
        name = self._names.get(id(weight))
        places = read.numel() == self._shape[0] * self._shape[1] * read.shape[-1]
        if name is None or not places:
            return
        rows = read.reshape(*self._shape, read.shape[-1])
        if self.reads.pop(name, None) is None:
            self.reads[name] = rows, transposed
