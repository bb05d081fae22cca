"""What a client computes: the task it learns and the update it sends, as pure functions.

The federation and every attack call the same `client_update`, so what is attacked is exactly
what is sent. Everything here runs under `torch.func` (vmap, grad, jvp).
"""

from trilemma.learning.batch_norm_context import BatchNormContext
from trilemma.learning.client_update import client_update, clip_records, summed_records
from trilemma.learning.clipping import clip_scales, clipped_products, clipped_sums
from trilemma.learning.layer_products import (
    Products,
    RecordLoss,
    record_gradients,
    written_out,
)
from trilemma.learning.local_training import LocalTraining
from trilemma.learning.recording.tracing import traced
from trilemma.learning.sampling import draw_rows, stack_rows
from trilemma.learning.tasks import Task
from trilemma.learning.way_trial import way_of
from trilemma.learning.ways import Way

__all__ = [
    "BatchNormContext",
    "LocalTraining",
    "Products",
    "RecordLoss",
    "Task",
    "Way",
    "client_update",
    "clip_records",
    "clip_scales",
    "clipped_products",
    "clipped_sums",
    "draw_rows",
    "record_gradients",
    "stack_rows",
    "summed_records",
    "traced",
    "way_of",
    "written_out",
]
