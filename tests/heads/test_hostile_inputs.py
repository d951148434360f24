"""Tensors and options that a head cannot compute with: a ValueError that names them, or finite numbers."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.losses import OBJECTIVES

EXTREMES = (1e308, 1e30, 1e12, -1e308, -1e12, 1e-308, 1e-12, 0.0, -1.0, 2**63, 10**400, math.nan, math.inf)


def _strange(x: Tensor, y: Tensor) -> dict[str, tuple[Tensor, Tensor, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "sparse": (x.to_sparse(), y, "embeddings must be a dense tensor"),
            "rows": (x.to_sparse_csr(), y, "embeddings must be a dense tensor"),
            "nested": (torch.nested.nested_tensor([x[0], x[1]]), y, "embeddings must be a dense tensor"),
            "float8": (x.to(torch.float8_e4m3fn), y, "embeddings .* of 16, 32 or 64 bits"),
            "other float8": (x.to(torch.float8_e5m2), y, "embeddings .* of 16, 32 or 64 bits"),
            "complex": (x.to(torch.complex64), y, "embeddings must be a floating tensor"),
            "meta": (x.to("meta"), y.to("meta"), "embeddings are on the device meta"),
            "sparse labels": (x, y.to_sparse(), "labels must be a dense tensor"),
            "meta labels": (x, y.to("meta"), "labels are on the device meta"),
            "complex labels": (x, y.to(torch.complex64), "labels must be a tensor of integers"),
        }


@pytest.mark.parametrize("loss", ["arcface", "sphereface2", "contrastive"])
@pytest.mark.parametrize("kind", list(_strange(torch.ones(8, 4), torch.arange(8))))
def test_strange_tensors_are_named(loss: str, kind: str) -> None:
    x, y, message = _strange(torch.ones(8, 4), torch.arange(8) % 5)[kind]
    head = hs.create_head(loss, dim=4, num_classes=5)
    with pytest.raises(ValueError, match=message):
        head(x, y)
    if message.startswith("embeddings"):
        for look in (head.cosines, head.logits, head.predict):
            with pytest.raises(ValueError, match=message):
                look(x)


@pytest.mark.parametrize("strange", [torch.ones(5, 4).to_sparse(), torch.ones(5, 4, device="meta")])
def test_strange_prototypes_are_named(strange: Tensor) -> None:
    with pytest.raises(ValueError, match="prototypes"):
        hs.create_head("arcface", dim=4, num_classes=5, prototypes=strange)
    for dtype in (torch.complex64, torch.float8_e4m3fn):
        with pytest.raises(ValueError, match="prototypes must be a floating tensor"):
            hs.create_head("arcface", dim=4, num_classes=5, prototypes=torch.ones(5, 4).to(dtype))


def _outcome(name: str, options: dict[str, Any]) -> str:
    """`refused`, or `finite`: anything else is a failure of the test."""
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    more: dict[str, Any] = {"class_counts": [5, 4, 3, 2, 1]} if name in ("ldam", "label_aware_smoothing") else {}
    try:
        torch.manual_seed(1)
        head = hs.create_head(name, dim=4, num_classes=5, **options, **more)
    except ValueError as error:
        assert any(option in str(error) for option in (*options, name)), error  # noqa: PT017
        return "refused"
    loss = head(x, torch.arange(8) % 5)
    loss.backward()
    grads = [x.grad, *(each.grad for each in head.parameters())]
    finite = all(bool(grad.isfinite().all()) for grad in grads if grad is not None)
    assert math.isfinite(loss.item()), f"{name}({options}) is {loss.item()}"
    assert finite, f"{name}({options}) has gradients that are not finite"
    return "finite"


def _options(name: str) -> list[str]:
    taken = inspect.signature(OBJECTIVES[name].__init__).parameters.values()
    return [
        each.name for each in taken if type(each.default) in (int, float) and each.name not in ("dim", "num_classes")
    ]


@pytest.mark.parametrize("name", sorted(OBJECTIVES.names()))
def test_extreme_options_are_refused_or_stay_finite(name: str) -> None:
    options = _options(name)
    found = {_outcome(name, {option: value}) for option in options for value in EXTREMES}
    assert not options or "refused" in found
    for one, other in itertools.combinations(options, 2):
        for pair in ((1e12, 1e12), (1e12, 1e-30), (1e-30, 1e12)):
            _outcome(name, dict(zip((one, other), pair, strict=True)))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dtype": 5}, "dtype=5 must be a floating torch.dtype"),
        ({"dtype": torch.int64}, "dtype=torch.int64 must be a floating torch.dtype"),
        ({"device": {}}, "device=.* cannot be used"),
        ({"device": "nowhere"}, "device='nowhere' cannot be used"),
        ({"device": "cpu:-1"}, "device='cpu:-1' cannot be used"),
        ({"eps": 1e308}, "eps=1e[+]308 must be between 0 and 1"),
        ({"renormalize": torch.ones(2)}, "renormalize=.* must be True or False"),
        ({"unbiased": 1}, "unbiased=1 must be True or False"),
        ({"unit_gradients": "yes"}, "unit_gradients='yes' must be True or False"),
        ({"learnable_scale": torch.ones(2)}, "learnable_scale=.* must be True or False"),
        ({"add": torch.ones(2)}, "add=.* must map names of losses"),
    ],
    ids=str,
)
def test_options_of_other_kinds_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        hs.create_head("normface", dim=4, num_classes=6, **options)


def test_counts_that_are_no_numbers_and_embeddings_without_width_are_named() -> None:
    with pytest.raises(ValueError, match="class_counts='abcdef' must be numbers"):
        hs.create_head("ldam", dim=4, num_classes=6, class_counts="abcdef")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="margin=tensor.* must be one number"):
        hs.create_head("l_softmax", dim=4, num_classes=6, margin=torch.ones(2))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"embeddings have shape \(3, 0\)"):
        hs.create_loss("triplet")(torch.ones(3, 0), torch.arange(3))
