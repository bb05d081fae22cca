"""Networks as users bring them: what is changed is said, what cannot be run is refused."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.functional import batch_norm

from trilemma.learning.modules import copied, fitted, normalises_batches, read_by_layers
from trilemma.updates import Layout

X = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))


def test_batch_norm_works_with_the_batch_at_hand_and_says_so() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    made, remarks = fitted(model)
    assert normalises_batches(made)
    assert len(remarks) == 1
    assert "BatchNorm ('1') works with the statistics of each batch" in remarks[0]
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm1d)
    wanted = batch_norm(model[0](X), None, None, norm.weight, norm.bias, training=True)
    torch.testing.assert_close(made(X), wanted)
    assert norm.running_mean is not None, "the user's own model is left as it is"
    tensors = {name: p.expand(2, *p.shape) for name, p in made.named_parameters()}
    both = vmap(lambda each: functional_call(made, each, (X,)))(tensors)
    torch.testing.assert_close(both[1], wanted)


class Scaled(nn.Parameter):
    """A frozen weight that holds more than its numbers, as a quantised one does."""

    scale: float

    def __deepcopy__(self, memo: dict[int, object]) -> Scaled:
        made = Scaled(self.detach().clone(), requires_grad=False)
        made.scale = self.scale
        return made


def test_frozen_parameters_of_ones_own_keep_what_they_hold() -> None:
    model = nn.Linear(6, 4, bias=False)
    weight = Scaled(torch.randn(4, 6), requires_grad=False)
    weight.scale = 2.0
    model.weight = weight
    made = copied(nn.Sequential(model, nn.Linear(4, 2))).get_parameter("0.weight")
    assert isinstance(made, Scaled)
    assert made.scale == 2.0


def test_a_layer_whose_bias_is_frozen_is_not_centred() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 2))
    model[0].requires_grad_(False)
    layout = Layout.of(model)
    weights = layout.flatten(dict(model.named_parameters())).detach()
    assert list(read_by_layers(model, layout, weights, X)) == ["2"]


def test_stored_statistics_stay_and_are_named() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).eval()
    made, remarks = fitted(model)
    assert not normalises_batches(made)
    assert "is in eval mode, so its stored statistics are constants" in remarks[0]
    torch.testing.assert_close(made(X), model(X))


def test_dropout_is_off_and_named() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)) for _ in range(5)))
    made, (remark,) = fitted(model)
    assert "Dropout ('0.1', '1.1', '2.1' and 2 more) is off" in remark
    torch.testing.assert_close(made(X), made(X))
    assert fitted(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0)))[1] == ()


def test_attention_and_recurrent_layers_drop_nothing_either() -> None:
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    made, (remark,) = fitted(
        nn.ModuleDict({"block": block, "reads": nn.LSTM(4, 4, 2, dropout=0.3)})
    )
    assert "'block.self_attn'" in remark
    for name in ("block.self_attn", "reads"):
        assert vars(made.get_submodule(name))["dropout"] == 0.0
    assert block.self_attn.dropout == 0.1, "the user's own is as it was"
