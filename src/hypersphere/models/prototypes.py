"""Prototypes in one file: `.safetensors` with the tensor `prototypes`, whatever number of processes had them."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from hypersphere.core import Staged
from hypersphere.heads import Head
from hypersphere.models.model_file import open_safetensors, safetensors_module

FORMAT = "hypersphere prototypes 1"


def save_prototypes(path: str | Path, head: Head, *, replace: bool = False) -> None:
    """Write the prototypes of a head, whole or not at all.

    All processes of a sharded head call it: the rows come to the first one some at a time, and it writes them.

    Args:
        path: the new `.safetensors`.
        head: sharded or not.
        replace: overwrite a file that is there.

    Example:
        >>> save_prototypes("prototypes.safetensors", head)
        >>> prototypes = load_prototypes("prototypes.safetensors")
        >>> fixed = hs.create_head("arcface", dim=512, num_classes=1000, prototypes=prototypes)
    """
    if Path(path).suffix != ".safetensors":
        raise ValueError(f"{path}: a file of prototypes ends in .safetensors")
    whole = head.whole_weight()
    if whole is None:
        return
    write_prototypes(Path(path), whole, head.objective.name, replace=replace)


def write_prototypes(path: Path, prototypes: Tensor, loss: str, *, replace: bool = False) -> None:
    """Write a (num_classes, dim) tensor as `save_prototypes` does."""
    metadata = {"format": FORMAT, "loss": loss}
    data = safetensors_module().torch.save({"prototypes": prototypes.detach().cpu().contiguous()}, metadata)
    with Staged() as stage:
        stage.open(path, replace=replace).write(data)


def load_prototypes(path: str | Path) -> Tensor:
    """The (num_classes, dim) prototypes of a file of `save_prototypes`, on the CPU."""
    metadata, state = open_safetensors(Path(path))
    if metadata.get("format") != FORMAT or "prototypes" not in state:
        raise ValueError(f"{path}: no file of prototypes; `save_prototypes` writes them")
    return state["prototypes"]
