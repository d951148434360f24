"""Networks in files, `.onnx` and OpenVINO's `.xml`, as embedders: shapes checked, batches as the file can take them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hypersphere.core import file_digest, import_extra
from hypersphere.models.contract import Contract, matched
from hypersphere.models.devices import file_runtime, open_session
from hypersphere.models.embedder import Embedder

LARGEST_BATCH = 1024
"""Images of a batch that a file may be fixed to; fewer are filled up with black ones."""
Array = npt.NDArray[np.float32]
Runner = tuple[Callable[[Array], Array], list[Any]]
"""What runs a batch, and the shape that the file states for it; a free size is a text, None or below 1."""
_UNIT_TOLERANCE = 1e-2
"""How far the length of a vector that a contract calls a unit vector may be from 1; half precision comes near it."""


def load_network_file(
    path: str | Path, contract: Contract, *, device: str = "cpu", runtime: str = "onnxruntime"
) -> Embedder:
    """An ONNX or OpenVINO network with one image input and one output, (N, dim) or (N, dim, 1, 1).

    A file whose batch is fixed is run that many images at a time. One whose batch is declared free, but which cannot
    take several images or mixes them up, is run one image at a time, with a warning.

    Args:
        path: `X.onnx`, or `X.xml` with `X.bin` beside it.
        contract: how images are prepared; its input size must be the file's.
        device: `cpu`, or `cuda` where onnxruntime has it.
        runtime: as for `load_model`.
    """
    path = Path(path)
    chosen = file_runtime(path, runtime, device)
    run, shape = _openvino(path) if chosen == "openvino-runtime" else _onnxruntime(path, chosen)
    network = FileNetwork(path, contract, run, shape)
    # The weights of an OpenVINO model are its .bin; releases of one model differ in the .xml around it.
    weights = path.with_suffix(".bin") if path.suffix == ".xml" else path
    complete = matched(contract, dim=network.dim, digest=file_digest(weights)[:16], where=str(path))
    return Embedder(complete, network, "cpu", path.name)


def _onnxruntime(path: Path, provider: str) -> Runner:
    session = open_session(str(path), path, provider)
    inputs, outputs = session.get_inputs(), session.get_outputs()
    _check_counts(path, len(inputs), [output.name for output in outputs])
    dtype = np.dtype({"tensor(float16)": "float16", "tensor(uint8)": "uint8"}.get(inputs[0].type, "float32"))

    def run(x: Array) -> Array:
        try:
            embedded: Array = session.run(None, {inputs[0].name: x.astype(dtype, copy=False)})[0]
        except Exception as error:
            raise ValueError(f"{path}: onnxruntime could not run it on {x.shape} ({error})") from None
        return embedded

    return run, list(inputs[0].shape or [None])


def _openvino(path: Path) -> Runner:
    runtime = import_extra("openvino", "running an OpenVINO file" if path.suffix == ".xml" else "--provider openvino")
    if not path.is_file():
        raise ValueError(f"{path} is missing")
    if path.suffix == ".xml" and not path.with_suffix(".bin").is_file():
        raise ValueError(
            f"{path.with_suffix('.bin')} is missing: an OpenVINO model is two files, and the .bin has the weights; put "
            "it beside the .xml"
        )
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    try:
        core = runtime.Core()
        model = core.read_model(path)
        names = [output.any_name if output.names else str(number) for number, output in enumerate(model.outputs)]
        _check_counts(path, len(model.inputs), names)
        sizes = [size.get_length() if size.is_static else None for size in model.inputs[0].partial_shape]
        compiled = core.compile_model(model, "CPU", settings)
    except RuntimeError as error:
        raise ValueError(f"{path}: not a network that OpenVINO can run ({error})") from None
    dtype = model.inputs[0].get_element_type().to_dtype()

    def run(x: Array) -> Array:
        try:
            return np.array(compiled(x.astype(dtype, copy=False))[0], dtype=np.float32)
        except RuntimeError as error:
            raise ValueError(f"{path}: OpenVINO could not run it on {x.shape} ({error})") from None

    return run, sizes


def _check_counts(path: Path, inputs: int, outputs: list[str]) -> None:
    if inputs != 1 or len(outputs) != 1:
        raise ValueError(
            f"{path}: {inputs} inputs and {len(outputs)} outputs ({', '.join(outputs)}); expected one of each: export "
            "the network with its embedding as the only output"
        )


class FileNetwork:
    """Float32 images to embeddings by what runs a file.

    Args:
        path: of the file, for messages.
        contract: whose channels and input size the file must have.
        run: runs a batch.
        shape: that the file states for a batch.
    """

    def __init__(self, path: Path, contract: Contract, run: Callable[[Array], Array], shape: list[Any]) -> None:
        self.path, self._run_batch = path, run
        wanted = (contract.channels, *contract.input_size)
        batch, *stated = shape
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
        pair = np.random.default_rng(0).uniform(0, 255, (2, *wanted)).astype(np.float32)
        probe = self._run(pair[:1])
        if probe.ndim != 2:
            raise ValueError(f"{path}: returns {tuple(probe.shape)} for one image; expected (1, dim) or (1, dim, 1, 1)")
        self.dim = int(probe.shape[1])
        length = float(np.linalg.norm(probe[0].astype(np.float64)))
        if "output" in contract.inside and not abs(length - 1) <= _UNIT_TOLERANCE:
            raise ValueError(
                f"{path}: the contract says that the network returns unit vectors (inside has 'output'), but the vector"
                f" of a picture of noise has length {length:.3g}; leave 'output' out of the contract"
            )
        if not self.batch:
            self._probe_batch(pair)

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

    def _probe_batch(self, pair: Array) -> None:
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

    def _run(self, x: Array) -> Array:
        missing = self.batch - len(x) if self.batch else 0
        if missing > 0:
            x = np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])
        embedded = self._run_batch(x)
        # OpenVINO's zoo keeps the two axes of pooled maps, (N, dim, 1, 1).
        if embedded.ndim == 4 and embedded.shape[2:] == (1, 1):
            return embedded[:, :, 0, 0]
        return embedded
