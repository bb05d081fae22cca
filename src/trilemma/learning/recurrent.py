"""Recurrent layers in plain operations: torch.func cannot map torch's own over records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

__all__ = ["unroll"]

if TYPE_CHECKING:
    _Layer = nn.RNNBase
else:
    _Layer = object

_State = tuple[torch.Tensor, ...]
"""h [n, d], and of an LSTM c [n, e]."""


def unroll(model: nn.Module) -> None:
    """Has the model's LSTM, GRU and RNN layers, in place, compute step by step what torch's do.

    Parameters keep their names. A subclass stays as it is, and so does what a layer makes of a
    packed sequence.
    """
    for module in model.modules():
        if type(module) in _UNROLLED:
            module.__class__ = _UNROLLED[type(module)]


class _Unrolled(_Layer):
    """A recurrent layer whose forward() is a loop over time, without dropout between layers."""

    def forward(self, input: Any, hx: Any = None) -> Any:  # noqa: A002  # torch's name
        if isinstance(input, PackedSequence) or input.dim() not in (2, 3):
            return super().forward(input, hx)
        batched, steps = input.dim() == 3, input
        given = None if hx is None else hx if self.mode == "LSTM" else (hx,)
        if not batched:
            steps = input.unsqueeze(0 if self.batch_first else 1)
            given = None if given is None else tuple(item.unsqueeze(1) for item in given)
        if given is not None:
            given = self._checked(steps, given)
        ends: list[_State] = []
        for layer in range(self.num_layers):
            written = []
            for end in ("", "_reverse")[: 1 + self.bidirectional]:
                start = None if given is None else tuple(item[len(ends)] for item in given)
                made, last = self._passed(steps, start, f"_l{layer}{end}")
                written.append(made)
                ends.append(last)
            steps = torch.cat(written, -1) if self.bidirectional else written[0]
        last_states = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
        if not batched:
            steps = steps.squeeze(0 if self.batch_first else 1)
            last_states = tuple(item.squeeze(1) for item in last_states)
        return steps, last_states if self.mode == "LSTM" else last_states[0]

    def _checked(self, steps: torch.Tensor, given: _State) -> _State:
        """A state as the input has it; one of other shapes is refused as torch does."""
        layer: Any = self  # the cell's size is an LSTM's alone
        shapes = [layer.get_expected_hidden_size(steps, None)]
        if self.mode == "LSTM":
            shapes.append(layer.get_expected_cell_size(steps, None))
            if len(given) != len(shapes):
                raise RuntimeError("lstm expects two hidden states")
        for item, shape in zip(given, shapes, strict=True):
            self.check_hidden_size(item, shape)
        return tuple(item.to(steps) for item in given)

    def _passed(
        self, steps: torch.Tensor, state: _State | None, name: str
    ) -> tuple[torch.Tensor, _State]:
        """What one layer writes in one direction, [T, n, d] of steps [T, n, e]; its last state.

        Or [n, T, d] of [n, T, e], as what a layer reads is laid out.
        """
        time = int(self.batch_first)
        if state is None:
            wide, records = self.proj_size or self.hidden_size, steps.shape[1 - time]
            state = (steps.new_zeros(records, wide),)
            if self.mode == "LSTM":
                state += (steps.new_zeros(records, self.hidden_size),)
        biases = self.bias
        inner = getattr(self, f"bias_ih{name}") if biases else None
        read = linear(steps, getattr(self, f"weight_ih{name}"), inner)
        backward = name.endswith("_reverse")
        written = []
        for now in reversed(read.unbind(time)) if backward else read.unbind(time):
            state = self._step(now, state, name)
            written.append(state[0])
        return torch.stack(written[::-1] if backward else written, time), state

    def _step(self, read: torch.Tensor, state: _State, name: str) -> _State:
        """The next state, of what is read of the input [n, gates · d] and the state before.

        LSTM: c ← f c + i g, h ← o tanh c. GRU: h ← (1 - z) tanh(n_x + r n_h) + z h. RNN: h ←
        tanh or ReLU of both. The gates i, f, o, r, z are sigmoids.
        """
        bias = getattr(self, f"bias_hh{name}") if self.bias else None
        before = linear(state[0], getattr(self, f"weight_hh{name}"), bias)
        if self.mode == "LSTM":
            i, f, g, o = (read + before).chunk(4, -1)
            cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
            out = o.sigmoid() * cell.tanh()
            return linear(out, getattr(self, f"weight_hr{name}")) if self.proj_size else out, cell
        if self.mode == "GRU":
            (r, z, n), (r_h, z_h, n_h) = read.chunk(3, -1), before.chunk(3, -1)
            new = (n + (r + r_h).sigmoid() * n_h).tanh()
            keep = (z + z_h).sigmoid()
            return ((1 - keep) * new + keep * state[0],)
        return ((read + before).tanh() if self.mode == "RNN_TANH" else (read + before).relu(),)


class _LSTM(_Unrolled, nn.LSTM): ...


class _GRU(_Unrolled, nn.GRU): ...


class _RNN(_Unrolled, nn.RNN): ...


_UNROLLED: Final[dict[type[nn.Module], type[nn.Module]]] = {
    nn.LSTM: _LSTM,
    nn.GRU: _GRU,
    nn.RNN: _RNN,
}
