"""Units of one call as tensors: the levels to which the noise is taken down."""

from __future__ import annotations

import torch
from tests.attacks.conftest import make_problems

from trilemma.attacks.matching import Units
from trilemma.learning import LocalTraining


def test_levels_fall_to_the_noise_and_no_further() -> None:
    levels = ((1e-2, 5), (1e-4, 6), (1e-5, 7))
    bare = make_problems(2, training=LocalTraining(batch=4))
    mean_square = torch.stack([v.observation.update.square().mean() for v in bare.views]).float()
    stages = list(Units.of(bare.views, "single").variances(levels))
    assert [iterations for _, iterations in stages] == [5, 6, 7]
    for (variance, _), level in zip(stages, (1e-2, 1e-4, 1e-5), strict=True):
        assert torch.allclose(variance, level * mean_square, rtol=1e-5)
    for noise, expected in ((1e-6, [5, 6]), (1e-2, [5])):
        noisy = make_problems(2, training=LocalTraining(batch=4), variance=noise)
        stages = list(Units.of(noisy.views, "single").variances(levels))
        assert [iterations for _, iterations in stages] == expected
        assert torch.allclose(stages[-1][0], torch.full((2,), noise), rtol=1e-5)
