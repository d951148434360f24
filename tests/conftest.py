"""Without a CUDA device, Triton's kernels run in its interpreter: it has to know before anything imports it."""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
