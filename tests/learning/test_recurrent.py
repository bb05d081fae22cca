"""Recurrent layers unrolled over time, against torch's own."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.utils._pytree import tree_leaves

from trilemma.learning.recurrent import unroll

KINDS: dict[str, Any] = {
    "LSTM": (nn.LSTM, {}),
    "projected": (nn.LSTM, {"proj_size": 3}),
    "GRU": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "ReLU": (nn.RNN, {"nonlinearity": "relu"}),
}


def pair(name: str, **settings: Any) -> tuple[nn.RNNBase, nn.RNNBase]:
    """Torch's layer and the same one unrolled."""
    torch.manual_seed(0)
    kind, own = KINDS[name]
    theirs = kind(4, 5, **own, **settings).double()
    ours = copy.deepcopy(theirs)
    unroll(ours)
    assert type(ours) is not type(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    return theirs, ours


def start(layer: nn.RNNBase, *records: int) -> Any:
    rows = layer.num_layers * (1 + layer.bidirectional)
    hidden = torch.randn(rows, *records, layer.proj_size or 5).double()
    lstm = isinstance(layer, nn.LSTM)
    return (hidden, torch.randn(rows, *records, 5).double()) if lstm else hidden


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("batched", [True, False])
def test_outputs_states_and_gradients_are_torchs(name: str, batched: bool) -> None:
    for layers, both, first, bias in product((1, 2), (False, True), (False, True), (False, True)):
        settings = {"num_layers": layers, "bidirectional": both, "batch_first": first}
        theirs, ours = pair(name, bias=bias, **settings)
        shape = ((3, 6) if first else (6, 3)) if batched else (6,)
        inputs = torch.randn(*shape, 4).double().requires_grad_()
        for state in (None, start(theirs, *([3] if batched else []))):
            expected, found = tree_leaves(theirs(inputs, state)), tree_leaves(ours(inputs, state))
            torch.testing.assert_close(found, expected)
            slopes = [
                torch.autograd.grad(sum(item.square().sum() for item in made), [inputs, *own])
                for made, own in ((found, ours.parameters()), (expected, theirs.parameters()))
            ]
            torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("name", KINDS)
def test_torch_func_maps_its_gradients_over_records_and_differentiates_twice(name: str) -> None:
    theirs, ours = pair(name, batch_first=True)
    tensors = {key: value.detach() for key, value in ours.named_parameters()}

    def loss(named: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.func.functional_call(ours, named, (x[None],))[0]
        return made.square().sum()

    inputs = torch.randn(3, 6, 4).double()
    found = vmap(grad(loss), (None, 0))(tensors, inputs)
    for row, x in enumerate(inputs):
        made = theirs(x[None])[0].square().sum()
        expected = torch.autograd.grad(made, list(theirs.parameters()))
        torch.testing.assert_close([value[row] for value in found.values()], list(expected))

    def energy(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([g.square().sum() for g in grad(loss)(tensors, x).values()]).sum()

    assert torch.autograd.gradcheck(energy, inputs[0].requires_grad_())
    assert torch.isfinite(vmap(grad(energy))(inputs)).all()


def test_packed_sequences_and_layers_of_ones_own_are_left_to_torch() -> None:
    class Own(nn.GRU):
        def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: A002  # torch's name
            return super().forward(2 * input, hx)

    own = Own(4, 5)
    unroll(own)
    assert type(own) is Own
    theirs, ours = pair("LSTM")
    packed = pack_padded_sequence(torch.randn(6, 2, 4).double(), torch.tensor([6, 3]))
    found = ours(packed)[0]
    assert isinstance(found, PackedSequence)
    torch.testing.assert_close(found.data, theirs(packed)[0].data)


def test_a_state_of_single_precision_is_taken_in_double() -> None:
    theirs, ours = pair("GRU")
    inputs, state = torch.randn(6, 3, 4).double(), torch.zeros(1, 3, 5)
    torch.testing.assert_close(ours(inputs, state)[0], theirs(inputs, state.double())[0])


def test_another_number_of_states_is_refused() -> None:
    _, ours = pair("LSTM")
    one = start(ours, 3)[0]
    with pytest.raises(RuntimeError, match="two hidden states"):
        ours(torch.randn(6, 3, 4).double(), (one, one, one))


def test_a_state_of_another_shape_is_refused_as_torch_does() -> None:
    for layer in pair("LSTM"):
        with pytest.raises(RuntimeError, match="Expected hidden"):
            layer(torch.randn(6, 3, 4).double(), start(layer, 1))
