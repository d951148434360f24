"""The one rule for devices and execution providers."""

from pathlib import Path

import pytest

from hypersphere.models.devices import file_runtime, model_device, provider_name


def test_onnx_files_compute_on_the_cpu_unless_a_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert model_device("a.onnx", None) == "cpu"
    assert model_device("a.onnx", "cuda") == "cuda"
    assert model_device("a.safetensors", None) == "cuda"
    assert model_device("a run", "cpu") == "cpu"


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="device='tpu' is unknown"):
        model_device("a.onnx", "tpu")


def test_a_provider_that_onnxruntime_lacks_is_named() -> None:
    assert provider_name("cpu", ["CPUExecutionProvider"]) == "CPUExecutionProvider"
    with pytest.raises(ValueError, match="provider 'cuda': this onnxruntime has no CUDAExecutionProvider; it has cpu"):
        provider_name("cuda", ["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="provider 'opencl' is unknown"):
        provider_name("opencl", [])


def test_a_device_names_the_provider_of_a_file() -> None:
    assert [file_runtime(Path("a.onnx"), "onnxruntime", device) for device in ("cpu", "mps", "cuda:1")] == [
        "cpu",
        "cpu",
        "cuda",
    ]
    assert file_runtime(Path("a.onnx"), "coreml", "cpu") == "coreml"
