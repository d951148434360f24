"""Agreement with pytorch-metric-learning, value and gradients, and where it departs from the papers."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs

peer = pytest.importorskip("pytorch_metric_learning.losses", reason="needs the extra hypersphere-learn[bench]")
distances = pytest.importorskip("pytorch_metric_learning.distances")
miners = pytest.importorskip("pytorch_metric_learning.miners")
reducers = pytest.importorskip("pytorch_metric_learning.reducers")

NUM_CLASSES, DIM, MARGIN, SCALE = 6, 8, 0.5, 16.0
ANGLES = (0.05, 0.4, 0.9, 1.3, 1.7, 2.1, 2.4, 2.6, 1.0)  # to the own prototype: every segment of psi, below pi - MARGIN
BEYOND = (2.7, 2.9, 3.1)  # pi - MARGIN to pi
DTYPES = [torch.float32, torch.float64]
SQUARED = {"power": 2}

numpy_1_binomials = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning")

Outcome = tuple[Tensor, Tensor, Tensor]


def batch(dtype: torch.dtype, angles: tuple[float, ...] = ANGLES) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings at given angles to their prototypes, labels and prototypes, all of various lengths."""
    g = torch.Generator().manual_seed(3)
    prototypes = torch.randn(NUM_CLASSES, DIM, generator=g, dtype=torch.float64)
    labels = torch.arange(len(angles)) % NUM_CLASSES
    own = nn.functional.normalize(prototypes[labels])
    away = torch.randn(len(angles), DIM, generator=g, dtype=torch.float64)
    away = nn.functional.normalize(away - (away * own).sum(1, keepdim=True) * own)
    angle = torch.tensor(angles, dtype=torch.float64)[:, None]
    lengths = torch.rand(len(angles), 1, generator=g, dtype=torch.float64) * 2 + 0.5
    return (lengths * (angle.cos() * own + angle.sin() * away)).to(dtype), labels, prototypes.to(dtype)


def outcome(loss: nn.Module, weight: Tensor, prototypes: Tensor, x: Tensor, labels: Tensor) -> Outcome:
    """The value and the gradients of embeddings and prototypes, with these prototypes."""
    with torch.no_grad():
        weight.copy_(prototypes)
    x = x.clone().requires_grad_()
    value = loss(x, labels)
    return value.detach(), *torch.autograd.grad(value, (x, weight))


def ours(name: str, data: tuple[Tensor, Tensor, Tensor], **options: Any) -> Outcome:
    x, labels, prototypes = data
    classes, dim = prototypes.shape
    head = hs.create_head(name, dim=dim, num_classes=classes, dtype=x.dtype, **options)
    return outcome(head, head.weight, prototypes, x, labels)


def theirs(name: str, data: tuple[Tensor, Tensor, Tensor], **options: Any) -> Outcome:
    """As `ours`: their weight is (dim, num_classes)."""
    x, labels, prototypes = data
    classes, dim = prototypes.shape
    loss = getattr(peer, name)(num_classes=classes, embedding_size=dim, **options).to(x.dtype)
    value, grad_x, grad_weight = outcome(loss, loss.W, prototypes.T, x, labels)
    return value, grad_x, grad_weight.T


def pair_outcome(loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The value and the gradient of the embeddings."""
    x = x.clone().requires_grad_()
    value = loss(x, labels)
    return value.detach(), *torch.autograd.grad(value, x)  # type: ignore[return-value]


def assert_same(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> None:
    tight = left[0].dtype == torch.float64
    torch.testing.assert_close(left, right, rtol=1e-9 if tight else 1e-4, atol=1e-10 if tight else 2e-5)


def triplets(margin: float, **options: Any) -> nn.Module:
    return peer.TripletMarginLoss(margin=margin, distance=distances.LpDistance(**SQUARED), **options)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arcface_below_the_turning_point(dtype: torch.dtype, engine: str) -> None:
    data = batch(dtype)
    expected = theirs("ArcFaceLoss", data, margin=math.degrees(MARGIN), scale=SCALE)
    assert_same(ours("arcface", data, margin=MARGIN, scale=SCALE, engine=engine), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cosface(dtype: torch.dtype) -> None:
    data = batch(dtype, ANGLES + BEYOND)
    assert_same(ours("cosface", data, margin=0.35, scale=SCALE), theirs("CosFaceLoss", data, margin=0.35, scale=SCALE))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "options"), [("coco", {}), ("normface", {"learnable_scale": False})])
def test_normalized_softmax_at_one_over_the_scale(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    data = batch(dtype, ANGLES + BEYOND)
    assert_same(ours(name, data, scale=SCALE, **options), theirs("NormalizedSoftmaxLoss", data, temperature=1 / SCALE))


@numpy_1_binomials
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("margin", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("name", "peer_name"), [("sphereface", "SphereFaceLoss"), ("l_softmax", "LargeMarginSoftmaxLoss")]
)
def test_psi_without_annealing(name: str, peer_name: str, margin: int, dtype: torch.dtype) -> None:
    data = batch(dtype, ANGLES + BEYOND)
    assert_same(ours(name, data, margin=margin, anneal=None), theirs(peer_name, data, margin=margin, scale=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_contrastive_over_all_pairs(dtype: torch.dtype) -> None:
    x, labels, _ = batch(dtype)
    loss = peer.ContrastiveLoss(
        neg_margin=1.5, distance=distances.LpDistance(**SQUARED), reducer=reducers.DoNothingReducer()
    )

    def mean_over_pairs(x: Tensor, labels: Tensor) -> Tensor:
        parts = loss(x, labels)
        return torch.cat([parts[part]["losses"] for part in ("pos_loss", "neg_loss")]).mean()

    assert_same(
        pair_outcome(hs.create_loss("contrastive", margin=1.5), x, labels), pair_outcome(mean_over_pairs, x, labels)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_contrastive_adds_two_means(dtype: torch.dtype) -> None:
    x = batch(dtype)[0][:4]
    labels = torch.tensor([0, 0, 0, 1])  # three pairs of each kind
    loss = peer.ContrastiveLoss(
        neg_margin=1.5, distance=distances.LpDistance(**SQUARED), reducer=reducers.MeanReducer()
    )
    value, grad = pair_outcome(hs.create_loss("contrastive", margin=1.5), x, labels)
    assert_same((2 * value, 2 * grad), pair_outcome(loss, x, labels))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_triplets_all(dtype: torch.dtype) -> None:
    x, labels, _ = batch(dtype)
    loss = triplets(0.4, reducer=reducers.MeanReducer())
    assert_same(
        pair_outcome(hs.create_loss("triplet", margin=0.4, mining="all"), x, labels), pair_outcome(loss, x, labels)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_triplets_hard(dtype: torch.dtype) -> None:
    x, labels, _ = batch(dtype)
    loss, miner = triplets(0.4, reducer=reducers.MeanReducer()), miners.BatchHardMiner()
    assert_same(
        pair_outcome(hs.create_loss("triplet", margin=0.4, mining="hard"), x, labels),
        pair_outcome(lambda x, labels: loss(x, labels, miner(x, labels)), x, labels),
    )


def test_triplets_of_theirs_leave_out_the_satisfied() -> None:
    x, labels, _ = batch(torch.float64)
    value, _ = pair_outcome(hs.create_loss("triplet", margin=0.4, mining="all"), x, labels)
    over_violating, _ = pair_outcome(triplets(0.4), x, labels)
    parts = triplets(0.4, reducer=reducers.DoNothingReducer())(x, labels)["loss"]["losses"]
    share = (parts > 0).double().mean()
    assert 0 < share < 1
    torch.testing.assert_close(value, share * over_violating)


@pytest.mark.parametrize("angle", BEYOND)
def test_arcface_of_theirs_leaves_the_paper_beyond_the_turning_point(angle: float) -> None:
    data = batch(torch.float64, (angle,))
    x, labels, prototypes = data
    cosines = nn.functional.normalize(x) @ nn.functional.normalize(prototypes).T

    def entropy(target: float) -> Tensor:
        logits = cosines.clone()
        logits[0, 0] = target
        return nn.functional.cross_entropy(SCALE * logits, labels)

    paper, other = math.cos(angle + MARGIN), math.cos(angle) - MARGIN * math.sin(MARGIN)
    value = ours("arcface", data, margin=MARGIN, scale=SCALE)[0]
    torch.testing.assert_close(value, entropy(paper))
    value_of_theirs = theirs("ArcFaceLoss", data, margin=math.degrees(MARGIN), scale=SCALE)[0]
    torch.testing.assert_close(value_of_theirs, entropy(other))
    assert value_of_theirs - value > 1


def test_arcface_of_theirs_jumps_at_the_turning_point() -> None:
    loss = peer.ArcFaceLoss(num_classes=NUM_CLASSES, embedding_size=DIM, margin=math.degrees(MARGIN))
    turn = math.pi - MARGIN
    before, after = loss.modify_cosine_of_target_classes(
        torch.tensor([math.cos(turn - 1e-6), math.cos(turn + 1e-6)], dtype=torch.float64)
    )
    assert before == pytest.approx(-1, abs=1e-6)
    assert after == pytest.approx(-math.cos(MARGIN) - MARGIN * math.sin(MARGIN), abs=1e-5)
    assert before - after > 0.1


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arcface_of_theirs_has_nan_gradients_at_the_poles(dtype: torch.dtype, sign: float) -> None:
    axes = torch.eye(NUM_CLASSES, DIM, dtype=dtype)
    data = (sign * axes[:2], torch.tensor([0, 1]), axes)
    value, *gradients = ours("arcface", data, margin=MARGIN, scale=SCALE)
    value_of_theirs, *gradients_of_theirs = theirs("ArcFaceLoss", data, margin=math.degrees(MARGIN), scale=SCALE)
    assert value.isfinite()
    assert value_of_theirs.isfinite()
    assert all(grad.isfinite().all() for grad in gradients)
    assert all(grad.isnan().any() for grad in gradients_of_theirs)


@numpy_1_binomials
@pytest.mark.parametrize("name", ["SphereFaceLoss", "LargeMarginSoftmaxLoss"])
def test_psi_at_the_poles(name: str) -> None:
    axes = torch.eye(NUM_CLASSES, DIM, dtype=torch.float64)
    own = "sphereface" if name == "SphereFaceLoss" else "l_softmax"
    data = (torch.cat([axes[:2], -axes[:2]]), torch.tensor([0, 1, 0, 1]), axes)
    assert_same(ours(own, data, margin=4, anneal=None), theirs(name, data, margin=4, scale=1))


@pytest.mark.parametrize(("name", "own"), [("ArcFaceLoss", "arcface"), ("NormalizedSoftmaxLoss", "coco")])
def test_theirs_rewrites_the_dtype_of_its_weight(name: str, own: str) -> None:
    x, labels, _ = batch(torch.bfloat16)
    loss = getattr(peer, name)(num_classes=NUM_CLASSES, embedding_size=DIM)
    head = hs.create_head(own, dim=DIM, num_classes=NUM_CLASSES)
    assert loss.W.dtype == head.weight.dtype == torch.float32
    for module in (loss, head):
        module(x, labels).backward()
    assert loss.W.dtype == loss.W.grad.dtype == torch.bfloat16
    assert head.weight.dtype == head.weight.grad.dtype == torch.float32
