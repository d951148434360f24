"""ONNX networks with a fixed number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hypersphere.core import check_integer, import_extra
from hypersphere.models import open_session


def open_network(path: Path, threads: int | None, *, split_prelu: bool = False, provider: str = "cpu") -> Any:
    """Open an ONNX file as a session of onnxruntime.

    Args:
        path: the file.
        threads: that one run uses; those of torch by default. They do not spin while they wait, so that several
            processes can share the cores.
        split_prelu: compute PReLU by three plain operators, see `_with_split_prelu`.
        provider: a key of `models.PROVIDERS`.

    Raises:
        ValueError: there is no such file, or onnxruntime cannot run it.
    """
    if threads is not None:
        check_integer("threads", threads, 1)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    content = _with_split_prelu(path) if split_prelu else str(path)
    return open_session(content, path, provider, threads=threads, spin=False)


def shapes_of(values: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes of a session's inputs or outputs by name; a free dimension is a text or None."""
    return {each.name: tuple(each.shape) for each in values}


def _with_split_prelu(path: Path) -> bytes:
    """Return a network in which PReLU is x + (slope - 1) min(x, 0).

    onnxruntime's own PReLU takes longer than the convolutions of networks as small as MTCNN's; these three operators
    halve the time of a run. Results differ by float32's rounding.
    """
    onnx = import_extra("onnx", "detecting faces")
    to_array, from_array = onnx.numpy_helper.to_array, onnx.numpy_helper.from_array
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf raises classes of its own for damaged files
        raise ValueError(f"{path}: not an ONNX file ({error})") from None
    graph = model.graph
    slopes = {each.name: each for each in graph.initializer}
    nodes = []
    for node in graph.node:
        if node.op_type != "PRelu":
            nodes.append(node)
            continue
        (x, slope), (y,) = node.input, node.output
        zero, factor, low, part = (f"{y} {name}" for name in ("zero", "factor", "low", "part"))
        graph.initializer.append(from_array(np.float32(0), zero))
        graph.initializer.append(from_array(to_array(slopes[slope]) - np.float32(1), factor))
        graph.initializer.remove(slopes[slope])
        nodes += [
            onnx.helper.make_node("Clip", [x, "", zero], [low]),
            onnx.helper.make_node("Mul", [low, factor], [part]),
            onnx.helper.make_node("Add", [x, part], [y]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)
    content: bytes = model.SerializeToString()
    return content
