"""Products of bfloat16 factors in the chunked engine, where the CPU has them and somebody asked."""

from functools import partial

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere import engines
from hypersphere.engines import EngineOptions, reduce

N, C, D = 40, 300, 64


@pytest.fixture(autouse=True)
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce, "multiplies_bfloat16", lambda device: device.type == "cpu")


def gradients(name: str, **options: object) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    head = hs.create_head(name, dim=D, num_classes=C, chunk_size=77, **options).eval()  # type: ignore[call-overload]
    with torch.no_grad():
        head.weight.copy_(torch.randn(C, D, generator=generator))
    labels = torch.randint(-1, C, (N,), generator=generator)
    near = head.weight.detach()[labels.clamp(min=0)] + 0.8 * torch.randn(N, D, generator=generator)
    x = near.to(head.weight.dtype).requires_grad_()
    loss = head(x, labels)
    grads = torch.autograd.grad(loss, [x, head.weight])
    return {"loss": loss.detach(), "x": grads[0], "weight": grads[1]}


@pytest.mark.parametrize(
    "name", ["normface", "arcface", "curricularface", "circle", "sphereface2", "c_contrastive", "lm_softmax", "ampface"]
)
def test_rounded_products_are_near_the_exact_ones(name: str) -> None:
    exact, rounded = gradients(name, engine="chunked"), gradients(name, engine="chunked", precision="bfloat16")
    for key, value in exact.items():
        gap = float((rounded[key] - value).norm() / value.norm())
        assert gap < 2e-2, key
    assert not torch.equal(exact["weight"], rounded["weight"]), "nothing was rounded"


def test_the_target_and_a_maximum_stay_exact() -> None:
    w, x = torch.randn(C, D), torch.randn(N, D)
    labels = torch.randint(0, C, (N,))
    options = partial(EngineOptions, engine="chunked", chunk_size=50)
    for kind in ("logsumexp", "max"):
        reduction = engines.Reduction(kind, normalize_embeddings=True)
        exact, rounded = (
            engines.reduce_negatives(x, w, labels, reduction, options=options(precision=precision))
            for precision in ("float32", "bfloat16")
        )
        torch.testing.assert_close(rounded.target, exact.target, rtol=1e-6, atol=1e-6)
        assert torch.equal(rounded.value, exact.value) == (kind == "max")


def test_nothing_is_rounded_that_nobody_asked_for() -> None:
    exact = gradients("arcface", engine="chunked")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(gradients("arcface", engine="chunked", precision="float32")["weight"], exact["weight"])
    wide = gradients("arcface", engine="chunked", precision="bfloat16", dtype=torch.float64)
    again = gradients("arcface", engine="chunked", dtype=torch.float64)
    assert torch.equal(wide["weight"], again["weight"])
