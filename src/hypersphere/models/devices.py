"""Where a model computes: the one rule for devices, and for the execution providers of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere.core import choose_device

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
"""The execution provider of each kind of device; a kind that is not here computes on the CPU."""


def model_device(path: str | Path, device: str | None) -> str:
    """Return the device that a model's file computes on.

    Args:
        path: of the model. ONNX files compute on the CPU unless a device is named: few builds of onnxruntime know the
            GPU that torch knows.
        device: as the user named it; by default the best there is for this file.
    """
    return "cpu" if device is None and Path(path).suffix == ".onnx" else choose_device(device)


def execution_providers(runtime: Any, device: str) -> list[str]:
    """Return the execution providers of a session; ValueError where this onnxruntime lacks the one of the device.

    Args:
        runtime: the module onnxruntime.
        device: `cpu`, `cuda`, `cuda:1`, ...
    """
    provider = PROVIDERS.get(device.partition(":")[0], PROVIDERS["cpu"])
    known = runtime.get_available_providers()
    if provider not in known:
        raise ValueError(f"device={device!r}: this onnxruntime knows {', '.join(known)}")
    return [provider]
