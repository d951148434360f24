"""ONNX files as embedders, through onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.core import file_digest, import_extra
from hypersphere.models.contract import Contract, matched
from hypersphere.models.devices import execution_providers
from hypersphere.models.embedder import Embedder

_FATAL_ONLY = 4
LARGEST_BATCH = 1024
"""Images of a batch that a file may be fixed to; fewer are filled up with black ones."""


def load_onnx(path: str | Path, contract: Contract, *, device: str = "cpu") -> Embedder:
    """An ONNX network with one image input and one output.

    A file whose batch is fixed is run that many images at a time. One whose batch is declared free, but which cannot
    take several images or mixes them up, is run one image at a time, with a warning.

    Args:
        path: the file.
        contract: how images are prepared; its input size must be the file's.
        device: `cpu`, or `cuda` where onnxruntime has it.
    """
    path = Path(path)
    network = _Network(path, contract, device)
    digest = file_digest(path)[:16]
    return Embedder(matched(contract, dim=network.dim, digest=digest, where=str(path)), network, "cpu", path.name)


class _Network:
    """Float32 images to embeddings by an onnxruntime session."""

    def __init__(self, path: Path, contract: Contract, device: str) -> None:
        runtime = import_extra("onnxruntime", "running an ONNX file")
        options = runtime.SessionOptions()
        options.log_severity_level = _FATAL_ONLY  # errors are raised
        options.intra_op_num_threads = torch.get_num_threads()
        providers = execution_providers(runtime, device)
        try:
            self.session = runtime.InferenceSession(str(path), options, providers=providers)
        except Exception as error:  # onnxruntime raises classes of its own for damaged files
            raise ValueError(f"{path}: not an ONNX network that onnxruntime can run ({error})") from None
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1:
            names = ", ".join(each.name for each in outputs)
            raise ValueError(
                f"{path}: {len(inputs)} inputs and {len(outputs)} outputs ({names}); expected one of each: export the "
                "network with its embedding as the only output"
            )
        self.input, self.path = inputs[0].name, path
        wanted = (contract.channels, *contract.input_size)
        batch, *stated = inputs[0].shape or [None]
        self.batch = batch if isinstance(batch, int) and batch > 0 else 0
        if self.batch > LARGEST_BATCH:
            raise ValueError(
                f"{path}: its batch is fixed to {self.batch:,} images; export it with a free first dimension "
                f"(dynamic_axes), or a fixed one of at most {LARGEST_BATCH}"
            )
        if len(stated) != 3 or any(isinstance(n, int) and n != m for n, m in zip(stated, wanted, strict=True)):
            raise ValueError(
                f"{path}: its images are {tuple(stated)} (channels, height, width); the contract says {wanted}"
            )
        probe = self(torch.zeros(1, *wanted))
        if probe.ndim != 2:
            raise ValueError(f"{path}: returns {tuple(probe.shape)} for one image; expected (1, dim)")
        self.dim = int(probe.shape[1])
        if not self.batch:
            self._probe_batch(np.random.default_rng(0).uniform(0, 255, (2, *wanted)).astype(np.float32))

    def __call__(self, images: Tensor) -> Tensor:
        x = np.ascontiguousarray(images.cpu().numpy())
        step = self.batch or len(x)
        try:
            parts = [self._run(x[start : start + step]) for start in range(0, len(x), step)]
        except ValueError:
            if self.batch or len(x) == 1:
                raise
            parts = [self._run(x[place : place + 1]) for place in range(len(x))]
            self._take_single_images(f"{len(x)} together cannot be run")
        return torch.from_numpy(np.concatenate(parts)[: len(x)])

    def _probe_batch(self, pair: Any) -> None:
        """See whether two images together give what they give one by one."""
        single = np.concatenate([self._run(pair[:1]), self._run(pair[1:])])
        try:
            both = self._run(pair)
        except ValueError:
            self._take_single_images("several together cannot be run")
            return
        size = np.abs(single[np.isfinite(single)]).max(initial=0)
        if both.shape != single.shape or not np.allclose(both, single, rtol=1e-2, atol=1e-2 * size, equal_nan=True):
            self._take_single_images("two together give other embeddings than one by one")

    def _take_single_images(self, cause: str) -> None:
        self.batch = 1
        warnings.warn(
            f"{self.path.name} declares a free batch, but is made for single images ({cause}): it is run one by "
            "one, which is slower; export it again with a batch that is free inside, too",
            RuntimeWarning,
            stacklevel=5,
        )

    def _run(self, x: Any) -> Any:
        missing = self.batch - len(x) if self.batch else 0
        if missing > 0:
            x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
        try:
            return self.session.run(None, {self.input: x})[0]
        except Exception as error:
            raise ValueError(f"{self.path}: onnxruntime could not run it on {x.shape} ({error})") from None
