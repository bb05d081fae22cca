"""Functions recorded once and replayed without torch.func's bookkeeping."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from operator import getitem
from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from trilemma.learning.constants import constants
from trilemma.learning.recording.capturing import Captured, capturable
from trilemma.learning.recording.operation_list import Listing, Step, memory
from trilemma.learning.recording.patches import by_patches
from trilemma.learning.recording.shortening import shorten

if TYPE_CHECKING:
    from trilemma.learning.tasks import Task

__all__ = ["NotRecordable", "recorded", "traced"]

Result = TypeVar("Result")


class NotRecordable(Exception):
    """A function does other operations for other numbers."""


_TRACES: OrderedDict[tuple[object, ...], tuple[object, Callable[..., Any]]] = OrderedDict()
_KEPT_TRACES: Final = 48
_ATEN: Final = torch.ops.aten
_MASKS: Final = (torch.bool, torch.uint8)
_READING: Final = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
# Replayed, the first would hand out the recorded constant itself, to be written into.
_SAFER: Final[Mapping[object, Any]] = {_ATEN.lift_fresh.default: _ATEN.lift_fresh_copy.default}


def traced(
    key: tuple[object, ...],
    task: Task,
    function: Callable[..., Result],
    example: tuple[torch.Tensor, ...],
) -> Callable[..., Result]:
    """`function` recorded once as a flat list of tensor operations for the example's shapes.

    As it is where the task's way is another. Replaying the list skips torch.func's bookkeeping,
    which is most of the time of a small model. Traces are kept by `key`, the shapes and the state
    of all that a trace takes as constant: the model's buffers, frozen parameters and modes.
    """
    if task.way.kind != "recorded":
        return function
    held = [item for _, item in constants(task.model)]
    state = tuple((item.data_ptr(), item._version) for item in held)
    modes = tuple(module.training for module in task.model.modules())
    shapes = tuple((tuple(t.shape), t.stride(), t.dtype, t.device) for t in example)
    # A GPU's graph keeps the kernels, and the bits, that it was captured with.
    bits = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    full_key = (*key, id(task), state, modes, shapes, bits)
    if full_key in _TRACES:
        _TRACES.move_to_end(full_key)
        return _TRACES[full_key][1]
    replay = recorded(function, example)
    # Holding them keeps the task's id, and the places of what it holds, from being reused.
    _TRACES[full_key] = (task, held), replay
    if len(_TRACES) > _KEPT_TRACES:
        _TRACES.popitem(last=False)
    return replay


def recorded(
    function: Callable[..., Result], example: tuple[torch.Tensor, ...]
) -> Callable[..., Result]:
    """The operations that `function` does on the example, as a function of the same arguments.

    Raises `NotRecordable` where it reads a number of them, or makes tensors as large as they tell.
    """
    recorder = _Recorder(example)
    with recorder:
        result = function(*example)
    listing = recorder.listing
    listing.result = tree_map_only(torch.Tensor, recorder.step, result)
    shorten(listing, recorder.written)
    on_gpu = any(item.is_cuda for item in example)
    return Captured(listing) if on_gpu and capturable(listing) else listing


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """Writes down every operation; a tensor that none of them made is a constant."""

    def __init__(self, example: tuple[torch.Tensor, ...]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.listing = Listing()
        self._step: dict[int, Step] = {}
        self._changed: set[int | None] = set()
        # what depends on the arguments, or is drawn: steps, and places that are written into
        self._open: set[Step] = set()
        self._open_places: set[int | None] = set()
        # so that no other tensor gets the same id
        self._alive: list[tuple[torch.Tensor, Step]] = []
        for tensor in example:
            self._is(tensor, self.listing.argument())
            self._open.add(self._step[id(tensor)])

    def __torch_dispatch__(
        self, func: Any, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        func = _SAFER.get(func, func)
        if quicker := by_patches(func, args):
            with self:
                return quicker(*args)
        inputs = map_aggregate((args, kwargs), self.step)
        if self._depends(_read(func, args)):
            raise NotRecordable(f"what it does depends on numbers that {func} reads")
        depends = torch.Tag.nondeterministic_seeded in func.tags or self._depends(args, kwargs)
        made = func(*args, **kwargs)
        if func._schema.is_mutable:
            places = _written_places(func, args, kwargs)
            self._changed |= places
            self._open_places |= places if depends else set()
        elif args and _same_view(made, args[0]):
            self._is(made, inputs[0][0])
            return made
        self._note(made, self.listing.operation(func, *inputs), depends)
        return made

    def _note(self, made: Any, step: Step, depends: bool) -> None:
        """Writes down which step made a tensor, or each of several tensors."""
        if depends:
            self._open.add(step)
        if isinstance(made, torch.Tensor):
            self._is(made, step)
        elif isinstance(made, list | tuple):
            for place, item in enumerate(made):
                if isinstance(item, torch.Tensor):
                    part = self.listing.operation(getitem, (step, place), {})
                    self._open.update({part} if depends else ())
                    self._is(item, part)

    def _depends(self, *values: Any) -> bool:
        """Whether any tensor would be another for other arguments."""
        return any(
            self._step[id(item)] in self._open or _place(item) in self._open_places
            for item in tree_iter(values)
            if isinstance(item, torch.Tensor)
        )

    @property
    def written(self) -> set[Step]:
        """What shares memory with something that an operation writes into."""
        return {step for tensor, step in self._alive if _place(tensor) in self._changed}

    def step(self, value: Any) -> Any:
        """What made a tensor; anything else as it is."""
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in self._step:
            self._is(value, self.listing.constant(value))
        return self._step[id(value)]

    def _is(self, tensor: torch.Tensor, step: Step) -> None:
        self._step[id(tensor)] = step
        self._alive.append((tensor, step))
        step.memory = memory(tensor)


def _read(func: Any, args: Any) -> Any:
    """Arguments whose numbers decide on what is done next, or on the size of the result."""
    if func is _ATEN.index.Tensor:
        return [
            argument for argument in args[1] if argument is not None and argument.dtype in _MASKS
        ]
    return () if _READING.isdisjoint(func.tags) else args


def _written_places(func: Any, args: Any, kwargs: Any) -> set[int | None]:
    """The places that an operation writes into."""
    arguments = func._schema.arguments
    given = {**{item.name: value for item, value in zip(arguments, args, strict=False)}, **kwargs}
    written = [given.get(argument.name) for argument in arguments if argument.is_write]
    return set(map(_place, tree_iter(written)))


def _place(tensor: torch.Tensor | None) -> int | None:
    """Where its numbers lie; None for zeros that torch keeps without any memory.

    The gradient of a sign is such, and with it that of an absolute value; nobody can write into
    it.
    """
    if tensor is None or tensor._is_zerotensor():
        return None
    return tensor.untyped_storage().data_ptr()


def _same_view(made: Any, given: Any) -> bool:
    """Whether both are the very same numbers in the very same shape."""
    if not (isinstance(made, torch.Tensor) and isinstance(given, torch.Tensor)):
        return False
    if _place(made) is None or _place(given) is None:
        return False
    return made.data_ptr() == given.data_ptr() and memory(made) == memory(given)
