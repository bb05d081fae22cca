import pytest
import torch
from scipy import stats

from trilemma.entropy import Seeded
from trilemma.errors import InvalidInput, UnknownName
from trilemma.mechanisms.distortions import (
    GaussianNoise,
    RandomKeep,
    UniformMask,
    Unprotected,
    parse_protection,
)

ZEROS = torch.zeros(20_000, dtype=torch.float64)


def test_noise_has_its_law_and_tells_it() -> None:
    seen = GaussianNoise(4e-4).distort(ZEROS, Seeded(1))
    assert stats.kstest(seen.update.numpy(), stats.norm(scale=0.02).cdf).pvalue > 0.01
    assert seen.noise is not None
    assert seen.noise.kind == "gaussian"
    assert seen.noise.scale == pytest.approx(0.02)


def test_a_mask_has_its_law_and_tells_it() -> None:
    seen = UniformMask(0.3).distort(ZEROS, Seeded(1))
    assert stats.kstest(seen.update.numpy(), stats.uniform(-0.3, 0.6).cdf).pvalue > 0.01
    assert seen.noise is not None
    assert (seen.noise.kind, seen.noise.scale) == ("uniform", 0.3)


def test_compression_keeps_values_and_says_which() -> None:
    update = torch.arange(1.0, 20_001.0)
    seen = RandomKeep(0.1).distort(update, Seeded(1))
    assert seen.known is not None
    assert stats.binomtest(int(seen.known.sum()), 20_000, 0.1).pvalue > 0.01
    assert torch.equal(seen.update[seen.known], update[seen.known])
    assert not seen.update[~seen.known].any()


@pytest.mark.parametrize(
    "distortion", [Unprotected(), GaussianNoise(1e-3), RandomKeep(0.5), UniformMask(0.1)]
)
def test_same_entropy_same_observation_and_the_name_reads_back(
    distortion: GaussianNoise | RandomKeep | UniformMask | Unprotected,
) -> None:
    update = torch.linspace(-1, 1, 50)
    first, again = (distortion.distort(update, Seeded(3)) for _ in range(2))
    assert torch.equal(first.update, again.update)
    assert parse_protection(distortion.name) == distortion


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("randomisation:variance=1", "did you mean 'randomization'"),
        ("randomization", "must be written randomization:variance=NUMBER"),
        ("randomization:sigma=1", "must be written randomization:variance=NUMBER"),
        ("randomization:variance=x", "must be written randomization:variance=NUMBER"),
        ("randomization:variance=-1", "must be positive and finite, got -1.0"),
        ("compression:keep=1.5", r"must lie in \(0, 1\], got 1.5"),
        ("none:x=1", "unknown protection"),
    ],
)
def test_a_wrong_spec_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        parse_protection(text)
    if text.startswith("randomisation"):
        with pytest.raises(UnknownName):
            parse_protection(text)
