"""The fused engine on a CUDA device, against the dense one in float64."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.engines import Precision, reduce
from tests.engines.rounding import rounding_dense

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
LIMITS = {"bfloat16": 8e-3, "float16": 1e-3, "tf32": 2e-3, "float32": 1e-4}
LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "arcface": ("arcface", {}),
    "adjusted": ("cosface", {"power": 2.5}),
    "relu": ("ampface", {}),
    "modulated": ("curricularface", {}),
    "circle": ("circle", {}),
    "learned scale": ("normface", {}),
    "fixed scale": ("normface", {"scale": 30.0, "learnable_scale": False}),
    "detached": ("arcface", {"margin_grad": "detached"}),
    "binary without bias": ("sphereface2", {"bias": "none", "adjustment_grad": "detached"}),
    "inner products": ("softmax", {}),
    "binary": ("sphereface2", {}),
    "class bias": ("sphereface2", {"bias": "class"}),
    "mean": ("sample_margin", {"form": "mean"}),
    "max": ("sample_margin", {}),
    "hinge": ("c_contrastive", {}),
    "rows": ("c_triplet", {"margin": 1.5}),
}


def gradients(head: nn.Module, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
    x = x.detach().requires_grad_()
    loss = head(x, labels)
    leaves = {"x": x, **dict(head.named_parameters())}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {"loss": loss.detach(), **{k: v for k, v in zip(leaves, grads, strict=True) if v is not None}}


@pytest.mark.parametrize("size", [(33, 97, 16), (200, 5003, 512)])
@pytest.mark.parametrize("precision", ["bfloat16", "float16", "tf32", "float32"])
@pytest.mark.parametrize("case", LOSSES)
def test_losses(case: str, precision: Precision, size: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    name, options = LOSSES[case]
    rows, classes, dim = size
    torch.manual_seed(0)
    w = torch.randn(classes, dim, device="cuda")
    labels = torch.randint(-1, classes, (rows,), device="cuda")
    labels[:3] = torch.tensor([5, 5, -1])
    x = nn.functional.normalize(w[labels.clamp(min=0)]) + 1.2 * nn.functional.normalize(
        torch.randn(rows, dim, device="cuda")
    )
    reference = hs.create_head(name, dim=dim, num_classes=classes, engine="dense", device="cuda", **options).double()
    with torch.no_grad():
        reference.weight.copy_(w)
    monkeypatch.setattr(reduce, "reduce_dense", rounding_dense(precision, interpreted=False))
    expected = gradients(reference.eval(), x.double(), labels)
    for budget in (None, 2 * rows * 300):
        fused: dict[str, Any] = {"engine": "triton", "precision": precision, "budget": budget}
        head = hs.create_head(name, dim=dim, num_classes=classes, device="cuda", **fused, **options).eval()
        head.load_state_dict(reference.state_dict())
        ours, again = gradients(head, x, labels), gradients(head, x, labels)
        for key, value in expected.items():
            assert torch.equal(ours[key], again[key]), f"{key} is not deterministic"
            if case != "max" or precision == "float32":
                error = float((ours[key].double() - value).norm() / value.norm())
                assert error <= LIMITS[precision], key


def test_auto_is_fused_where_products_may_be_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    real = reduce.fused_loss  # type: ignore[attr-defined]
    monkeypatch.setattr(reduce, "fused_loss", lambda *args: ran.append(args[0].options.precision) or real(*args))  # type: ignore[func-returns-value]
    head = hs.create_head("arcface", dim=16, num_classes=100, device="cuda")
    x, labels = torch.randn(8, 16, device="cuda"), torch.arange(8, device="cuda")
    head(x, labels)
    assert ran == []
    with torch.autocast("cuda", dtype=torch.bfloat16):
        head(x, labels)
    head(x.half(), labels)
    assert ran == ["bfloat16", "float16"]


def test_a_million_classes_without_their_scores() -> None:
    rows, classes, dim = 256, 1_000_000, 128
    head = hs.create_head("arcface", dim=dim, num_classes=classes, precision="bfloat16", budget=2**26, device="cuda")
    x = torch.randn(rows, dim, device="cuda", requires_grad=True)
    labels = torch.randint(classes, (rows,), device="cuda")
    torch.mm(x, x.detach().T)  # cuBLAS takes its workspace, 32 MiB, at its first product
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    head(x, labels).backward()
    beyond = torch.cuda.max_memory_allocated() - before - head.weight.nbytes * 3 // 2
    assert beyond < 2**27 + 2**22, "the budget, and as much for the product that waits for its normalisation"


def test_offsets_beyond_31_bits() -> None:
    """C d > 2^31, and N C > 2^31."""
    rows, classes, dim = 512, 4_300_000, 512
    head = hs.create_head("cosface", dim=dim, num_classes=classes, precision="bfloat16", engine="triton", device="cuda")
    x = torch.randn(rows, dim, device="cuda", requires_grad=True)
    labels = torch.randint(classes - 1000, classes, (rows,), device="cuda")
    loss = head(x, labels)
    grad_x, grad_w = torch.autograd.grad(loss, (x, head.weight))
    tail = head.weight[-2000:].detach().clone().requires_grad_()
    sums = torch.stack([
        torch.logsumexp(64 * hs.geometry.normalize(x.detach()) @ hs.geometry.normalize(part).T, 1)
        for part in head.weight.detach().split(100_000)
    ])  # fmt: skip
    cosines = hs.geometry.normalize(x.detach()) @ hs.geometry.normalize(tail).T
    scores = 64 * cosines
    own = (labels - (classes - 2000))[:, None]
    everything = torch.logsumexp(sums, 0)
    target = scores.gather(1, own)[:, 0] - 64 * 0.35
    others = everything + torch.log1p(-torch.exp(scores.gather(1, own)[:, 0] - everything))
    expected = torch.nn.functional.softplus(others - target).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-3, atol=1e-3)
    assert bool(grad_x.isfinite().all())
    probability = torch.exp(scores.detach() - torch.logaddexp(others, target).detach()[:, None])
    probability.scatter_(1, own, torch.exp(target - torch.logaddexp(others, target)).detach()[:, None] - 1)
    (expected_w,) = torch.autograd.grad((64 / rows * probability * cosines).sum(), tail)
    error = (grad_w[-2000:] - expected_w).norm() / expected_w.norm()
    assert float(error) < 2e-2
