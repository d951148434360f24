"""The losses of `hs.pml` against those of pytorch-metric-learning: values, gradients, training, states."""

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs

NUM_CLASSES, DIM = 7, 9
LOSSES = ["ArcFaceLoss", "CosFaceLoss", "NormalizedSoftmaxLoss", "SphereFaceLoss", "LargeMarginSoftmaxLoss"]
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in LOSSES),
    ("ArcFaceLoss", {"margin": 11.0, "scale": 8}),
    ("CosFaceLoss", {"margin": 0.1, "scale": 8}),
    ("NormalizedSoftmaxLoss", {"temperature": 0.5}),
    ("SphereFaceLoss", {"margin": 3, "scale": 2.5}),
    ("LargeMarginSoftmaxLoss", {"margin": 2, "scale": 0.5}),
]

numpy_1_binomials = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning")


@pytest.fixture
def peer() -> Any:
    return pytest.importorskip("pytorch_metric_learning.losses", reason="needs the extra hypersphere-learn[bench]")


def batch(rows: int = 12) -> tuple[Tensor, Tensor]:
    """Embeddings within 90 degrees of the prototypes that `made` draws: below their ArcFace's turning point."""
    g = torch.Generator().manual_seed(1)
    labels = torch.arange(rows) % NUM_CLASSES
    prototypes = torch.randn(DIM, NUM_CLASSES, generator=torch.Generator().manual_seed(0)).double().T
    return prototypes[labels] + 0.7 * torch.randn(rows, DIM, generator=g, dtype=torch.float64), labels


def made(losses: Any, name: str, options: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    return getattr(losses, name)(NUM_CLASSES, DIM, **options).double()


@numpy_1_binomials
@pytest.mark.parametrize(("name", "options"), CASES)
def test_values_and_gradients_are_theirs(peer: Any, name: str, options: dict[str, Any]) -> None:
    x, labels = batch()
    ours, theirs = made(hs.pml, name, options), made(peer, name, options)
    assert torch.equal(ours.W, theirs.W)
    outcomes = []
    for loss in (ours, theirs):
        rows = x.clone().requires_grad_()
        value = loss(rows, labels)
        value.backward()
        weight = loss.W.grad if loss is theirs else loss.head.weight.grad.T
        outcomes.append((value.detach(), rows.grad, weight, loss.get_logits(x).detach()))
    torch.testing.assert_close(*outcomes, rtol=1e-9, atol=1e-10)


@numpy_1_binomials
@pytest.mark.parametrize("name", LOSSES)
def test_the_constructor_is_theirs(peer: Any, name: str) -> None:
    own = inspect.signature(getattr(hs.pml, name)).parameters
    default = getattr(peer, name)(NUM_CLASSES, DIM)
    assert list(own)[:2] == ["num_classes", "embedding_size"]
    for key in ("margin", "scale", "temperature"):
        if key in own:
            expected = 28.6 if (name, key) == ("ArcFaceLoss", "margin") else getattr(default, key)
            assert own[key].default == expected


def test_training_with_one_seed_is_theirs(peer: Any) -> None:
    x, labels = batch()
    trained = []
    for losses in (hs.pml, peer):
        loss = made(losses, "ArcFaceLoss", {"scale": 8})
        net = nn.Linear(DIM, DIM, dtype=torch.float64)
        optimizer = torch.optim.SGD([*net.parameters(), *loss.parameters()], lr=0.1, momentum=0.9)
        for _ in range(20):
            optimizer.zero_grad()
            value = loss(net(x), labels)
            value.backward()
            optimizer.step()
        trained.append((value.detach(), net.weight.detach(), loss.W.detach()))
    torch.testing.assert_close(*trained, rtol=1e-9, atol=1e-9)


@numpy_1_binomials
@pytest.mark.parametrize("name", LOSSES)
def test_a_state_of_theirs_is_loaded(peer: Any, name: str) -> None:
    theirs, ours = made(peer, name, {}), getattr(hs.pml, name)(NUM_CLASSES, DIM).double()
    state = nn.ModuleDict({"loss": theirs}).state_dict()
    nn.ModuleDict({"loss": ours}).load_state_dict(state)
    assert torch.equal(ours.W, theirs.W)
    again = getattr(hs.pml, name)(NUM_CLASSES, DIM).double()
    again.load_state_dict(copy.deepcopy(ours.state_dict()))
    assert torch.equal(again.W, theirs.W)


def test_a_state_of_another_shape_is_refused() -> None:
    with pytest.raises(RuntimeError, match="size mismatch for head.weight"):
        hs.pml.CosFaceLoss(NUM_CLASSES, DIM).load_state_dict({"W": torch.zeros(NUM_CLASSES, DIM)})


@pytest.mark.parametrize(
    "keyword",
    [
        "reducer", "distance", "weight_regularizer", "weight_reg_weight", "embedding_regularizer",
        "embedding_reg_weight", "weight_init_func", "collect_stats",
    ],
)  # fmt: skip
def test_a_keyword_of_theirs_that_is_not_taken(keyword: str) -> None:
    with pytest.raises(ValueError, match=f"{keyword} of pytorch-metric-learning is not taken here; instead: "):
        hs.pml.ArcFaceLoss(NUM_CLASSES, DIM, **{keyword: None})  # type: ignore[arg-type]


def test_bad_input_is_named() -> None:
    x, labels = batch()
    loss = hs.pml.CosFaceLoss(NUM_CLASSES, DIM)
    with pytest.raises(ValueError, match="indices_tuple must be None"):
        loss(x, labels, (labels, labels, labels))
    with pytest.raises(ValueError, match="margin=120 must lie between 0 and 90: it is in degrees"):
        hs.pml.ArcFaceLoss(NUM_CLASSES, DIM, margin=120)
    with pytest.raises(ValueError, match="temperature"):
        hs.pml.NormalizedSoftmaxLoss(NUM_CLASSES, DIM, temperature=0)
    with pytest.raises(ValueError, match="scale"):
        hs.pml.SphereFaceLoss(NUM_CLASSES, DIM, scale=-1)
    with pytest.raises(ValueError, match="no option 'marginn'"):
        hs.pml.CosFaceLoss(NUM_CLASSES, DIM, marginn=0.2)


def test_options_of_a_head_are_taken() -> None:
    x, labels = batch()
    loss = hs.pml.ArcFaceLoss(NUM_CLASSES, DIM, engine="chunked", chunk_size=2, reduction="none").double()
    rows = loss(x, labels.to(torch.int32))
    assert rows.shape == labels.shape
    torch.testing.assert_close(rows.mean(), hs.pml.ClassificationLoss.forward(_mean_of(loss), x, labels))
    fixed = hs.pml.CosFaceLoss(NUM_CLASSES, DIM, prototypes="simplex")
    assert not list(fixed.parameters())


def _mean_of(loss: nn.Module) -> Any:
    mean = copy.deepcopy(loss)
    mean.head.reduction = "mean"
    return mean


def test_a_name_that_is_absent_says_which_is_near() -> None:
    with pytest.raises(AttributeError, match=r"no 'ArcfaceLoss'; did you mean 'ArcFaceLoss'\?.* miners and distances"):
        getattr(hs.pml, "ArcfaceLoss")  # noqa: B009
