"""Every objective in every floating type at the edges: poles, zero vectors, huge and tiny norms, nobody known."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from tests.losses import reference as ref
from tests.pairwise import pairwise

NUM_CLASSES, DIM, ROWS = 6, 4, 5
ALONE = [n for n in ref.HEADS if n not in ("center", "zero_centroid", "hyperspherical_energy")]
OBJECTIVES: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in ALONE],
    ("softmax", {"bias": False}),
    ("label_smoothing", {"bias": False, "smoothing": 0.9}),
    ("label_aware_smoothing", {"bias": False, "head_smoothing": 0.9, "tail_smoothing": 0.4}),
    ("normface", {"normalize": "embeddings"}),
    ("normface", {"normalize": "prototypes"}),
    ("normface", {"power": 0.5}),
    ("l_softmax", {"anneal": None}),
    ("l_softmax", {"anneal": None, "margin": 3, "margin_grad": "detached"}),
    ("sphereface", {"anneal": None}),
    ("sphereface", {"anneal": None, "scale": 64.0}),
    ("sphereface", {"anneal": None, "margin_grad": "detached"}),
    ("sphereface_r", {"margin_grad": "exact", "margin": 1.7}),
    ("sphereface_r", {"version": 0}),
    ("sphereface_r", {"version": 0, "margin_grad": "exact", "margin": 2.7}),
    ("sphereface_r", {"version": 2}),
    ("sphereface_r", {"version": 2, "margin_grad": "exact"}),
    ("cosface", {"power": 0.5}),
    ("cosface", {"power": 3.0}),
    ("arcface", {"margin_grad": "detached"}),
    ("arcface", {"power": 0.5}),
    ("ampface", {"wrong_class_relu": False}),
    ("unified", {"m0": 0.8, "m1": 1.3, "m2": 0.2, "m3": 0.1, "power": 0.7}),
    ("unified", {"m1": 1.35, "wrong_class_relu": True, "margin_grad": "detached"}),
    ("cosface", {"margin_steps": 2}),
    ("arcface", {"margin_steps": 5}),
    ("ampface", {"margin_steps": 5, "margin_grad": "detached"}),
    ("unified", {"m0": 0.8, "m1": 1.3, "m2": 0.2, "m3": 0.1, "margin_steps": 5}),
    ("focal", {"gamma": 0.5}),
    ("focal", {"gamma": 0.0}),
    ("gm_softmax", {"beta2": -1e4}),
    ("sphereface2", {"margin_type": "a", "margin_grad": "exact"}),
    ("sphereface2", {"margin_type": "m", "margin_grad": "exact"}),
    ("sphereface2", {"margin_type": "m"}),
    ("sphereface2", {"bias": "class", "power": 0.5}),
    ("sphereface2", {"bias": None, "adjustment_grad": "detached"}),
    ("c_triplet", {"negatives": "hardest", "center": True}),
    ("c_triplet", {"center": True}),
    ("sample_margin", {"form": "mean"}),
    ("softmax", {"add": {"center": {"weight": 0.1}, "zero_centroid": {}}}),
    ("normface", {"add": {"center": {"normalize": True}, "hyperspherical_energy": {}, "sample_margin": {}}}),
]
SCALED = [
    name for name in ALONE
    if name not in (
        "softmax", "label_smoothing", "label_aware_smoothing", "modified_softmax", "focal", "l_softmax",
        "c_contrastive", "c_triplet", "sample_margin",
    )
]  # fmt: skip
PAIR_LOSSES: list[tuple[str, dict[str, Any]]] = [
    ("contrastive", {}),
    ("contrastive", {"distance": "euclidean"}),
    *[("triplet", {"mining": mining}) for mining in ("all", "semihard", "hard")],
]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EXTREMES = ["on", "opposite", "zero", "two classes", "strangers", "1e4", "1e18", "1e-20"]


def representable(_: Any, dtype: torch.dtype, extreme: str) -> bool:
    """float16 ends at 65504."""
    return dtype != torch.float16 or extreme != "1e18"


def called(value: Any) -> str:
    if isinstance(value, tuple):
        name, keywords = value
        return f"{name}({', '.join(f'{key}={one}' for key, one in keywords.items())})"
    return str(value).removeprefix("torch.")


def required(name: str, num_classes: int) -> dict[str, Any]:
    counted = name in ("ldam", "label_aware_smoothing")
    return {"class_counts": [3 + 10 * c for c in range(num_classes)]} if counted else {}


def make(name: str, num_classes: int = NUM_CLASSES, dim: int = DIM, **keywords: Any) -> hs.Head:
    torch.manual_seed(0)
    return hs.create_head(name, dim=dim, num_classes=num_classes, **required(name, num_classes), **keywords)


def situation(extreme: str, head: hs.Head) -> tuple[Tensor, Tensor]:
    """float64 embeddings and labels for this head's prototypes."""
    g = torch.Generator().manual_seed(1)
    num_classes, dim = head.weight.shape
    y = torch.arange(ROWS) % num_classes
    own = head.weight.detach().double()[y]
    x = torch.randn(ROWS, dim, generator=g, dtype=torch.float64)
    if extreme == "on":
        return own, y
    if extreme == "opposite":
        return -own, y
    if extreme == "zero":
        return torch.zeros_like(x), y
    if extreme == "strangers":
        return x, torch.full_like(y, -1)
    if extreme.startswith("1e"):
        return float(extreme) * x / x.norm(dim=1, keepdim=True), y
    return x, y


def check(head: hs.Head, x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    dtypes = {name: p.dtype for name, p in head.named_parameters()}
    embeddings = x.to(dtype).requires_grad_()
    loss = head(embeddings, y)
    loss.backward()
    assert loss.shape == ()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.isfinite(loss)
    assert embeddings.grad is not None
    assert embeddings.grad.dtype == dtype
    assert torch.isfinite(embeddings.grad).all()
    for name, parameter in head.named_parameters():
        assert parameter.dtype == dtypes[name] == torch.float32, name
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == torch.float32, name
        assert torch.isfinite(parameter.grad).all(), name
    return loss.detach()


def outcome(head: hs.Head, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    embeddings = x.clone().requires_grad_()
    loss = head(embeddings, y)
    loss.backward()
    assert embeddings.grad is not None
    assert head.weight.grad is not None
    return loss.detach(), embeddings.grad, head.weight.grad


def assert_same(one: tuple[Tensor, ...], other: tuple[Tensor, ...], tolerance: float = 1e-9) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        if a.numel():
            assert (a - b).abs().max() <= tolerance * b.abs().max()


@pytest.mark.parametrize(
    ("objective", "dtype", "extreme"), pairwise(OBJECTIVES, DTYPES, EXTREMES, allowed=representable, name=called)
)
def test_finite(objective: tuple[str, dict[str, Any]], dtype: torch.dtype, extreme: str) -> None:
    name, keywords = objective
    head = make(name, 2 if extreme == "two classes" else NUM_CLASSES, **keywords)
    x, y = situation(extreme, head)
    loss = check(head, x, y, dtype)
    if extreme == "strangers" and name not in ref.COUNT_STRANGERS and "add" not in keywords:
        assert loss == 0


@pytest.mark.parametrize(
    ("name", "dtype", "engine", "extreme"),
    pairwise(SCALED, DTYPES, ["dense", "chunked"], ["on", "opposite", "random"], name=called),
)
def test_scale_1000(name: str, dtype: torch.dtype, engine: str, extreme: str) -> None:
    head = make(name, engine=engine, scale=1000.0)
    x, y = situation(extreme, head)
    check(head, x, y, dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "extreme", "steps"),
    pairwise(
        ["cosface", "arcface", "ampface", "unified"], DTYPES, ["on", "opposite", "random"], [0, 1, 2], name=called
    ),
)
def test_scale_1000_while_the_margins_grow(name: str, dtype: torch.dtype, extreme: str, steps: int) -> None:
    more: dict[str, Any] = {"m0": 0.8, "m1": 1.3, "m2": 0.2, "m3": 0.1} if name == "unified" else {}
    head = make(name, scale=1000.0, margin_steps=2, **more)
    for _ in range(steps):
        head.advance()
    x, y = situation(extreme, head)
    check(head, x, y, dtype)


@pytest.mark.parametrize("name", ["label_smoothing", "label_aware_smoothing"])
def test_smoothing_stays_exact_where_the_loss_is_large_or_small(name: str) -> None:
    """Logits of thousands, in float32: cross-entropy by its definition, in float64."""
    head = make(name, 2)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 2, 0, 0], [-1, 0.5, 0, 0]]))
    x, y = torch.tensor([[3e3, 1e3, 0, 0], [-4e3, 1e3, 0, 0], [1e-3, 0, 0, 0]]), torch.tensor([0, 0, 1])
    loss = head(x, y)
    keywords: dict[str, Any] = {**required(name, 2), "b": head.objective.bias.detach().double()}
    wanted = ref.HEADS[name](x.double(), head.weight.detach().double(), y, **keywords)
    assert float(loss.detach()) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_half_precision_embeddings_are_widened_first(name: str, keywords: dict[str, Any]) -> None:
    """The loss of a float16 batch is the float32 loss of the same numbers, to the last bit."""
    head = make(name, **keywords).eval()
    x, y = situation("random", head)
    half = x.half()
    assert torch.equal(head(half, y), head(half.float(), y))


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_autocast_does_not_reach_the_loss(name: str, keywords: dict[str, Any]) -> None:
    head = make(name, **keywords).eval()
    x, y = situation("random", head)
    x = x.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = head(x, y)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, head(x, y))


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_float32_is_close_to_float64(name: str, keywords: dict[str, Any]) -> None:
    head = make(name, **keywords).eval()
    x, y = situation("random", head)
    x = x.float()
    narrow = float(head(x, y).detach())
    wide = float(head.double()(x.double(), y).detach())
    assert narrow == pytest.approx(wide, rel=2e-5, abs=2e-6)


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_poles_keep_the_linear_slopes(power: float) -> None:
    """At cos = 1 a loss that never leaves the cosine still pulls: CosFace's derivative is s g'(1) = s t there."""
    head = make("cosface", scale=4.0, margin=0.5, power=power).double()
    x = head.weight.detach()[:1].clone().requires_grad_()
    head(x, torch.tensor([0])).backward()
    assert float(x.grad.norm()) > 1e-3


@pytest.mark.parametrize("extreme", ["on", "opposite"])
@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_engines_agree_at_the_poles(name: str, keywords: dict[str, Any], extreme: str) -> None:
    one, other = (make(name, engine=engine, **keywords).double() for engine in ("dense", "chunked"))
    x, y = situation(extreme, one)
    # 1 - cos is about eps there: the angle's derivative magnifies the last bit of cos by 1 / sqrt(eps)
    assert_same(outcome(one, x, y), outcome(other, x, y), 1e-6)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_one_dimension_is_finite(name: str, keywords: dict[str, Any], engine: str) -> None:
    head = make(name, 2, 1, engine=engine, **keywords)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[0.7], [-1.2]]))
    check(head, torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64), torch.tensor([0, 1, 1]), torch.float32)


# ------------------------------------------------------------------------------------------------------- being a module


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_backward_is_linear_in_what_comes_in(name: str, keywords: dict[str, Any], engine: str) -> None:
    """A loss scaled by 1000 (a weight, an AMP scale) has 1000 times the gradients, whoever asks for them."""
    head = make(name, engine=engine, **keywords).double().eval()
    x, y = situation("random", head)
    _, dx, dw = outcome(head, x, y)
    head.zero_grad()
    embeddings = x.clone().requires_grad_()
    (1000 * head(embeddings, y)).backward()
    assert_same((embeddings.grad, head.weight.grad), (1000 * dx, 1000 * dw))  # type: ignore[arg-type]
    head.zero_grad()
    head(x, y).backward()  # embeddings that need no gradient
    assert_same((head.weight.grad,), (dw,))  # type: ignore[arg-type]
    head.requires_grad_(False)
    embeddings = x.clone().requires_grad_()
    head(embeddings, y).backward()  # a frozen head
    assert_same((embeddings.grad,), (dx,))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_memory_layout_does_not_matter(name: str, keywords: dict[str, Any]) -> None:
    head = make(name, **keywords).double().eval()
    x, y = situation("random", head)
    wanted = outcome(head, x, y)
    head.zero_grad()
    strided = x.t().contiguous().t()
    assert not strided.is_contiguous()
    assert_same(outcome(head, strided, torch.stack([y, y], 1)[:, 0]), wanted)


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_evaluation_changes_nothing(name: str, keywords: dict[str, Any]) -> None:
    head = make(name, **keywords).eval()
    before = {k: v.clone() for k, v in head.state_dict().items()}
    x, y = situation("random", head)
    first = head(x.float(), y)
    assert torch.equal(first, head(x.float(), y))
    assert all(torch.equal(v, before[k]) for k, v in head.state_dict().items())


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_state_dict_brings_the_loss_back(name: str, keywords: dict[str, Any]) -> None:
    one = make(name, **keywords)
    x, y = situation("random", one)
    for _ in range(3):
        one(x.float(), y)
        one.advance()
    with torch.no_grad():
        for p in one.parameters():
            p.add_(0.1)
    torch.manual_seed(5)
    other = hs.create_head(name, dim=DIM, num_classes=NUM_CLASSES, **required(name, NUM_CLASSES), **keywords)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.eval()(x.float(), y), other.eval()(x.float(), y))


@pytest.mark.parametrize(("name", "keywords"), OBJECTIVES)
def test_low_precision_prototypes_stay_low(name: str, keywords: dict[str, Any]) -> None:
    head = make(name, **keywords).bfloat16().eval()  # in training, centres and running means would move
    x, y = situation("random", head)
    embeddings = x.bfloat16().requires_grad_()
    loss = head(embeddings, y)
    loss.backward()
    assert loss.dtype == torch.float32
    assert head.weight.dtype == head.weight.grad.dtype == torch.bfloat16
    wide = make(name, **keywords)
    wide.load_state_dict(head.state_dict())
    wanted = wide.eval()(x.bfloat16().float(), y)
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3])
def test_equal_negatives_go_to_the_lowest_class(chunk_size: int | None) -> None:
    engine = "dense" if chunk_size is None else "chunked"
    for name, keywords in (("sample_margin", {}), ("c_triplet", {"negatives": "hardest", "margin": 3.0})):
        head = make(name, engine=engine, chunk_size=chunk_size, **keywords)  # type: ignore[arg-type]
        with torch.no_grad():
            head.weight.copy_(torch.tensor([[-1.0, 0, 0, 0]] * NUM_CLASSES))
            head.weight[[1, 2, 4]] = torch.tensor([0.6, 0.8, 0.0, 0.0])
            head.weight[5] = torch.tensor([1.0, 0.2, 0.0, 0.0])
        head(torch.tensor([[1.0, 0.5, 0.2, 0.0]]), torch.tensor([5])).backward()
        touched = head.weight.grad.abs().sum(1) > 0
        assert touched.tolist() == [False, True, False, False, False, True]


def test_curricular_t_survives_a_batch_of_strangers() -> None:
    head = make("curricularface", momentum=0.5)
    x, y = situation("random", head)
    head(x.float(), y)
    before = head.objective.t.clone()
    assert before != 0
    head(x.float(), torch.full_like(y, -1))
    assert torch.equal(head.objective.get_buffer("t"), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=lambda d: str(d)[6:])
def test_curricular_t_arrives_whatever_the_type_of_the_head(dtype: torch.dtype) -> None:
    """A moving average kept in half precision would stop short of the mean it follows."""
    head = make("curricularface").to(dtype)
    x, y = situation("on", head)
    x = (x + 0.3).to(dtype)
    wanted = ref.cosines(x.double(), head.weight.detach().double())[torch.arange(ROWS), y].mean()
    with torch.no_grad():
        for _ in range(700):
            head(x, y)
    assert float(head.objective.get_buffer("t")) == pytest.approx(float(wanted), abs=1e-3)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", ["sphereface2", "arcface", "lm_softmax"])
def test_many_classes_in_float16(name: str, engine: str) -> None:
    """360232 classes: nothing is summed, weighted or scaled in float16."""
    head = make(name, 360_232, 2, engine=engine)
    x = torch.tensor([[0.3, -0.7], [0.1, 0.2]], dtype=torch.float64)
    check(head, x, torch.tensor([5, 360_231]), torch.float16)


@pytest.mark.parametrize("name", ["arcface", "softmax", "sphereface2", "center", "sample_margin"])
def test_bad_input_is_named(name: str) -> None:
    head = make(name)
    x, y = torch.randn(3, DIM), torch.tensor([0, 1, 2])
    bad = [
        (x[0], y),
        (x[:, :-1], y),
        (x, y[:2]),
        (x, y[None]),
        (x, torch.tensor([0, 1, NUM_CLASSES])),
        (x, torch.tensor([0, 1, -2])),
        (torch.where(torch.arange(DIM) == 1, float("nan"), x), y),
        (torch.where(torch.arange(DIM) == 1, float("inf"), x), y),
    ]
    for embeddings, labels in bad:
        with pytest.raises(ValueError, match="embeddings|label"):
            head(embeddings, labels)


# ------------------------------------------------------------------------------------------------------ pair losses


@pytest.mark.parametrize(
    ("objective", "dtype", "extreme"),
    pairwise(PAIR_LOSSES, DTYPES, ["same", *EXTREMES[1:3], *EXTREMES[4:]], allowed=representable, name=called),
)
def test_pair_losses_are_finite(objective: tuple[str, dict[str, Any]], dtype: torch.dtype, extreme: str) -> None:
    name, keywords = objective
    x = torch.randn(6, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([0, 0, 1, 1, 2, 0])
    if extreme == "same":
        x = x[:1].repeat(6, 1)
    elif extreme == "opposite":
        x = x[:1] * torch.tensor([[1.0], [-1], [1], [-1], [1], [-1]])
    elif extreme == "zero":
        x = torch.zeros_like(x)
    elif extreme == "strangers":
        y = torch.full_like(y, -1)
    else:
        x = float(extreme) * x / x.norm(dim=1, keepdim=True)
    embeddings = x.to(dtype).requires_grad_()
    loss = hs.create_loss(name, **keywords)(embeddings, y)
    loss.backward()
    assert torch.isfinite(loss)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert embeddings.grad is not None
    assert torch.isfinite(embeddings.grad).all()


# ------------------------------------------------------------------------------------------------------- properties


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int, int, list[int], int]:
    num_classes = draw(st.integers(2, 6))
    dim = draw(st.integers(2, 5))
    labels = draw(st.lists(st.integers(-1, num_classes - 1), max_size=5))
    return num_classes, dim, draw(st.integers(1, 8)), labels, draw(st.integers(0, 10**6))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(batch=batches(), objective=st.sampled_from(OBJECTIVES))
def test_dense_equals_chunked(
    batch: tuple[int, int, int, list[int], int], objective: tuple[str, dict[str, Any]]
) -> None:
    num_classes, dim, chunk_size, labels, seed = batch
    name, keywords = objective
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(len(labels), dim, generator=g, dtype=torch.float64)
    y = torch.tensor(labels, dtype=torch.long)
    dense = make(name, num_classes, dim, engine="dense", **keywords).double()
    chunked = make(name, num_classes, dim, engine="chunked", chunk_size=chunk_size, **keywords).double()
    try:
        one = outcome(dense, x, y)
    except ValueError:
        assert not labels, "only an empty batch may be refused"
        with pytest.raises(ValueError, match=r"\w"):
            chunked(x, y)
        return
    assert_same(outcome(chunked, x, y), one)
    assert all(torch.isfinite(v).all() for v in one)
    if not labels and "add" not in keywords:
        assert one[0] == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(batch=batches(), objective=st.sampled_from([o for o in OBJECTIVES if "add" not in o[1]]))
def test_the_order_of_the_rows_does_not_matter(
    batch: tuple[int, int, int, list[int], int], objective: tuple[str, dict[str, Any]]
) -> None:
    num_classes, dim, _, labels, seed = batch
    name, keywords = objective
    if not labels:
        labels = [0]
    x = torch.randn(len(labels), dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y = torch.tensor(labels)
    loss, dx, dw = outcome(make(name, num_classes, dim, **keywords).double(), x, y)
    flipped = outcome(make(name, num_classes, dim, **keywords).double(), x.flip(0), y.flip(0))
    assert_same(flipped, (loss, dx.flip(0), dw))
