"""Where a model computes: the one rule for devices, and for the execution providers of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hypersphere.core import choose_device, import_extra, is_installed, nearest
from hypersphere.models.catalogue import find_entry

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "directml": "DmlExecutionProvider",
}
"""What users call onnxruntime's execution providers."""
RUNTIMES = ("onnxruntime", "torch", *PROVIDERS)
FILE_SUFFIXES = (".onnx", ".xml")
"""Of files that torch does not compute."""
_FATAL_ONLY = 4


def model_device(path: str | Path, device: str | None) -> str:
    """Return the device that a model's file computes on.

    Args:
        path: of the model. ONNX and OpenVINO files compute on the CPU unless a device is named: few builds of
            onnxruntime know the GPU that torch knows.
        device: as the user named it; by default the best there is for this file.
    """
    entry = find_entry(path)
    file = Path(path) if entry is None or entry.main_file is None else entry.main_file
    return "cpu" if device is None and file.suffix in FILE_SUFFIXES else choose_device(device)


def detector_provider(provider: str | None) -> str:
    """Return the provider of a detector beside a recogniser's: the same where this onnxruntime has it, or the CPU.

    Args:
        provider: one of `RUNTIMES`, as the user named it for the recogniser.
    """
    runtime = import_extra("onnxruntime", "detecting faces")
    known = runtime.get_available_providers()
    return provider if provider is not None and PROVIDERS.get(provider) in known else "cpu"


def open_session(
    content: str | bytes, path: str | Path, provider: str, *, threads: int | None = None, spin: bool = True
) -> Any:
    """Return onnxruntime's session of a network.

    Args:
        content: the file's path, or its bytes.
        path: of the file, for messages.
        provider: a key of `PROVIDERS`.
        threads: of one run; those of torch by default.
        spin: whether threads spin while they wait, which is faster where no other process wants the cores.

    Raises:
        ValueError: this onnxruntime lacks the provider or could not start it, or the file is no network for it.
    """
    runtime = import_extra("onnxruntime", "running an ONNX file")
    name = provider_name(provider, runtime.get_available_providers())
    options = runtime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY  # errors are raised
    options.intra_op_num_threads = threads or torch.get_num_threads()
    if not spin:
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = runtime.InferenceSession(content, options, providers=[name])
    except Exception as error:  # onnxruntime raises classes of its own for damaged files
        raise ValueError(f"{path}: not an ONNX network that onnxruntime can run ({error})") from None
    # A provider whose driver is missing is replaced by the CPU without an error.
    if name not in session.get_providers():
        raise ValueError(f"{path}: onnxruntime could not start {name}, and took {session.get_providers()[0]} instead")
    return session


def provider_name(provider: str, available: list[str]) -> str:
    """Return what onnxruntime calls a provider.

    Args:
        provider: a key of `PROVIDERS`.
        available: what this onnxruntime lists.
    """
    if provider not in PROVIDERS:
        raise ValueError(f"provider {provider!r} is unknown; {nearest(provider, PROVIDERS)}")
    if PROVIDERS[provider] not in available:
        known = ", ".join(short for short, name in PROVIDERS.items() if name in available)
        raise ValueError(
            f"provider {provider!r}: this onnxruntime has no {PROVIDERS[provider]}; it has {known}. Install the "
            "package of onnxruntime that brings it, such as onnxruntime-gpu, or choose another"
        )
    return PROVIDERS[provider]


def file_runtime(path: Path, runtime: str, device: str) -> str:
    """Return who computes a file: `torch`, `openvino-runtime`, or a key of `PROVIDERS`.

    Args:
        path: an `.onnx` or `.xml` file.
        runtime: one of `RUNTIMES`, as the user named it.
        device: where the user wants to compute, for `onnxruntime`.
    """
    if runtime not in RUNTIMES:
        raise ValueError(f"runtime {runtime!r} is unknown; {nearest(runtime, RUNTIMES)}")
    if path.suffix == ".xml":
        if runtime not in ("onnxruntime", "openvino"):
            raise ValueError(f"{path}: an OpenVINO file is computed by the package openvino alone, not by {runtime!r}")
        return "openvino-runtime"
    if runtime == "onnxruntime":
        return "cuda" if device.startswith("cuda") else "cpu"
    if runtime == "openvino" and is_installed("openvino"):
        return "openvino-runtime"
    return runtime
