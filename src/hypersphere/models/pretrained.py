"""Models as folders that Hugging Face's Hub takes and gives: `save_pretrained` and `from_pretrained`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from torch import nn

from hypersphere.core import import_extra
from hypersphere.models.card import ModelCard
from hypersphere.models.catalogue import STARTER
from hypersphere.models.embedder import Embedder
from hypersphere.models.model_file import CARD_FILE, CONFIG_FILE, MODEL_FILE, load_model, save_folder


def save_pretrained(model: Embedder, folder: Path, *, card: str | None = None, half: bool = False) -> None:
    """Write a model as a folder, as `Embedder.save_pretrained` says."""
    if not model.backbone or not isinstance(model.network, nn.Module):
        raise ValueError(
            f"{model.name or 'the model'} is no backbone of this library: its weights stay in the file it came from; "
            "copy that, with its contract beside it (X.contract.json)"
        )
    text = card or model.card or ModelCard(title=model.name or "An embedding model").text()
    contract = dataclasses.replace(model.contract, digest="")
    save_folder(folder, model.network, contract, model.backbone, text, half=half)


def from_pretrained(source: str | Path, *, device: str = "cpu", revision: str | None = None) -> Embedder:
    """A model from a local folder or the Hub, as `Embedder.from_pretrained` says."""
    if Path(source).exists() or source == STARTER:
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for models of the Hub; {source} is here")
        return load_model(source, device=device)
    owner, slash, name = str(source).partition("/")
    if not (owner and slash and name) or "/" in name or str(source).startswith((".", "~")):
        raise ValueError(
            f"{source} is missing: expected a folder with {MODEL_FILE}, or an id of Hugging Face's Hub (owner/name)"
        )
    hub = import_extra("huggingface_hub", f"{source} is no folder here, and fetching a model of Hugging Face's Hub")
    try:
        folder = hub.snapshot_download(
            str(source), revision=revision, allow_patterns=[MODEL_FILE, CONFIG_FILE, CARD_FILE]
        )
    except Exception as error:  # the client raises classes of its own, of requests and of the system
        first = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{source} was not fetched from Hugging Face's Hub ({type(error).__name__}: {first}): check the id, the "
            "network and your token, or copy the folder here and give its path"
        ) from error
    return load_model(folder, device=device)
