"""Model files: `.safetensors` with the contract in its metadata, and any `.onnx` or `.xml` with a stated one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hypersphere.backbones import Backbone, create_backbone
from hypersphere.core import Staged, check_choice, import_extra, parse_json, read_bounded, read_json
from hypersphere.models.catalogue import STARTER, STARTER_FOLDER, find_entry
from hypersphere.models.contract import Contract, contract_beside, matched, parse_contract, read_contract
from hypersphere.models.devices import FILE_SUFFIXES, RUNTIMES, model_device
from hypersphere.models.embedder import Embedder
from hypersphere.models.fetch import fetch
from hypersphere.models.network_file import load_network_file
from hypersphere.models.onnx_graph import load_onnx_graph

FORMAT = "hypersphere model 2"
UNSEALED = "hypersphere model 1"
"""Files of an earlier day: their digest is of the weights alone."""
MODEL_FILE, CONFIG_FILE, CARD_FILE = "model.safetensors", "config.json", "README.md"
"""What a folder of a model holds, as Hugging Face's Hub expects it: weights with their contract, the contract to read,
and the model card. A run of `hypersphere train` leaves one."""
_LONGEST_CARD = 2**20
_FORMATS = "hypersphere model "


def load_model(
    path: str | Path,
    contract: Contract | str | Path | None = None,
    *,
    device: str | None = "cpu",
    runtime: str = "onnxruntime",
) -> Embedder:
    """A model from its file or folder, as an `Embedder`.

    Args:
        path: `.safetensors` of `save_model`, which carries its contract; a folder that has one, such as that of a run;
            `.onnx`; OpenVINO's `X.xml`, with `X.bin` beside it; or `"starter"`, the small face model that comes with
            the package (docs/starter.md; a folder of that name is `"./starter"`); or a name of the catalogue, such as
            `"intel-0095"` (docs/models.md), whose files are fetched when they are used for the first time.
        contract: of an ONNX or OpenVINO file: a preset's name, a file, or the contract itself. By default that in
            `X.contract.json` or `X.contract.toml` beside `X.onnx`.
        device: to compute on; None for the best there is, which for ONNX and OpenVINO files is the CPU.
        runtime: of an ONNX file: `onnxruntime`; one of its providers (`cpu`, `cuda`, `tensorrt`, `openvino`, `coreml`,
            `directml`; `openvino` is the package of that name where it is installed); or `torch`, which needs no
            onnxruntime for a GPU but knows the operators of face recognisers alone (`load_onnx_graph`).

    Example:
        >>> load_model("runs/faces")(["ada.jpg", "grace.jpg"], resize=True).shape
        torch.Size([2, 512])
    """
    check_choice("runtime", runtime, RUNTIMES)
    entry = find_entry(path)
    folder = STARTER_FOLDER if path == STARTER else Path(path)
    name = folder.name
    path = find_model(path)
    if entry is not None and entry.contract is not None:
        if contract is not None:
            raise ValueError(f"{name} carries its own contract; leave the other one out")
        contract = entry.stated_contract()
    device = model_device(path, device)
    if path.suffix == ".safetensors":
        if contract is not None:
            raise ValueError(f"{path} carries its own contract; leave the other one out")
        model = _load_safetensors(path, device, name)
        return model if path == folder else _with_card(model, folder)
    if path.suffix not in FILE_SUFFIXES:
        raise ValueError(f"{path}: a model is a .safetensors, an .onnx or an OpenVINO .xml file")
    stated = read_contract(contract) if isinstance(contract, str | Path) else contract or contract_beside(path)
    if stated is None:
        kind = "an ONNX" if path.suffix == ".onnx" else "an OpenVINO"
        raise ValueError(
            f"{path}: {kind} file does not say how images must be prepared; state its contract: a preset such as "
            f"'insightface', or a file {path.with_suffix('.contract.toml').name} beside it"
        )
    if runtime == "torch" and path.suffix == ".onnx":
        model = load_onnx_graph(path, stated, device=device)
    else:
        model = load_network_file(path, stated, device=device, runtime=runtime)
    return model if entry is None else dataclasses.replace(model, name=entry.name, card=entry.card())


def find_model(path: str | Path) -> Path:
    """Return the file of a model, as `load_model` takes it; ValueError where there is none.

    Files of the catalogue that are missing are fetched.
    """
    entry = find_entry(path)
    if entry is not None and entry.kind != "recognizer":
        raise ValueError(f"{entry.name} is a {entry.kind}: give it to load_detector, or as --detector")
    fetched = None if entry is None else fetch(entry)
    path = STARTER_FOLDER if path == STARTER else fetched or Path(path)
    if path.is_dir():
        if not (path / MODEL_FILE).is_file():
            raise ValueError(
                f"{path} is a folder without {MODEL_FILE}; a run of `hypersphere train` writes it when it ends"
            )
        return path / MODEL_FILE
    if not path.is_file():
        raise ValueError(
            f"{path} is missing; a model is a .safetensors, an .onnx or an .xml file, the folder of a run, or a name "
            "of `hypersphere models`; models of Hugging Face's Hub are opened by hs.Embedder.from_pretrained"
        )
    return path


def save_model(
    path: str | Path,
    network: nn.Module,
    contract: Contract,
    backbone: Mapping[str, Any],
    *,
    half: bool = False,
    replace: bool = False,
) -> Contract:
    """Write the weights of a network with its contract; whole or not at all.

    Args:
        path: the new `.safetensors`.
        network: made by `create_backbone(**backbone)`.
        contract: what it must be given; width, name and digest are filled in.
        backbone: the arguments of `create_backbone`: `name`, `dim`, ...
        half: store the weights in half precision, rounded to the nearest.
        replace: overwrite a file that is there.

    Returns:
        the contract as written.
    """
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"{path}: a model file ends in .safetensors")
    data, complete = model_bytes(network, contract, backbone, where=str(path), half=half)
    with Staged() as stage:
        stage.open(Path(path), replace=replace).write(data)
    return complete


def save_folder(
    folder: str | Path,
    network: nn.Module,
    contract: Contract,
    backbone: Mapping[str, Any],
    card: str,
    *,
    half: bool = False,
    replace: bool = False,
) -> Contract:
    """Write a model as a folder in the layout of Hugging Face's Hub; all of its three files or none.

    Args:
        folder: where to.
        network, contract, backbone, half, replace: as for `save_model`.
        card: text of `README.md`, the model card.

    Returns:
        the contract as written.
    """
    folder = Path(folder)
    data, complete = model_bytes(network, contract, backbone, where=str(folder), half=half)
    options = _options(contract, backbone)
    config = {"library_name": "hypersphere", "format": FORMAT, "contract": complete.table(), "backbone": options}
    files = {MODEL_FILE: data, CONFIG_FILE: f"{json.dumps(config, indent=1)}\n".encode(), CARD_FILE: card.encode()}
    with Staged() as stage:
        for name, content in files.items():
            stage.open(folder / name, replace=replace).write(content)
    return complete


def model_bytes(
    network: nn.Module, contract: Contract, backbone: Mapping[str, Any], *, where: str, half: bool
) -> tuple[bytes, Contract]:
    """The content of a model file, and the contract in it."""
    safetensors = safetensors_module()
    options = _options(contract, backbone)
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    _fill(create_backbone(**options), state, where)
    if half:
        state = {name: _halved(name, value, where) for name, value in state.items()}
    complete = matched(contract, dim=int(options.get("dim", 512)), digest=digest_of(state), where=where)
    complete = dataclasses.replace(complete, backbone=str(backbone["name"]))
    metadata = {
        "format": FORMAT,
        "contract": json.dumps(complete.table(), sort_keys=True),
        "backbone": json.dumps(options, sort_keys=True),
    }
    metadata["seal"] = _seal(metadata, complete.digest)
    data: bytes = safetensors.torch.save(state, metadata)
    return data, complete


def _options(contract: Contract, backbone: Mapping[str, Any]) -> dict[str, Any]:
    return {**backbone, "input_size": list(contract.input_size), "channels": contract.channels}


def _halved(name: str, value: Tensor, where: str) -> Tensor:
    if not value.is_floating_point():
        return value
    rounded = value.half()
    if not bool(rounded.isfinite().all()):
        raise ValueError(f"{where}: {name} has numbers beyond 65504, which half precision cannot hold")
    return rounded


def digest_of(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of all weights, shortened.

    Weights stored in half precision have the digest of the same numbers in single precision, which is what the network
    computes with.
    """
    found = hashlib.sha256()
    for name in sorted(state):
        value = state[name].detach().cpu().contiguous()
        value = value.float() if value.dtype == torch.half else value
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def open_safetensors(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a file."""
    safetensors = safetensors_module()
    if not Path(path).is_file():
        raise ValueError(f"{path} is missing, or not a file")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"{path}: not a readable .safetensors file ({error}); it is cut short or damaged: fetch or write it again"
        ) from None


def _load_safetensors(path: Path, device: str, name: str) -> Embedder:
    metadata, state = open_safetensors(path)
    stated = metadata.get("format", "")
    if stated.startswith(_FORMATS) and stated not in (FORMAT, UNSEALED):
        raise ValueError(
            f"{path}: has the format {stated!r}, but this version reads {FORMAT!r} and {UNSEALED!r}: install the "
            "version of hypersphere that wrote it, or a newer one"
        )
    if stated not in (FORMAT, UNSEALED) or not {"contract", "backbone"} <= set(metadata):
        raise ValueError(f"{path}: has no embedding contract in its metadata; hypersphere's own model files do")
    digest = digest_of(state)
    if stated == FORMAT and metadata.get("seal") != _seal(metadata, digest):
        raise ValueError(f"{path}: damaged: the digest of its weights, contract and backbone is not the one it states")
    contract = parse_contract(metadata["contract"], str(path))
    network, backbone = _network(metadata["backbone"], state, str(path))
    contract = matched(contract, dim=network.dim, digest=digest, where=str(path))
    if (network.channels, *network.input_size) != (contract.channels, *contract.input_size):
        raise ValueError(
            f"{path}: the contract's images are {(contract.channels, *contract.input_size)}, those of its backbone "
            f"{(network.channels, *network.input_size)} (channels, height, width)"
        )
    return Embedder(contract, network.eval().to(device), device, name, backbone)


def _with_card(model: Embedder, folder: Path) -> Embedder:
    """The model with its folder's card; what `config.json` says must be the file's contract."""
    path = folder / CONFIG_FILE
    stated = read_json(path) if path.is_file() else None
    if isinstance(stated, dict) and "contract" in stated and stated["contract"] != _plain(model.contract.table()):
        raise ValueError(
            f"{path}: states another contract than {MODEL_FILE} beside it; one of them belongs to another model"
        )
    card = folder / CARD_FILE
    if not card.is_file():
        return model
    text = read_bounded(card, _LONGEST_CARD, "model card").decode("utf-8", "replace")
    return dataclasses.replace(model, card=text)


def _plain(table: dict[str, Any]) -> Any:
    return json.loads(json.dumps(table))


def _seal(metadata: Mapping[str, str], digest: str) -> str:
    """SHA-256 over the contract, the backbone and the digest of the weights."""
    text = "\n".join([metadata["contract"], metadata["backbone"], digest])
    return hashlib.sha256(text.encode()).hexdigest()


def _network(options: str, state: Mapping[str, Tensor], where: str) -> tuple[Backbone, dict[str, Any]]:
    """The backbone of these options with these weights; nothing is allocated before they were found to fit."""
    try:
        arguments = parse_json(options, "backbone")
        with torch.device("meta"), _NotInitialised():
            shapes = {name: value.shape for name, value in create_backbone(**arguments).state_dict().items()}
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        raise ValueError(f"{where}: its metadata name no backbone of this version ({error})") from None
    wrong = sorted(shapes.items() ^ {name: value.shape for name, value in state.items()}.items())
    if wrong:
        raise ValueError(f"{where}: the weights do not fit the backbone, first {wrong[0][0]}")
    with _NotInitialised():
        network = create_backbone(**arguments)
    _fill(network, state, where)
    return network, arguments


class _NotInitialised(TorchFunctionMode):
    """Leave out the drawing of first weights, which those of a file replace.

    On the device "meta", a draw of random numbers imports the compiler of torch, which takes a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init" or func in (Tensor.normal_, Tensor.uniform_):
            return args[0] if args else named["tensor"]
        return func(*args, **named)


def _fill(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    try:
        network.load_state_dict(dict(state))
    except RuntimeError as error:
        raise ValueError(f"{where}: the weights do not fit the backbone ({error})") from None


def safetensors_module() -> Any:
    """The package safetensors, or how to get it."""
    import_extra("safetensors.torch", "a model file")
    return import_extra("safetensors", "a model file")
