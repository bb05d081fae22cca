import pytest
import torch

from trilemma.learning.precision import drawn_on, short_products, whole_floats


def broken() -> None:
    with whole_floats(10**5), whole_floats(10**5):
        assert not torch.backends.cudnn.allow_tf32
        raise ValueError("inside")


def test_what_was_set_before_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
        with pytest.raises(ValueError, match="inside"):
            broken()
        assert torch.backends.cudnn.allow_tf32 is before


def test_large_models_keep_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (True, False):
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", before)
        with whole_floats(10**7):
            assert torch.backends.cudnn.allow_tf32 is before


def test_short_products_end_with_their_block() -> None:
    products = torch.backends.cuda.matmul
    assert not products.allow_tf32
    with short_products(), short_products():
        assert products.allow_tf32
        with whole_floats(10**7):
            assert not products.allow_tf32
        assert products.allow_tf32
    assert not products.allow_tf32


def test_only_large_numbers_of_draws_depend_on_the_device() -> None:
    assert drawn_on("cuda", 10**6) == drawn_on("cpu", 10**7) == torch.device("cpu")
    assert drawn_on("cuda:1", 10**6 + 1) == torch.device("cuda:1")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_convolutions_on_a_gpu_are_those_of_the_cpu() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(8, 64, 16, 16, generator=generator)
    kernels = torch.randn(64, 64, 3, 3, generator=generator)
    exact = torch.conv2d(images.double(), kernels.double())
    with whole_floats(64):
        found = torch.conv2d(images.cuda(), kernels.cuda()).cpu()
    assert float((found - exact).abs().max() / exact.abs().max()) < 1e-5
