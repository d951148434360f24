"""Measure embeddings by a protocol: one call for what `hypersphere evaluate` does."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypersphere.core import nearest
from hypersphere.evaluation.embeddings import Embeddings
from hypersphere.evaluation.protocols.embedding_source import EmbeddingSource, Meter
from hypersphere.evaluation.protocols.known_protocols import PROTOCOLS, Evaluated
from hypersphere.evaluation.results.result import Result
from hypersphere.models import Contract, Embedder

PathLike = str | Path


def evaluate(
    protocol: str,
    *,
    model: Embedder | PathLike | Sequence[Embedder | PathLike] = (),
    images: PathLike | Sequence[PathLike] = (),
    embeddings: Embeddings | PathLike | Sequence[Embeddings | PathLike] = (),
    names: PathLike | Sequence[PathLike] = (),
    contract: Contract | PathLike | None = None,
    flip: str | None = None,
    resize: bool = False,
    merge: str | None = None,
    batch_size: int = 128,
    device: str | None = None,
    allow_missing: bool = False,
    progress: Meter | None = None,
    **options: Any,
) -> Result:
    """Measure ready embeddings, or those of a model, by a protocol.

    Args:
        protocol: `pairs`, `blufr`, `ytf`, `ijb`, `megaface`, `reid` or `classify`; `list_protocols()` names them.
        model: a model, or the file or folder of one (`load_model`); or several.
        images: a folder, a tar or a folder of tars; of `pairs` also one for each list.
        embeddings: ready ones instead of a model: `Embeddings`, or the path of an `.npy` array; or several.
        names: of arrays, the list with the name of each row's image: one for all, or one for each.
        contract: of ONNX files, where none lies beside them.
        flip: how the embeddings of mirror images are merged; the contract's choice by default.
        resize: resize images to the model's size instead of refusing them.
        merge: of several models or arrays: `concat`, side by side; `unit`, the same of unit vectors; or `scores`, the
            mean of scores (pairs only).
        batch_size: images at a time.
        device: to compute on; the best there is by default, for ONNX files the CPU.
        allow_missing: leave out what is missing or cannot be read, and count it.
        progress: makes a progress bar of a title and a unit, as `hypersphere.core.Progress` does.
        options: the protocol's own, as docs/evaluation.md lists them.

    Example:
        >>> result = hs.evaluate("pairs", embeddings="E.npy", names="L.txt", pairs="lfw-pairs.txt")
        >>> accuracy = result.metrics["accuracy"]
    """
    source = EmbeddingSource(
        model=[each if isinstance(each, Embedder) else Path(each) for each in _several(model)],
        images=_paths(images),
        embeddings=[each if isinstance(each, Embeddings) else Path(each) for each in _several(embeddings)],
        names=_paths(names),
        contract=contract,
        flip=flip,
        resize=resize,
        merge=merge,
        batch_size=batch_size,
        device=device,
        allow_missing=allow_missing,
        meter=progress,
    )
    evaluated = run_protocol(protocol, source, options)
    if evaluated.warning:
        warnings.warn(evaluated.warning, RuntimeWarning, stacklevel=2)
    return evaluated.result


def run_protocol(protocol: str, source: EmbeddingSource, options: Mapping[str, Any]) -> Evaluated:
    """The same from a source of embeddings, with what the report shows besides.

    Args:
        protocol: its name.
        source: of the embeddings.
        options: the protocol's own.
    """
    parameters = protocol_options(protocol)
    for name in options:
        if name not in parameters:
            raise ValueError(f"{protocol} has no option {name!r}; {nearest(name, parameters)}")
    missing = [source.option(name) for name, needed in parameters.items() if needed and name not in options]
    if missing:
        raise ValueError(f"{protocol} needs {' and '.join(missing)}")
    found: Evaluated = PROTOCOLS[protocol](source, **options)
    return found


def protocol_options(protocol: str) -> dict[str, bool]:
    """The names of a protocol's own options, each with whether it must be given."""
    parameters = list(inspect.signature(PROTOCOLS[protocol]).parameters.values())[1:]
    return {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _paths(value: PathLike | Sequence[PathLike]) -> list[Path]:
    return [Path(each) for each in _several(value)]
