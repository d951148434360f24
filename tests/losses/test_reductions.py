"""Losses that are special cases of one another agree, and the symmetries every loss must have."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from tests.losses import reference as ref

NUM_CLASSES, DIM, SCALE = 7, 4, 16.0
COUNTS = tuple(range(1, NUM_CLASSES + 1))
REQUIRED: dict[str, Any] = {name: {"class_counts": COUNTS} for name in ("ldam", "label_aware_smoothing")}
PROXY = [n for n in ref.HEADS if n not in ("center", "zero_centroid", "hyperspherical_energy")]
RAW = ("softmax", "label_smoothing", "label_aware_smoothing", "focal", "modified_softmax", "l_softmax", "sphereface")
COSINE = [n for n in PROXY if n not in RAW]


def batch(seed: int = 0, rows: int = 10, strangers: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = 1.7 * torch.randn(rows, DIM, generator=g, dtype=torch.float64)
    w = torch.randn(NUM_CLASSES, DIM, generator=g, dtype=torch.float64)
    y = torch.randint(0, NUM_CLASSES, (rows,), generator=g)
    if strangers:
        y[1::3] = -1
    return x, w, y


def run(name: str, x: Tensor, w: Tensor, y: Tensor, **keywords: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, gradient of the embeddings, gradient of the prototypes."""
    keywords = {**REQUIRED.get(name, {}), **keywords}
    head = hs.create_head(name, dim=w.shape[1], num_classes=len(w), **keywords).double()
    with torch.no_grad():
        head.weight.copy_(w)
        if name in ("softmax", "label_smoothing", "label_aware_smoothing", "focal") and head.objective.bias is not None:
            head.objective.bias.zero_()
    x = x.clone().requires_grad_()
    loss = head(x, y)
    loss.backward()
    assert x.grad is not None
    return loss.detach(), x.grad, head.weight.grad  # type: ignore[return-value]


def assert_same(one: tuple[Tensor, ...], other: tuple[Tensor, ...], tolerance: float = 1e-10) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= tolerance * b.abs().max()


FIXED: dict[str, Any] = {"scale": SCALE, "learnable_scale": False}
PAIRS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("arcface", {"scale": SCALE, "margin": 0.0}, "normface", FIXED),
    ("cosface", {"scale": SCALE, "margin": 0.0}, "normface", FIXED),
    ("unified", {"scale": SCALE}, "normface", FIXED),
    ("coco", {"scale": SCALE}, "normface", FIXED),
    ("sphereface_r", {"scale": SCALE, "margin": 1.0}, "normface", FIXED),
    ("sphereface_r", {"scale": SCALE, "margin": 1.0, "version": 2}, "normface", FIXED),
    *(
        (
            "sphereface_r",
            {"scale": SCALE, "margin": float(m), "version": 0, "margin_grad": grad},
            "sphereface",
            {"scale": SCALE, "margin": m, "anneal": None, "margin_grad": grad},
        )
        for m in (1, 2, 3, 4)
        for grad in ("exact", "detached")
    ),
    ("gm_softmax", {"scale": SCALE}, "normface", FIXED),
    (
        "ldam",
        {"scale": SCALE, "max_margin": 0.3, "class_counts": (5,) * NUM_CLASSES},
        "cosface",
        {"scale": SCALE, "margin": 0.3},
    ),
    ("unified", {"scale": SCALE, "m2": 0.5}, "arcface", {"scale": SCALE, "margin": 0.5}),
    ("unified", {"scale": SCALE, "m2": 0.5, "power": 2.0}, "arcface", {"scale": SCALE, "margin": 0.5, "power": 2.0}),
    ("unified", {"scale": SCALE, "m3": 0.35}, "cosface", {"scale": SCALE, "margin": 0.35}),
    ("unified", {"scale": SCALE, "m3": 0.2, "power": 2.0}, "cosface", {"scale": SCALE, "margin": 0.2, "power": 2.0}),
    ("unified", {"scale": SCALE, "power": 2.0}, "normface", {**FIXED, "power": 2.0}),
    ("unified", {"scale": SCALE, "m0": 0.35, "wrong_class_relu": True}, "ampface", {"scale": SCALE}),
    (
        "unified",
        {"scale": SCALE, "m0": 0.6},
        "ampface",
        {"scale": SCALE, "margin": 0.6, "wrong_class_relu": False},
    ),
    ("gm_softmax", {"scale": SCALE, "beta1": -0.35, "beta2": -0.35}, "cosface", {"scale": SCALE, "margin": 0.35}),
    ("sphereface", {"margin": 1, "anneal": None}, "modified_softmax", {}),
    ("sphereface", {"margin": 1}, "modified_softmax", {}),
    ("sphereface", {"margin": 1, "scale": SCALE, "anneal": None}, "normface", FIXED),
    ("l_softmax", {"margin": 1, "anneal": None}, "softmax", {"bias": False}),
    ("l_softmax", {"margin": 1}, "softmax", {"bias": False}),
    ("normface", {"normalize": "prototypes"}, "modified_softmax", {}),
    ("focal", {"gamma": 0.0, "bias": False}, "softmax", {"bias": False}),
    ("focal", {"gamma": 0.0}, "softmax", {}),
    ("softmax", {}, "softmax", {"bias": False}),
    ("label_smoothing", {"smoothing": 0.0}, "softmax", {}),
    ("label_aware_smoothing", {"head_smoothing": 0.0}, "softmax", {}),
    (
        "label_aware_smoothing",
        {"class_counts": (5,) * NUM_CLASSES, "head_smoothing": 0.2 * (NUM_CLASSES - 1) / NUM_CLASSES},
        "label_smoothing",
        {"smoothing": 0.2},
    ),
    ("cosface", {"scale": SCALE, "margin_steps": 3}, "normface", FIXED),
    ("arcface", {"scale": SCALE, "margin_steps": 3}, "normface", FIXED),
    ("ampface", {"scale": SCALE, "margin_steps": 3, "wrong_class_relu": False}, "normface", FIXED),
    ("unified", {"scale": SCALE, "m0": 0.5, "m1": 1.5, "m2": 0.3, "m3": 0.2, "margin_steps": 3}, "normface", FIXED),
]


@pytest.mark.parametrize(("one", "with_these", "other", "with_those"), PAIRS)
@pytest.mark.parametrize("strangers", [False, True])
def test_special_cases(
    one: str, with_these: dict[str, Any], other: str, with_those: dict[str, Any], strangers: bool
) -> None:
    x, w, y = batch(strangers=strangers)
    assert_same(run(one, x, w, y, **with_these), run(other, x, w, y, **with_those))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_label_smoothing_is_torchs(smoothing: float) -> None:
    x, w, y = batch(4, strangers=True)
    mine, theirs = (run("label_smoothing", x, w, y, smoothing=smoothing), x.clone().requires_grad_())
    prototypes = w.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(theirs @ prototypes.T, y, ignore_index=-1, label_smoothing=smoothing)
    loss.backward()
    assert theirs.grad is not None
    assert prototypes.grad is not None
    assert_same(mine, (loss.detach(), theirs.grad, prototypes.grad))


def test_multiplicative_margin_is_sphereface_r_below_pi_over_m() -> None:
    m1 = 1.5
    x, w, y = batch(1, rows=60)
    angle = torch.arccos(ref.cosines(x, w)[torch.arange(60), y])
    small = angle < math.pi / m1
    assert 10 < int(small.sum()) < 60
    these = run("unified", x[small], w, y[small], scale=SCALE, m1=m1)
    those = run("sphereface_r", x[small], w, y[small], scale=SCALE, margin=m1, margin_grad="exact")
    assert_same(these, those)
    these = run("unified", x[~small], w, y[~small], scale=SCALE, m1=m1)
    those = run("sphereface_r", x[~small], w, y[~small], scale=SCALE, margin=m1, margin_grad="exact")
    assert these[0] < those[0]  # past pi / m1 the unextended cosine turns back up


def test_sphereface_r_v0_is_v1_below_pi_over_m_and_still_falls_above() -> None:
    x, w, y = batch(1, rows=60)
    small = torch.arccos(ref.cosines(x, w)[torch.arange(60), y]) < math.pi / 1.5
    for grad in ("exact", "detached"):
        options: dict[str, Any] = {"scale": SCALE, "margin": 1.5, "margin_grad": grad}
        assert_same(*(run("sphereface_r", x[small], w, y[small], version=v, **options) for v in (0, 1)))  # type: ignore[arg-type]
        losses = [run("sphereface_r", x[~small], w, y[~small], version=v, **options)[0] for v in (0, 1)]
        assert losses[0] > losses[1]


def test_c_triplet_with_center_pulls_as_eq_11_while_all_hinges_are_active() -> None:
    x, w, y = batch(3, strangers=True)
    plain, centred = (run("c_triplet", x, w, y, margin=4.0, center=center) for center in (False, True))
    assert_same(plain[1:], centred[1:])
    squared = (2 - 2 * ref.cosines(x, w))[torch.arange(len(y)), y][y >= 0].mean()
    assert float(centred[0] - plain[0]) == pytest.approx(float((NUM_CLASSES - 1) * squared))


def test_c_triplet_with_center_pulls_once_per_hinge_where_none_is_active() -> None:
    w = torch.eye(NUM_CLASSES, dtype=torch.float64)
    x = w[:2] + 0.1 * w[2]
    loss, *grads = run("c_triplet", x, w, torch.tensor([0, 1]), margin=0.0, center=True)
    theirs, prototypes = x.clone().requires_grad_(), w.clone().requires_grad_()
    cosines = (ref.unit(theirs) * ref.unit(prototypes[:2])).sum(1)
    wanted = (NUM_CLASSES - 1) * (2 - 2 * cosines).mean()
    wanted.backward()
    assert theirs.grad is not None
    assert prototypes.grad is not None
    assert_same((loss, *grads), (wanted.detach(), theirs.grad, prototypes.grad))


def test_lm_softmax_is_the_limit_of_gm_softmax() -> None:
    x, w, y = batch(2)
    for s in (1.0, SCALE, 64.0):
        loss, dx, dw = run("lm_softmax", x, w, y, scale=s)
        assert_same(run("gm_softmax", x, w, y, scale=s, beta2=-1e4), (s * loss, s * dx, s * dw))


@pytest.mark.parametrize("bias", ["shared", "class", None])
def test_sphereface2_without_adjustment_is_equation_4(bias: str | None) -> None:
    x, w, y = batch(3)
    r, lam, m_p, m_n = 20.0, 0.8, 0.3, 0.15
    keywords = {"balance": lam, "scale": r, "margin": m_p, "negative_margin": m_n, "power": 1.0, "bias": bias}
    head = hs.create_head("sphereface2", dim=DIM, num_classes=NUM_CLASSES, **keywords).double()  # type: ignore[call-overload]
    with torch.no_grad():
        head.weight.copy_(w)
    b = 0.0 if bias is None else head.objective.bias.detach()
    cos = ref.cosines(x, w)
    positive = torch.zeros_like(cos, dtype=torch.bool)
    positive[torch.arange(len(y)), y] = True
    zero = torch.zeros(())
    wanted = torch.where(
        positive,
        lam / r * torch.logaddexp(zero, -r * (cos - m_p) - b),
        (1 - lam) / r * torch.logaddexp(zero, r * (cos + m_n) + b),
    )
    torch.testing.assert_close(head(x, y).detach(), wanted.sum(1).mean(), rtol=1e-12, atol=0.0)


def test_sphereface2_negative_margin_is_a_shift_of_the_bias() -> None:
    """Appendix F: with a learned bias, m on both sides is 2m on the positive side alone."""
    x, w, y = batch(4, strangers=True)
    r, m = 20.0, 0.3
    both, one_sided = (
        hs.create_head("sphereface2", dim=DIM, num_classes=NUM_CLASSES, scale=r, margin=p, negative_margin=n).double()
        for p, n in ((m, m), (2 * m, 0.0))
    )
    with torch.no_grad():
        both.weight.copy_(w)
        one_sided.weight.copy_(w)
        both.objective.bias.fill_(-3.0)
        one_sided.objective.bias.fill_(-3.0 + r * m)
    torch.testing.assert_close(both(x, y), one_sided(x, y), rtol=1e-12, atol=0.0)


# ------------------------------------------------------------------------------------------------------------- psi


def psi_of_head(margin: int, angles: Tensor) -> Tensor:
    """psi(a) from the public loss: two opposite prototypes in the plane, log(e^loss - 1) = s (cos_2 - psi)."""
    s = 4.0
    head = hs.create_head("sphereface", dim=2, num_classes=2, margin=margin, scale=s, anneal=None, eps=1e-30).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    values = []
    for a in angles:
        x = torch.stack([torch.cos(a), torch.sin(a)])[None]
        loss = head(x, torch.tensor([0])).detach()
        values.append(-torch.cos(a) - torch.log(torch.expm1(loss)) / s)
    return torch.stack(values)


@pytest.mark.parametrize("margin", [1, 2, 3, 4])
def test_psi_is_continuous_and_decreasing(margin: int) -> None:
    angles = torch.linspace(0, math.pi, 361, dtype=torch.float64)
    values = psi_of_head(margin, angles)
    steps = values[1:] - values[:-1]
    assert (steps < 0).all()
    assert (steps.abs() <= margin * (angles[1] - angles[0]) + 1e-9).all()  # |psi'(a)| <= m: no jump
    assert values[0] == pytest.approx(1.0)
    assert values[-1] == pytest.approx(1.0 - 2 * margin)
    wanted = torch.stack([ref.psi(a, margin) for a in angles])
    torch.testing.assert_close(values, wanted, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("margin", [2, 3, 4])
def test_psi_joins_smoothly_at_the_seams(margin: int) -> None:
    for k in range(1, margin):
        seam = k * math.pi / margin
        left, right = psi_of_head(margin, torch.tensor([seam - 1e-9, seam + 1e-9], dtype=torch.float64))
        assert abs(float(left - right)) < 1e-7
        assert float(left) == pytest.approx(1.0 - 2 * k, abs=1e-7)


# ------------------------------------------------------------------------------------------------------ symmetries


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", PROXY)
def test_permuting_the_classes_permutes_the_gradients(name: str, engine: str) -> None:
    x, w, y = batch(5, strangers=True)
    order = torch.randperm(NUM_CLASSES, generator=torch.Generator().manual_seed(0))
    place = torch.empty_like(order)
    place[order] = torch.arange(NUM_CLASSES)  # where each class went
    moved = torch.where(y >= 0, place[y], y)
    extra = REQUIRED.get(name, {})
    loss, dx, dw = run(name, x, w, y, engine=engine, **extra)
    extra = {"class_counts": tuple(COUNTS[int(i)] for i in order)} if extra else {}
    assert_same(run(name, x, w[order], moved, engine=engine, **extra), (loss, dx, dw[order]))


@pytest.mark.parametrize("name", COSINE)
def test_gradients_of_normalised_vectors_are_tangent(name: str) -> None:
    """NormFace section 3.2: <x, dL/dx> = 0, up to eps / |x|^2."""
    x, w, y = batch(6)
    _, dx, dw = run(name, x, w, y)
    assert dx.abs().max() > 0
    assert dw.abs().max() > 0
    for v, dv in ((x, dx), (w, dw)):
        assert ((v * dv).sum(1).abs() <= 1e-10 * v.norm(dim=1) * dv.norm(dim=1).max()).all()


@pytest.mark.parametrize("name", ["modified_softmax", "sphereface"])
def test_only_the_prototypes_gradient_is_tangent_where_only_they_are_normalised(name: str) -> None:
    x, w, y = batch(6)
    _, dx, dw = run(name, x, w, y)
    assert ((w * dw).sum(1).abs() <= 1e-10 * w.norm(dim=1) * dw.norm(dim=1).max()).all()
    assert ((x * dx).sum(1).abs() > 1e-6).any()


@pytest.mark.parametrize("name", COSINE)
def test_the_lengths_do_not_matter_where_both_are_normalised(name: str) -> None:
    x, w, y = batch(7)
    loss, dx, dw = run(name, x, w, y)
    assert_same(run(name, 3 * x, 0.5 * w, y), (loss, dx / 3, dw * 2), 1e-9)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", PROXY)
def test_strangers(name: str, engine: str) -> None:
    """Rows labelled -1 leave the mean and the gradient, but for the two losses that learn from them."""
    x, w, y = batch(8, strangers=True)
    known = y >= 0
    loss, dx, dw = run(name, x, w, y, engine=engine)
    without = run(name, x[known], w, y[known], engine=engine)
    if name in ref.COUNT_STRANGERS:
        assert (dx[~known].abs().sum(1) > 0).any()
        alone = run(name, x[~known], w, y[~known], engine=engine)
        share = known.double().mean()
        blend = [share * without[k] + (1 - share) * alone[k] for k in (0, 2)]
        assert_same((loss, dw), tuple(blend))
    else:
        assert (dx[~known] == 0).all()
        assert_same((loss, dx[known], dw), without)


def assert_zero_but_connected(loss: Tensor, *leaves: Tensor) -> None:
    assert float(loss.detach()) == 0.0
    loss.backward()
    for t in leaves:
        assert t.grad is not None
        assert (t.grad == 0).all()


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", [n for n in PROXY if n not in ref.COUNT_STRANGERS])
def test_only_strangers_give_zero(name: str, engine: str) -> None:
    x, _w, y = batch(9)
    head = hs.create_head(name, dim=DIM, num_classes=NUM_CLASSES, engine=engine, **REQUIRED.get(name, {})).double()
    x.requires_grad_()
    assert_zero_but_connected(head(x, torch.full_like(y, -1)), x, head.weight)


def test_a_stranger_under_sphereface2_is_the_sum_of_every_negative_term() -> None:
    x, w, _ = batch(10, rows=1)
    r, lam, m, t = 10.0, 0.7, 0.2, 2.0
    head = hs.create_head("sphereface2", dim=DIM, num_classes=NUM_CLASSES, balance=lam, scale=r, margin=m, power=t)
    head = head.double()
    with torch.no_grad():
        head.weight.copy_(w)
    b = float(head.objective.bias.detach())
    g = 2 * ((ref.cosines(x, w)[0] + 1) / 2) ** t - 1
    wanted = sum((1 - lam) / r * math.log1p(math.exp(r * (float(z) + m) + b)) for z in g)
    assert float(head(x, torch.tensor([-1])).detach()) == pytest.approx(wanted, rel=1e-12)
