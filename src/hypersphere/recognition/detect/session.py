"""ONNX networks with a fixed number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hypersphere.core import check_integer, import_extra

_ERRORS_ARE_RAISED = 4
_PURPOSE = "detecting faces"


def open_network(path: Path, threads: int | None, *, split_prelu: bool = False) -> Any:
    """Open an ONNX file as a session of onnxruntime on the CPU.

    Args:
        path: the file.
        threads: that one run uses; those of torch by default. They do not spin while they wait, so that several
            processes can share the cores.
        split_prelu: compute PReLU by three plain operators, see `_with_split_prelu`.

    Raises:
        ValueError: there is no such file, or onnxruntime cannot run it.
    """
    runtime = import_extra("onnxruntime", _PURPOSE)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    options = runtime.SessionOptions()
    options.log_severity_level = _ERRORS_ARE_RAISED
    options.intra_op_num_threads = torch.get_num_threads() if threads is None else check_integer("threads", threads, 1)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        content = _with_split_prelu(path) if split_prelu else str(path)
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except ModuleNotFoundError:
        raise
    except Exception as error:  # onnxruntime and onnx raise classes of their own for damaged files
        raise ValueError(f"{path}: not an ONNX network that onnxruntime can run ({error})") from None


def shapes_of(values: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the shapes of a session's inputs or outputs by name; a free dimension is a text or None."""
    return {each.name: tuple(each.shape) for each in values}


def _with_split_prelu(path: Path) -> bytes:
    """Return a network in which PReLU is x + (slope - 1) min(x, 0).

    onnxruntime's own PReLU takes longer than the convolutions of networks as small as MTCNN's; these three operators
    halve the time of a run. Results differ by float32's rounding.
    """
    onnx = import_extra("onnx", _PURPOSE)
    to_array, from_array = onnx.numpy_helper.to_array, onnx.numpy_helper.from_array
    model = onnx.load(str(path))
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
