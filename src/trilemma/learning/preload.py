"""Imported by the process that workers are forked from: torch's compiler, read there once.

`torch.func` reads it when it first makes a gradient, which takes a second of every process.
"""

import torch

torch.func.grad(torch.sum)(torch.zeros(1))
