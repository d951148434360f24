"""Models that make embeddings, each with the contract that says how images must be prepared for it."""

from hypersphere.models.align import (
    ALIGNMENT_TARGETS,
    AlignmentTarget,
    DegenerateLandmarks,
    align_face,
    alignment_target,
    similarity_transform,
)
from hypersphere.models.card import ModelCard
from hypersphere.models.catalogue import (
    STARTER,
    CatalogueEntry,
    CatalogueFile,
    Measured,
    choose_model,
    configured_use,
    find_entry,
    home,
    named_models,
)
from hypersphere.models.conformance import Conformance, Probe, check_conformance
from hypersphere.models.contract import PRESETS, Contract, read_contract
from hypersphere.models.devices import PROVIDERS, RUNTIMES, model_device, open_session
from hypersphere.models.embedder import FLIPS, Embedder, NormalizedNetwork, embedded_batches
from hypersphere.models.export_onnx import export_onnx
from hypersphere.models.fetch import OFFLINE, NotFetched, fetch
from hypersphere.models.golden import Golden, golden_of, paint_golden, read_golden
from hypersphere.models.import_model import Imported, has_prototypes_only, import_model, import_prototypes
from hypersphere.models.model_file import (
    CARD_FILE,
    MODEL_FILE,
    load_model,
    open_safetensors,
    save_folder,
    save_model,
)
from hypersphere.models.network_file import load_network_file
from hypersphere.models.onnx_graph import UnsupportedOperator, load_onnx_graph
from hypersphere.models.prototypes import load_prototypes, save_prototypes
from hypersphere.models.thresholds import (
    THRESHOLDS_FILE,
    Threshold,
    ThresholdTable,
    load_thresholds,
    save_thresholds,
)
from hypersphere.models.torch_file import check_directory, read_torch_file

__all__ = [
    "ALIGNMENT_TARGETS",
    "CARD_FILE",
    "FLIPS",
    "MODEL_FILE",
    "OFFLINE",
    "PRESETS",
    "PROVIDERS",
    "RUNTIMES",
    "STARTER",
    "THRESHOLDS_FILE",
    "AlignmentTarget",
    "CatalogueEntry",
    "CatalogueFile",
    "Conformance",
    "Contract",
    "DegenerateLandmarks",
    "Embedder",
    "Golden",
    "Imported",
    "Measured",
    "ModelCard",
    "NormalizedNetwork",
    "NotFetched",
    "Probe",
    "Threshold",
    "ThresholdTable",
    "UnsupportedOperator",
    "align_face",
    "alignment_target",
    "check_conformance",
    "check_directory",
    "choose_model",
    "configured_use",
    "embedded_batches",
    "export_onnx",
    "fetch",
    "find_entry",
    "golden_of",
    "has_prototypes_only",
    "home",
    "import_model",
    "import_prototypes",
    "load_model",
    "load_network_file",
    "load_onnx_graph",
    "load_prototypes",
    "load_thresholds",
    "model_device",
    "named_models",
    "open_safetensors",
    "open_session",
    "paint_golden",
    "read_contract",
    "read_golden",
    "read_torch_file",
    "save_folder",
    "save_model",
    "save_prototypes",
    "save_thresholds",
    "similarity_transform",
]
