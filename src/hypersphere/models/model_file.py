"""Model files: `.safetensors` with the contract in its metadata, and any `.onnx` with a stated one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hypersphere.backbones import Backbone, create_backbone
from hypersphere.core import Staged, check_choice, import_extra, parse_json
from hypersphere.models.contract import Contract, contract_beside, matched, parse_contract, read_contract
from hypersphere.models.embedder import Embedder
from hypersphere.models.onnx import load_onnx
from hypersphere.models.onnx_graph import load_onnx_graph

FORMAT = "hypersphere model 2"
UNSEALED = "hypersphere model 1"
"""Files of an earlier day: their digest is of the weights alone."""
MODEL_FILE = "model.safetensors"
"""What a run of `hypersphere train` leaves in its folder."""


def load_model(
    path: str | Path,
    contract: Contract | str | Path | None = None,
    *,
    device: str = "cpu",
    runtime: str = "onnxruntime",
) -> Embedder:
    """A model from its file.

    Args:
        path: `.safetensors` of `save_model`, which carries its contract; the folder of a run that has one; or `.onnx`.
        contract: of an ONNX file: a preset's name, a file, or the contract itself. By default that in
            `X.contract.json` or `X.contract.toml` beside `X.onnx`.
        device: to compute on.
        runtime: of an ONNX file: `onnxruntime`, or `torch`, which needs no onnxruntime for a GPU but knows the
            operators of face recognisers alone (`load_onnx_graph`).
    """
    path = Path(path)
    name = path.name
    check_choice("runtime", runtime, ("onnxruntime", "torch"))
    if path.is_dir():
        if not (path / MODEL_FILE).is_file():
            raise ValueError(
                f"{path} is a folder without {MODEL_FILE}; a run of `hypersphere train` writes it when it ends"
            )
        path = path / MODEL_FILE
    if not path.is_file():
        raise ValueError(f"{path} is missing; a model is a .safetensors or an .onnx file, or the folder of a run")
    if path.suffix == ".safetensors":
        if contract is not None:
            raise ValueError(f"{path} carries its own contract; leave the other one out")
        return _load_safetensors(path, device, name)
    if path.suffix != ".onnx":
        raise ValueError(f"{path}: a model is a .safetensors or an .onnx file")
    stated = read_contract(contract) if isinstance(contract, str | Path) else contract or contract_beside(path)
    if stated is None:
        raise ValueError(
            f"{path}: an ONNX file does not say how images must be prepared; state its contract: a preset such as "
            f"'insightface', or a file {path.with_suffix('.contract.toml').name} beside it"
        )
    load = load_onnx if runtime == "onnxruntime" else load_onnx_graph
    return load(path, stated, device=device)


def save_model(
    path: str | Path, network: nn.Module, contract: Contract, backbone: Mapping[str, Any], *, replace: bool = False
) -> Contract:
    """Write the weights of a network with its contract; whole or not at all.

    Args:
        path: the new `.safetensors`.
        network: made by `create_backbone(**backbone)`.
        contract: what it must be given; width, name and digest are filled in.
        backbone: the arguments of `create_backbone`: `name`, `dim`, ...
        replace: overwrite a file that is there.

    Returns:
        the contract as written.
    """
    safetensors = safetensors_module()
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"{path}: a model file ends in .safetensors")
    options = {**backbone, "input_size": list(contract.input_size), "channels": contract.channels}
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    _fill(create_backbone(**options), state, str(path))
    complete = matched(contract, dim=int(options.get("dim", 512)), digest=digest_of(state), where=str(path))
    complete = dataclasses.replace(complete, backbone=str(backbone["name"]))
    metadata = {
        "format": FORMAT,
        "contract": json.dumps(complete.table(), sort_keys=True),
        "backbone": json.dumps(options, sort_keys=True),
    }
    metadata["seal"] = _seal(metadata, complete.digest)
    with Staged() as stage:
        stage.open(Path(path), replace=replace).write(safetensors.torch.save(state, metadata))
    return complete


def digest_of(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of all weights, shortened."""
    found = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def open_safetensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a file."""
    safetensors = safetensors_module()
    if not path.is_file():
        raise ValueError(f"{path} is missing, or not a file")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path}: not a readable .safetensors file ({error})") from None


def _load_safetensors(path: Path, device: str, name: str) -> Embedder:
    metadata, state = open_safetensors(path)
    if metadata.get("format") not in (FORMAT, UNSEALED) or not {"contract", "backbone"} <= set(metadata):
        raise ValueError(f"{path}: has no embedding contract in its metadata; hypersphere's own model files do")
    digest = digest_of(state)
    if metadata["format"] == FORMAT and metadata.get("seal") != _seal(metadata, digest):
        raise ValueError(f"{path}: damaged: the digest of its weights, contract and backbone is not the one it states")
    contract = parse_contract(metadata["contract"], str(path))
    network = _network(metadata["backbone"], state, str(path))
    contract = matched(contract, dim=network.dim, digest=digest, where=str(path))
    return Embedder(contract, network.eval().to(device), device, name)


def _seal(metadata: Mapping[str, str], digest: str) -> str:
    """SHA-256 over the contract, the backbone and the digest of the weights."""
    text = "\n".join([metadata["contract"], metadata["backbone"], digest])
    return hashlib.sha256(text.encode()).hexdigest()


def _network(options: str, state: Mapping[str, Tensor], where: str) -> Backbone:
    """The backbone of these options with these weights; nothing is allocated before they were found to fit."""
    try:
        arguments = parse_json(options, "backbone")
        with torch.device("meta"):
            shapes = {name: value.shape for name, value in create_backbone(**arguments).state_dict().items()}
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        raise ValueError(f"{where}: its metadata name no backbone of this version ({error})") from None
    wrong = sorted(shapes.items() ^ {name: value.shape for name, value in state.items()}.items())
    if wrong:
        raise ValueError(f"{where}: the weights do not fit the backbone, first {wrong[0][0]}")
    network = create_backbone(**arguments)
    _fill(network, state, where)
    return network


def _fill(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise ValueError(f"{where}: the weights do not fit the backbone ({error})") from None


def safetensors_module() -> Any:
    """The package safetensors, or how to get it."""
    import_extra("safetensors.torch", "a model file")
    return import_extra("safetensors", "a model file")
