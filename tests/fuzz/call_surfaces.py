"""Surfaces without files of their own: heads with odd tensors and options, and the command line."""

import contextlib
import inspect
import io
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hypersphere.cli.main import main
from hypersphere.heads import create_head, create_loss, list_heads
from hypersphere.losses import OBJECTIVES
from tests.data.samples import make_folder
from tests.evaluation.protocols.standins import write_lfw_list
from tests.fuzz.mutate import _NUMBERS, _WORDS
from tests.fuzz.surface import CallSurface, Surface
from tests.training.small import RECIPE

DIM, CLASSES = 4, 6
_FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
_ODD_TYPES = (
    *(torch.complex64, torch.int64, torch.uint8, torch.bool, torch.int32, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.uint16, torch.uint32, torch.complex128),
)
_SPECIAL = (math.nan, math.inf, -math.inf, 0.0, 1e-45, 1e-20, 1e20, 3e38, -3e38)


def _odd_layout(rng: random.Random, x: Tensor) -> Any:
    kind = rng.randrange(9)
    if kind == 0:
        return x.to_sparse()
    if kind == 1:
        return x.to("meta")
    if kind == 2:
        return x.t().contiguous().t() if x.dim() == 2 else x
    if kind == 3:
        return x.numpy() if x.dtype in (torch.float32, torch.int64) else None
    if kind == 4:
        return x.tolist()
    if kind == 5:
        return x.to_sparse_csr() if x.dim() == 2 else x.to_sparse()
    if kind == 6:
        return x[..., None]
    if kind == 7:
        return x[:0] if x.dim() else x
    return torch.nested.nested_tensor([x]) if x.dtype == torch.float32 else None


def odd_embeddings(rng: random.Random) -> Any:
    """Embeddings, most often sound but for one thing."""
    shape = rng.choice(((3, DIM), (3, DIM), (3, DIM), (1, DIM), (0, DIM), (3, DIM + 1), (3,), (), (2, 3, DIM), (3, 0)))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(rng.randrange(1 << 30)))
    draw = rng.random()
    if draw < 0.3 and x.numel():
        flat = x.reshape(-1)
        flat[rng.randrange(x.numel())] = rng.choice(_SPECIAL)
        if rng.random() < 0.3:
            x = torch.full(shape, rng.choice(_SPECIAL))
        return x.to(rng.choice(_FLOATS))
    if draw < 0.45:
        return x.to(rng.choice(_ODD_TYPES))
    if draw < 0.6:
        return _odd_layout(rng, x)
    return x.to(rng.choice(_FLOATS))


def odd_labels(rng: random.Random, count: int) -> Any:
    """Labels, most often sound."""
    labels = torch.tensor([rng.randrange(CLASSES) for _ in range(count)], dtype=torch.int64)
    draw = rng.random()
    if draw < 0.6:
        return labels
    if draw < 0.75 and count:
        labels[rng.randrange(count)] = rng.choice((-1, -2, CLASSES, 2**31, 2**63 - 1, -(2**63)))
        return labels
    if draw < 0.9:
        return labels.to(rng.choice((*_ODD_TYPES, torch.float32, torch.int8, torch.int16)))
    return _odd_layout(rng, labels)


def wrong_loss(loss: Any, x: Any) -> str | None:
    """Why a loss of finite, ordinary embeddings is wrong: it must be finite, and so must its gradient."""
    if not isinstance(loss, Tensor) or loss.layout != torch.strided or loss.device.type == "meta":
        return (
            None if isinstance(loss, Tensor) and loss.device.type != "meta" else f"a loss that is no number: {loss!r}"
        )
    if loss.is_complex() or not loss.is_floating_point():
        return f"a loss of {loss.dtype}"
    if not bool(loss.isfinite().all()):
        largest = float(x.detach().double().abs().max()) if isinstance(x, Tensor) and x.numel() else 0.0
        return f"a loss of {loss!r:.80}" if largest < 1e15 else None
    return None


def call_forward(rng: random.Random, folder: Path) -> str | None:
    """`head(embeddings, labels)` for any head with odd tensors."""
    torch.manual_seed(0)
    name = rng.choice((*list_heads(), "contrastive", "triplet"))
    if name in ("contrastive", "triplet"):
        head: Any = create_loss(name)
    else:
        options: dict[str, Any] = {"class_counts": [3, 4, 5, 6, 7, 8]} if "class_counts" in _parameters(name) else {}
        head = create_head(
            name, dim=DIM, num_classes=CLASSES, engine=rng.choice(("dense", "chunked", "auto")), **options
        )
    x = odd_embeddings(rng)
    count = len(x) if isinstance(x, Tensor) and not x.is_nested and x.dim() and x.layout == torch.strided else 3
    labels = odd_labels(rng, rng.choice((count, count, count, count, count + 1)))
    grows = (
        isinstance(x, Tensor)
        and x.is_floating_point()
        and not x.is_nested
        and x.layout == torch.strided
        and x.device.type != "meta"
    )
    if grows:
        x = x.detach().requires_grad_()
    loss = head(x, labels)
    reason = wrong_loss(loss, x)
    if reason is None and grows and loss.requires_grad:
        loss.sum().backward()
        ordinary = x.numel() and 1e-3 < float(x.detach().double().abs().max()) < 1e3 and x.dtype in _FLOATS[:4]
        if ordinary and x.grad is not None and not bool(x.grad.isfinite().all()):
            reason = "a gradient that is not finite"
    return None if reason is None else f"{name}: {reason}"


_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 0.5, 1e-300, 1e308, -1e308, math.nan, math.inf, 10**30, 10**400, 2**63, True, False, None),
    *("", "x", "exact", "detached", [], [1], {}, (), b"x", 1j, "c", "a", "m", "all", "hardest"),
)


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(OBJECTIVES[name]).parameters)


def _odd_value(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return rng.choice(
            (torch.tensor(1.0), torch.tensor([math.nan]), np.float32(3), np.array([1, 2]), torch.randn(3, 4))
        )
    return rng.choice(_VALUES)


_COMMON = (
    *("prototypes", "prototype_norm", "renormalize", "engine", "chunk_size", "precision", "budget", "eps", "add"),
    *("sample", "unbiased", "unit_gradients", "reduction", "dtype", "device", "dim", "num_classes"),
)


def call_options(rng: random.Random, folder: Path) -> str | None:
    """`create_head` with odd options, and a sound batch where they are accepted."""
    torch.manual_seed(0)
    name = rng.choice(list_heads())
    known = [key for key in _parameters(name) if key not in ("dim", "num_classes")]
    options: dict[str, Any] = {"dim": DIM, "num_classes": CLASSES}
    if "class_counts" in known:
        options["class_counts"] = [3, 4, 5, 6, 7, 8]
    for _ in range(rng.choice((1, 1, 1, 2))):
        key = rng.choice((*known, *known, *_COMMON, "nonsense"))
        value = _odd_value(rng)
        if key in ("dim", "num_classes") and isinstance(value, int) and value > 10**4:
            value = -value  # a head of 10^30 classes is asked for, and not had
        options[key] = value
    head = create_head(name, **options)
    if (head.weight.shape[1], head.weight.device.type) != (DIM, "cpu"):
        return None
    x = torch.randn(3, DIM, generator=torch.Generator().manual_seed(1), requires_grad=True)
    loss = head(x, torch.tensor([0, 1, len(head.weight) - 1]))
    if not bool(loss.isfinite().all()):
        return f"{name} with {options!r:.150}: a loss of {loss!r:.80}"
    loss.sum().backward()
    if x.grad is not None and not bool(x.grad.isfinite().all()):
        return f"{name} with {options!r:.150}: a gradient that is not finite"
    return None


_ODD_ARGUMENTS = (
    *_NUMBERS[:-6],
    *_WORDS,
    "-1",
    "1e308",
    "cuda",
    "cuda:7",
    "mps",
    "-h",
    "--",
    "-",
    "--json",
    "-q",
    "-v",
)


def _commands(folder: Path) -> list[list[str]]:
    """Sound commands that take no time."""
    f = str(folder)
    return [
        ["advise", "--classes", "1000", "--dim", "64"],
        ["advise", "--dim", "64", "--counts", f"{f}/counts.txt", "--scale", "32", "--m2", "0.5"],
        ["data", "inspect", f"{f}/images"],
        ["data", "overlap", f"{f}/images", f"{f}/images"],
        ["data", "convert", f"{f}/images", f"{f}/made.tar"],
        ["evaluate", "pairs", "--embeddings", f"{f}/e.npy", "--names", f"{f}/names.txt", "--pairs", f"{f}/pairs.txt"],
        ["evaluate", "compare", f"{f}/a", f"{f}/b"],
        ["evaluate", "--list"],
        ["train", "--list"],
        ["train", f"{f}/missing.toml", "train.steps=0"],
        ["reproduce", "--list"],
        ["theory", "--list"],
        ["completion", "bash"],
        ["compare", f"{f}/recipe.toml", "--losses", "none"],
    ]


def call_command(rng: random.Random, folder: Path) -> str | None:
    """A command with a word or two replaced, added or taken away; its status is 0, 1 or 2, never a traceback."""
    if not (folder / "images").is_dir():
        make_folder(folder / "images", people=("Ada", "Bo"))
        write_lfw_list(folder / "pairs.txt")
        np.save(folder / "e.npy", np.eye(5, 3, dtype=np.float32))
        (folder / "names.txt").write_text("".join(f"Person_A/Person_A_{k:04d}.jpg\n" for k in range(5)))
        (folder / "counts.txt").write_text("5\n7\n9\n")
        (folder / "recipe.toml").write_text(RECIPE)
    words = rng.choice(_commands(folder))
    fixed = 2 if words[0] in ("data", "evaluate") else 1
    if words[0] in ("train", "compare"):
        fixed = len(words)
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(fixed, len(words) + 1)
        odd = rng.choice(_ODD_ARGUMENTS)
        words = rng.choice(([*words[:place], odd, *words[place:]], [*words[:place], odd, *words[place + 1 :]]))
    if rng.random() < 0.1:
        words = [words[0], *rng.sample(words[1:], len(words) - 1)]
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors), contextlib.chdir(folder):
        try:
            status: Any = main(words)
        except SystemExit as end:
            status = end.code
    (folder / "made.tar").unlink(missing_ok=True)
    (folder / "made.tar.index").unlink(missing_ok=True)
    if status not in (0, 1, 2, None):
        return f"{words!r:.200}: status {status!r}"
    if re.search(r"^Traceback ", errors.getvalue(), re.MULTILINE) and "-v" not in words and "--verbose" not in words:
        return f"{words!r:.200}: a traceback"
    return (
        None if status in (0, None) or errors.getvalue().strip() else f"{words!r:.200}: status {status} without a word"
    )


CALLS: list[Surface] = [
    CallSurface("heads, tensors", 1040, call_forward, "a finite loss of ordinary embeddings, or an error"),
    CallSurface("heads, options", 1040, call_options, "a finite loss of ordinary embeddings, or an error"),
    CallSurface("command line", 220, call_command, "status 0, 1 or 2 with a sentence"),
]
