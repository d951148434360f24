"""Models that make embeddings, each with the contract that says how images must be prepared for it."""

from hypersphere.models.contract import PRESETS, Contract, read_contract
from hypersphere.models.embedder import FLIPS, Embedder
from hypersphere.models.files import load_model, save_model
from hypersphere.models.onnx import load_onnx

__all__ = ["FLIPS", "PRESETS", "Contract", "Embedder", "load_model", "load_onnx", "read_contract", "save_model"]
