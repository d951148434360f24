"""The one rule for devices and execution providers."""

from types import SimpleNamespace

import pytest

from hypersphere.models.devices import execution_providers, model_device


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
    runtime = SimpleNamespace(get_available_providers=lambda: ["CPUExecutionProvider"])
    assert execution_providers(runtime, "cpu") == ["CPUExecutionProvider"]
    assert execution_providers(runtime, "mps") == ["CPUExecutionProvider"]
    with pytest.raises(ValueError, match="device='cuda:1': this onnxruntime knows CPUExecutionProvider"):
        execution_providers(runtime, "cuda:1")
