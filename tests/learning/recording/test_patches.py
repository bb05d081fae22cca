import itertools
from typing import Any

import pytest
import torch
from torch.func import grad, vmap

from trilemma.learning.recording import patches, tracing
from trilemma.learning.recording.patches import by_patches

_ATEN = torch.ops.aten
_SHAPES = [  # groups, records, channels in and out, sides, kernel, stride, padding, dilation
    (3, 2, 1, 4, (9, 8), (5, 3), (2, 2), (2, 1), (1, 1)),
    (2, 3, 4, 3, (7, 7), (3, 3), (1, 2), (0, 1), (2, 1)),
    (4, 1, 2, 2, (6, 5), (1, 2), (3, 1), (0, 0), (1, 2)),
    (2, 2, 3, 2, (7, 6), (5, 3), (1, 1), (2, 0), (1, 1)),
    (3, 2, 2, 3, (8, 9), (5, 2), (2, 3), (2, 1), (1, 1)),
    (2, 1, 1, 2, (7, 5), (1, 1), (2, 3), (0, 0), (1, 1)),  # places that no kernel reaches
    (2, 1, 2, 1, (6, 6), (3, 3), (2, 2), (3, 2), (1, 1)),
    (2, 2, 3, 4, (1, 1), (3, 3), (2, 2), (1, 1), (1, 1)),  # sides shorter than the stride
]


@pytest.mark.parametrize(
    ("shape", "transposed", "biased", "many"),
    list(itertools.product(_SHAPES, (False, True), (False, True), (False, True))),
)
def test_products_of_patches_are_torch_s_convolutions(
    shape: tuple[Any, ...],
    transposed: bool,
    biased: bool,
    many: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patches, "_MANY", 0 if many else 10**9)
    groups, records, wide, made, sides, kernel, stride, padding, dilation = shape
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(records, groups * wide, *sides, generator=draw, dtype=torch.float64)
    ends = (wide, made) if transposed else (made, wide)
    weight = torch.randn(groups * ends[0], ends[1], *kernel, generator=draw, dtype=torch.float64)
    bias = torch.randn(groups * made, generator=draw, dtype=torch.float64) if biased else None
    beyond = [side - 1 for side in stride] if transposed else [0, 0]
    setting = (list(stride), list(padding), list(dilation), transposed, beyond, groups)
    theirs = _ATEN.convolution.default(inputs, weight, bias, *setting)
    ours = patches._RULES[_ATEN.convolution.default](inputs, weight, bias, *setting)
    torch.testing.assert_close(ours, theirs)
    gradient = torch.randn(theirs.shape, generator=draw, dtype=torch.float64)
    for asked in ((True, True, biased), (True, False, False), (False, True, False)):
        given = (
            gradient,
            inputs,
            weight,
            [groups * made] if biased else None,
            *setting,
            list(asked),
        )
        found = patches._RULES[_ATEN.convolution_backward.default](*given)
        expected = _ATEN.convolution_backward.default(*given)
        for mine, other, wanted in zip(found, expected, asked, strict=True):
            assert (mine is None) is not wanted
            if wanted:
                torch.testing.assert_close(mine, other)


def test_a_cpu_keeps_its_own() -> None:
    setting = ([1, 1], [0, 0], [1, 1], False, [0, 0], 2)
    given = (torch.zeros(1, 2, 4, 4), torch.zeros(2, 1, 3, 3), None, *setting)
    assert by_patches(_ATEN.convolution.default, given) is None
    assert by_patches(_ATEN.add.Tensor, given) is None


class There(torch.Tensor):
    """A tensor that says it is a GPU's."""

    is_cuda = True


def test_only_what_the_products_can_do_is_done_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "_most", lambda device: 5 * 10**5)

    def asked(records: int = 2, groups: int = 2, stride: int = 1, **other: Any) -> bool:
        x = torch.zeros(records, 2 * groups, 6, 6).as_subclass(There)
        sides = other.get("sides", 2)
        setting = (
            *([stride] * sides, [0] * sides, [2] * sides),
            *(other.get("transposed", False), [other.get("beyond", 0)] * sides, groups),
        )
        weight = torch.zeros(2 * groups, other.get("channels", 2), 3, 3)
        return by_patches(_ATEN.convolution.default, (x, weight, None, *setting)) is not None

    assert asked()
    assert asked(transposed=True, stride=2, beyond=1)
    assert not asked(transposed=True, beyond=1)  # places that no kernel reaches
    assert not asked(sides=1)  # one number for both sides
    assert not asked(records=0)
    assert not asked(records=17)
    assert asked(records=17, groups=34)  # cuDNN does groups one by one
    assert not asked(records=18, groups=34)
    assert not asked(records=17, groups=60)  # too many numbers
    assert not asked(groups=1)


def test_second_slopes_of_many_models_are_recorded_as_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a CPU as if it were a GPU: what DLG's evaluation of a convolutional network does."""

    def rule(operation: object, given: tuple[object, ...]) -> object:
        return patches._RULES.get(operation)

    def distance(x: torch.Tensor, weight: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        def loss(w: torch.Tensor) -> torch.Tensor:
            made = torch.nn.functional.conv2d(x, w, stride=2, padding=1)
            return torch.sigmoid(made).square().sum()

        found: torch.Tensor = grad(loss)(weight)
        return (found - seen).square().sum()

    draw = torch.Generator().manual_seed(1)
    x = torch.randn(5, 2, 3, 6, 6, generator=draw, dtype=torch.float64)
    weight, seen = (torch.randn(5, 4, 3, 3, 3, generator=draw).double() for _ in range(2))
    gradient = vmap(grad(distance))
    expected = gradient(x, weight, seen)
    monkeypatch.setattr(tracing, "by_patches", rule)
    replay = tracing.recorded(gradient, (x, weight, seen))
    torch.testing.assert_close(replay(x, weight, seen), expected)
    operations = str([step.target for step in replay.steps])  # type: ignore[attr-defined]
    assert "bmm" in operations
    assert "convolution" not in operations
