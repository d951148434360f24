"""Weights that others trained, as model files: names mapped, shapes checked, the contract stated."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hypersphere.backbones import create_backbone
from hypersphere.core import Staged, refuse_existing
from hypersphere.models.contract import Contract
from hypersphere.models.devices import FILE_SUFFIXES
from hypersphere.models.import_layouts import LAYOUTS, Mapped, State
from hypersphere.models.model_file import open_safetensors, save_model
from hypersphere.models.network_file import load_network_file
from hypersphere.models.onnx_weights import check_onnx_weights
from hypersphere.models.prototypes import write_prototypes
from hypersphere.models.torch_file import check_dense, check_finite, read_torch_file

_BACKBONES = ("state_dict_backbone", "backbone", "model", "state_dict")
"""Where files keep the network among other things; OpenSphere has `backbone` in `model`, Lightning all in one."""
_PREFIXES = ("module.", "model.", "net.", "backbone.", "module.")
_SHARD = re.compile(
    r"(?P<before>rank[_:]|softmax_fc_gpu_|checkpoint_gpu_)(?P<rank>\d{1,6})(?P<after>(?:_softmax_weight)?\.pt)"
)


@dataclass(frozen=True)
class Imported:
    """What was imported.

    Args:
        layout: whose names the weights had.
        contract: as it was written.
        left_out: names in the file that are not of the network: the classifier, as a rule.
    """

    layout: str
    contract: Contract
    left_out: tuple[str, ...] = ()


def import_model(path: str | Path, out: str | Path, contract: Contract, *, replace: bool = False) -> Imported:
    """Write the network of another library's file as a model file; whole or not at all.

    `.pt`, `.pth` and `.ckpt` files are read with `weights_only=True`, `.safetensors` too are taken. ONNX and
    OpenVINO files are checked and copied, with their contract beside them.

    Args:
        path: arcface_torch's `backbone.pth` or `checkpoint_gpu_0.pt`, AdaFace's `.ckpt`, CVLface's `model.pt`,
            OpenSphere's `model_*.pth`, clcarwin's `sphere20a`, an `.onnx`, or an `.xml` with its `.bin`.
        out: the new `.safetensors`, or `.onnx` or `.xml` for such a file.
        contract: how images are prepared, which no such file says.
        replace: overwrite a file that is there.

    Raises:
        ValueError: the network is not one of the backbones here; the message names the first key that is odd.

    Example:
        >>> contract = hs.models.read_contract("adaface")
        >>> imported = import_model("adaface_ir18.ckpt", "adaface.safetensors", contract)
        >>> imported.contract.backbone
        'iresnet18'
    """
    path, out = Path(path), Path(out)
    if not replace:
        refuse_existing(out)
    if path.suffix in FILE_SUFFIXES:
        return _import_network_file(path, out, contract, replace)
    if out.suffix != ".safetensors":
        raise ValueError(f"{out}: a model file ends in .safetensors")
    state, left_out = _network_state(_read(path), path)
    layout, change = next((LAYOUTS[key] for key in LAYOUTS if key in state), ("", None))
    if change is None:
        raise ValueError(
            f"{path}: its first key is {next(iter(state))!r}; no layout known here begins so (arcface_torch, AdaFace, "
            "CVLface, OpenSphere, sphereface_pytorch)"
        )
    try:
        mapped = change(state)
    except (ValueError, IndexError, RuntimeError) as error:
        raise ValueError(f"{path}: names of {layout}, but {error}") from None
    weights = _checked(mapped, list(state), contract, f"{path}: names of {layout}, but")
    network = create_backbone(**mapped.backbone, input_size=contract.input_size, channels=contract.channels)
    network.load_state_dict({**network.state_dict(), **weights})
    written = save_model(out, network, contract, mapped.backbone, replace=replace)
    return Imported(layout, written, tuple(left_out))


def import_prototypes(path: str | Path, out: str | Path, *, replace: bool = False) -> tuple[int, int]:
    """Write the prototypes of all of arcface_torch's processes as one file; returns how many files and classes.

    Args:
        path: `rank_0_softmax_weight.pt`, `softmax_fc_gpu_0.pt` or `checkpoint_gpu_0.pt`, with those of the other
            processes beside it.
        out: the new `.safetensors`, which `load_prototypes` reads.
        replace: overwrite a file that is there.
    """
    path, out = Path(path), Path(out)
    if out.suffix != ".safetensors":
        raise ValueError(f"{out}: a file of prototypes ends in .safetensors")
    parts = [_class_rows(_read(each), each) for each in _shards(path)]
    dims = {part.shape[1] for part in parts}
    counts = [len(part) for part in parts]
    total, several = sum(counts), len(parts)
    if len(dims) > 1 or counts != [total // several + (rank < total % several) for rank in range(several)]:
        shapes = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(f"{path}: the files of {several} processes have {shapes}, which is no even share of classes")
    write_prototypes(out, torch.cat(parts), "arcface_torch", replace=replace)
    return several, total


def has_prototypes_only(path: str | Path) -> bool:
    """Whether a file is named as arcface_torch names those of a classifier without a network."""
    match = _SHARD.fullmatch(Path(path).name)
    return match is not None and not match["before"].startswith("checkpoint")


def _shards(path: Path) -> list[Path]:
    """The files of all processes beside that of one, from the first to the last."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    found = {
        int(other["rank"]): each
        for each in path.parent.iterdir()
        if (other := _SHARD.fullmatch(each.name)) and other["before"] == match["before"]
    }
    missing = [rank for rank in range(max(found, default=0) + 1) if rank not in found]
    if missing:
        name = f"{match['before']}{missing[0]}{match['after']}"
        raise ValueError(f"{path.parent / name} is missing: the classes are shared out over {max(found) + 1} files")
    return [found[rank] for rank in sorted(found)]


def _class_rows(content: Any, path: Path) -> Tensor:
    """The (classes, dim) rows of one process."""
    for key in ("state_dict_softmax_fc", "weight"):
        content = content[key] if isinstance(content, Mapping) and key in content else content
    if not isinstance(content, Tensor) or content.ndim != 2 or not content.is_floating_point():
        raise ValueError(f"{path}: expected the (classes, dim) weights of a classifier")
    check_dense("weight", content, path)
    check_finite("weight", content, path)
    return content.float()


def _read(path: Path) -> Any:
    return open_safetensors(path)[1] if path.suffix == ".safetensors" else read_torch_file(path)


def _network_state(content: Any, path: Path) -> tuple[State, list[str]]:
    """The weights of the network by their bare names; and the names of the others."""
    left_out: list[str] = []
    for _ in range(3):
        tables = content if isinstance(content, Mapping) else {}
        key = next((each for each in _BACKBONES if isinstance(tables.get(each), Mapping)), "")
        if key:
            left_out += [str(name) for name in content if name != key]
            content = content[key]
    if not isinstance(content, Mapping):
        raise ValueError(f"{path}: expected weights by name, a state dict; found {type(content).__name__}")
    state = {str(name): value for name, value in content.items()}
    for prefix in _PREFIXES:
        inside = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if inside:
            left_out += [name for name in state if not name.startswith(prefix)]
            state = inside
    heads = [name for name in state if name.startswith(("fc6.", "head."))]
    left_out += heads
    state = {name: value for name, value in state.items() if name not in heads}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(f"{path}: {name!r} is no tensor; expected weights by name, a state dict")
        check_dense(name, value, path)
    state = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    if not state:
        raise ValueError(f"{path}: has no weights")
    for name, value in state.items():
        if not value.is_floating_point():
            raise ValueError(f"{path}: {name!r} is of {value.dtype}; expected floating point")
        check_finite(name, value, path)
    return state, left_out


def _checked(mapped: Mapped, odd: list[str], contract: Contract, where: str) -> State:
    """The weights, if they are all that the backbone has; ValueError with the first that is odd, missing or another."""
    if odd:
        raise ValueError(f"{where} {odd[0]!r} is in no block of {mapped.backbone['name']}")
    fc = mapped.state.get("fc.weight")
    if fc is None or fc.ndim != 2:
        raise ValueError(f"{where} it has no last linear layer")
    mapped.backbone["dim"] = len(fc)
    with torch.device("meta"):
        made = create_backbone(**mapped.backbone, input_size=contract.input_size, channels=contract.channels)
    wanted = {
        name: tuple(value.shape) for name, value in made.state_dict().items() if not name.endswith("batches_tracked")
    }
    for name in mapped.state:
        if name not in wanted:
            raise ValueError(f"{where} {mapped.sources.get(name, name)!r} is in no block of {mapped.backbone['name']}")
    for name, shape in wanted.items():
        if name not in mapped.state:
            raise ValueError(f"{where} nothing in it is {name!r} of {mapped.backbone['name']}")
        found = tuple(mapped.state[name].shape)
        if found != shape:
            height, width = contract.input_size
            raise ValueError(
                f"{where} {mapped.sources.get(name, name)!r} is {found}; {mapped.backbone['name']} for "
                f"{width}x{height} {contract.colour} images has {shape} there"
            )
    return mapped.state


def _import_network_file(path: Path, out: Path, contract: Contract, replace: bool) -> Imported:
    """Check an ONNX or OpenVINO file by running it, and copy it with its contract beside it."""
    kind, suffixes = ("ONNX", [".onnx"]) if path.suffix == ".onnx" else ("OpenVINO", [".xml", ".bin"])
    beside = out.with_suffix(".contract.json")
    if out.suffix != path.suffix:
        raise ValueError(f"{out}: an {kind} file is imported as one; name OUT{path.suffix}")
    for file in () if replace else (beside, *map(out.with_suffix, suffixes)):
        refuse_existing(file)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    if path.suffix == ".onnx":
        check_onnx_weights(path)
    complete = load_network_file(path, contract).contract
    with Staged() as stage:
        for suffix in suffixes:
            stage.open(out.with_suffix(suffix), replace=replace).write(path.with_suffix(suffix).read_bytes())
        stage.open(beside, replace=replace).write(json.dumps(complete.table(), indent=1).encode())
    return Imported(kind, complete)
