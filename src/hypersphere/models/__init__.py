"""Models that make embeddings, each with the contract that says how images must be prepared for it."""

from hypersphere.models.contract import PRESETS, Contract, read_contract
from hypersphere.models.embedder import FLIPS, Embedder, NormalizedNetwork
from hypersphere.models.export_onnx import export_onnx
from hypersphere.models.model_file import MODEL_FILE, load_model, save_model
from hypersphere.models.onnx import load_onnx
from hypersphere.models.onnx_graph import UnsupportedOperator, load_onnx_graph
from hypersphere.models.prototypes import load_prototypes, save_prototypes

__all__ = [
    "FLIPS",
    "MODEL_FILE",
    "PRESETS",
    "Contract",
    "Embedder",
    "NormalizedNetwork",
    "UnsupportedOperator",
    "export_onnx",
    "load_model",
    "load_onnx",
    "load_onnx_graph",
    "load_prototypes",
    "read_contract",
    "save_model",
    "save_prototypes",
]
