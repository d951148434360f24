"""Models that make embeddings, each with the contract that says how images must be prepared for it."""

from hypersphere.models.card import ModelCard
from hypersphere.models.contract import PRESETS, Contract, read_contract
from hypersphere.models.embedder import FLIPS, Embedder, NormalizedNetwork, embedded_batches
from hypersphere.models.export_onnx import export_onnx
from hypersphere.models.model_file import (
    CARD_FILE,
    CONFIG_FILE,
    MODEL_FILE,
    STARTER,
    load_model,
    save_folder,
    save_model,
)
from hypersphere.models.onnx import load_onnx
from hypersphere.models.onnx_graph import UnsupportedOperator, load_onnx_graph
from hypersphere.models.prototypes import load_prototypes, save_prototypes

__all__ = [
    "CARD_FILE",
    "CONFIG_FILE",
    "FLIPS",
    "MODEL_FILE",
    "PRESETS",
    "STARTER",
    "Contract",
    "Embedder",
    "ModelCard",
    "NormalizedNetwork",
    "UnsupportedOperator",
    "embedded_batches",
    "export_onnx",
    "load_model",
    "load_onnx",
    "load_onnx_graph",
    "load_prototypes",
    "read_contract",
    "save_folder",
    "save_model",
    "save_prototypes",
]
