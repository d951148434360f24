"""Numbers and statements the papers print about their losses, measured on the library's heads."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor

import hypersphere as hs
from tests.losses import reference as ref


def simplex(k: int) -> Tensor:
    """k unit vectors in R^k whose cosines are all -1 / (k - 1)."""
    points = torch.eye(k, dtype=torch.float64) - 1.0 / k
    return points / points.norm(dim=1, keepdim=True)


def sphere(rows: int, dim: int, seed: int) -> Tensor:
    points = torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return points / points.norm(dim=1, keepdim=True)


def head_at(name: str, w: Tensor, **keywords: Any) -> hs.Head:
    head = hs.create_head(name, dim=w.shape[1], num_classes=len(w), **keywords).double()
    with torch.no_grad():
        head.weight.copy_(w)
    return head


def value(head: hs.Head, x: Tensor, y: Tensor) -> float:
    return float(head(x, y).detach())


# -------------------------------------------------------------------------------------------------------- NormFace


def normface_bound(n: int, squared_norm: float) -> float:
    return math.log1p((n - 1) * math.exp(-n / (n - 1) * squared_norm))


def test_normface_bound_for_casia() -> None:
    """Section 3.3: 10575 classes at norm 1 cannot go below 8.27; they start at about 9.27."""
    assert normface_bound(10575, 1.0) == pytest.approx(8.27, abs=0.005)
    assert math.log(10575) == pytest.approx(9.27, abs=0.005)


@pytest.mark.parametrize("n", [2, 3, 10, 40])
@pytest.mark.parametrize("squared_norm", [1.0, 10.0, 30.0])
def test_normface_bound_is_attained_at_the_simplex(n: int, squared_norm: float) -> None:
    w = simplex(n)
    head = head_at("normface", w, scale=squared_norm, learnable_scale=False)
    assert value(head, w, torch.arange(n)) == pytest.approx(normface_bound(n, squared_norm), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_normface_bound_holds_for_well_separated_samples(seed: int) -> None:
    """Proposition 2: every sample at its class's weight, wherever the weights are."""
    n = 9
    w = sphere(n, 6, seed)
    for squared_norm in (1.0, 10.0, 30.0):
        head = head_at("normface", w, scale=squared_norm, learnable_scale=False)
        assert value(head, w, torch.arange(n)) > normface_bound(n, squared_norm)


@pytest.mark.parametrize(("n", "probability"), [(10, 0.45), (1000, 0.007)])
def test_the_best_probability_at_norm_one(n: int, probability: float) -> None:
    """Section 3.3: 0.45 for 10 classes and 0.007 for 1000, all other classes on the other side of the sphere."""
    x = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    w = x.repeat(n, 1) * -1.0
    w[3] = x[0]
    head = head_at("normface", w, scale=1.0, learnable_scale=False)
    p = math.exp(-value(head, x, torch.tensor([3])))
    assert p == pytest.approx(math.e / (math.e + (n - 1) / math.e), rel=1e-9)
    assert round(p, len(str(probability)) - 2) == probability


@pytest.mark.parametrize("seed", range(10))
def test_larger_features_are_more_certain(seed: int) -> None:
    """Proposition 1, without a bias."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(6, 3, generator=g, dtype=torch.float64)
    f = torch.randn(1, 3, generator=g, dtype=torch.float64)
    best = (f @ w.T).argmax(1)
    head = head_at("softmax", w, bias=False)
    losses = [value(head, s * f, best) for s in (1.0, 1.01, 2.0, 10.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[-1]


def test_a_bias_breaks_proposition_1() -> None:
    """Section 3.1: it does not hold if a bias term is added."""
    head = head_at("softmax", torch.tensor([[0.0, 0.0], [0.5, 0.0]], dtype=torch.float64))
    with torch.no_grad():
        head.objective.bias.copy_(torch.tensor([1.0, 0.0]))
    f = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    y = torch.tensor([0])
    assert value(head, f, y) < math.log(2)  # class 0 is the one predicted
    assert value(head, 1.5 * f, y) > value(head, f, y)


def test_squared_distance_form_of_the_softmax() -> None:
    """Eq. 9: the same loss from -s/2 times the squared distances of the unit vectors."""
    x, w = sphere(6, 4, 0), sphere(5, 4, 1)
    y = torch.tensor([0, 1, 2, 3, 4, 0])
    s = 12.0
    logits = -s / 2 * torch.cdist(x, w) ** 2
    wanted = torch.nn.functional.cross_entropy(logits, y)
    head = head_at("normface", w, scale=s, learnable_scale=False)
    assert value(head, x, y) == pytest.approx(float(wanted), rel=1e-9)


# ------------------------------------------------------------------------------------------------------ SphereFace


def plane(angle: float) -> Tensor:
    return torch.tensor([[math.cos(angle), math.sin(angle)]], dtype=torch.float64)


def boundary(margin: int, between: float, label: int, low: float, high: float) -> float:
    """Where a feature of this class in the plane has equal logits: its loss is log 2."""
    w = torch.cat([plane(0.0), plane(between)])
    head = head_at("sphereface", w, margin=margin, scale=5.0, anneal=None)
    gap: Callable[[float], float] = lambda a: value(head, plane(a), torch.tensor([label])) - math.log(2)  # noqa: E731
    return float(brentq(gap, low, high, xtol=1e-14))


@pytest.mark.parametrize("margin", [1, 2, 3, 4])
@pytest.mark.parametrize("between", [0.4, 1.0, 1.5])
def test_angular_margin_of_sphereface(margin: int, between: float) -> None:
    """Section 3.2: the decision boundaries leave an angular margin of (m - 1) / (m + 1) of the classes' angle."""
    first = boundary(margin, between, 0, 0.0, between)
    second = boundary(margin, between, 1, 0.0, between)
    assert first == pytest.approx(between / (margin + 1), abs=1e-9)
    assert second - first == pytest.approx((margin - 1) / (margin + 1) * between, abs=1e-9)


@pytest.mark.parametrize("margin", [2, 3, 4])
def test_the_span_of_a_class(margin: int) -> None:
    """Property 2's proof: a class spans theta / (m - 1) + theta / (m + 1) in the plane of two prototypes."""
    between = 1.0
    outer = boundary(margin, between, 0, -2.0, 0.0)
    inner = boundary(margin, between, 0, 0.0, between)
    assert inner - outer == pytest.approx(between / (margin - 1) + between / (margin + 1), abs=1e-9)


def test_smallest_useful_margins() -> None:
    """Properties 2 and 3: 2 + sqrt 3 with two classes (eqs. 8 and 9), 3 with more (eq. 10)."""
    eq8 = brentq(lambda m: 1 / (m - 1) + 1 / (m + 1) - (m - 1) / (m + 1), 2.0, 10.0)
    eq9 = brentq(lambda m: 2 * math.pi / (m + 1) - (m - 1) / (m + 1) * (m - 1) / m * math.pi, 2.0, 10.0)
    eq10 = brentq(lambda m: 2 / (m + 1) - (m - 1) / (m + 1), 1.5, 10.0)
    assert eq8 == pytest.approx(2 + math.sqrt(3))
    assert eq9 == pytest.approx(2 + math.sqrt(3))
    assert eq10 == pytest.approx(3.0)


def test_released_annealing_reaches_its_minimum_at_iteration_1659() -> None:
    """Appendix G decays lambda to 5; the released schedule is there after 1659 steps."""
    w = torch.cat([plane(0.0), plane(1.0)])
    head = head_at("sphereface", w)
    x, y = plane(0.6), torch.tensor([0])

    def blend() -> float:
        """lambda from the loss: log(e^loss - 1) = cos_2 - (lambda cos_1 + psi) / (1 + lambda)."""
        target = math.cos(0.4) - math.log(math.expm1(value(head, x, y)))
        psi = -math.cos(4 * 0.6) - 2 if math.pi / 4 < 0.6 else math.cos(4 * 0.6)
        return (target - psi) / (math.cos(0.6) - target)

    assert blend() == pytest.approx(1000.0, rel=1e-6)
    for _ in range(1658):
        head.advance()
    assert blend() > 5.001
    head.advance()
    assert blend() == pytest.approx(5.0, abs=1e-3)
    for _ in range(100):
        head.advance()
    assert blend() == pytest.approx(5.0, rel=1e-9)


# ------------------------------------------------------------------------------------------------- largest margins


@pytest.mark.parametrize("k", [2, 3, 5, 12])
def test_largest_sample_margin(k: int) -> None:
    """Proposition 2.3: k / (k - 1), at the simplex with every sample on its prototype."""
    w = simplex(k)
    labels = torch.arange(k)
    head = head_at("sample_margin", w)
    assert value(head, w, labels) == pytest.approx(-k / (k - 1), rel=1e-9)
    for seed in range(5):
        other = head_at("sample_margin", sphere(k, k, seed))
        assert value(other, sphere(k, k, seed + 50), labels) > -k / (k - 1)


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 6])
def test_minimising_the_sample_margin_risk_finds_the_simplex(k: int) -> None:
    """Theorem 3.4, by descent on the smooth form (its bound is the same)."""
    w = sphere(k, k, 1).requires_grad_()
    z = sphere(k, k, 2).requires_grad_()
    head = head_at("lm_softmax", w.detach(), scale=20.0)
    optimizer = torch.optim.Adam([z, head.weight], lr=0.02)
    for _ in range(1500):
        optimizer.zero_grad()
        head(z, torch.arange(k)).backward()
        optimizer.step()
    cos = ref.cosines(head.weight.detach(), head.weight.detach())
    off = cos[~torch.eye(k, dtype=torch.bool)]
    assert (off + 1 / (k - 1)).abs().max() < 0.02
    own = ref.cosines(z.detach(), head.weight.detach()).diagonal()
    assert (own > 0.999).all()


GM = [
    {"scale": 3.0, "alpha1": 1.0, "beta1": 0.0, "alpha2": 1.0, "beta2": 0.0},
    {"scale": 8.0, "alpha1": 0.9, "beta1": -0.2, "alpha2": 0.3, "beta2": 0.1},
    {"scale": 5.0, "alpha1": 0.5, "beta1": 0.4, "alpha2": -0.5, "beta2": -0.3},
]


def gm_bound(k: int, *, scale: float, alpha1: float, beta1: float, alpha2: float, beta2: float) -> float:
    """Theorem 3.2 with the sign of its own proof's last line (tests/test_errata.py has the printed one)."""
    first = math.exp(scale * (alpha2 - alpha1 + beta2 - beta1))
    return math.log(first + (k - 1) * math.exp(-scale * (1 / (k - 1) + alpha1 + beta1)))


@pytest.mark.parametrize("k", [2, 4, 9])
@pytest.mark.parametrize("numbers", GM)
def test_gm_risk_bound(k: int, numbers: dict[str, Any]) -> None:
    """Theorem 3.2: attained at the simplex, and nowhere undercut, also with samples away from their prototypes."""
    labels = torch.arange(k)
    bound = gm_bound(k, **numbers)
    w = simplex(k)
    assert value(head_at("gm_softmax", w, **numbers), w, labels) == pytest.approx(bound, rel=1e-9, abs=1e-12)
    for seed in range(8):
        head = head_at("gm_softmax", sphere(k, k, seed), **numbers)
        assert value(head, sphere(k, k, seed + 100), labels) > bound
        assert value(head, head.weight.detach(), labels) > bound


def test_lm_softmax_keeps_pulling_where_the_softmax_has_stopped() -> None:
    """Section 3.1: without exp(s w_y z) in the denominator the target's pull stays 1 however easy the sample."""
    w = simplex(4)
    gradients = {}
    for name, extra in (("lm_softmax", {}), ("normface", {"learnable_scale": False})):
        head = head_at(name, w, scale=64.0, **extra)
        x = (w[:1] + 0.3 * w[1:2]).requires_grad_()
        head(x, torch.tensor([0])).backward()
        gradients[name] = float(x.grad.norm())
    assert gradients["lm_softmax"] > 0.1
    assert gradients["normface"] < 1e-10


# --------------------------------------------------------------------------------------------------------- AmpFace


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_polar_collapse(engine: str, dtype: torch.dtype) -> None:
    """AmpFace Table 3 uses the wrong-class ReLU because all prototypes at -x is nearly free without it."""
    num_classes, s, m0 = 85_742, 64.0, 0.35
    x = torch.tensor([[0.3, -1.1, 0.7, 2.0]], dtype=dtype)
    y = torch.tensor([4321])

    def collapsed(name: str, **keywords: Any) -> float:
        head = hs.create_head(name, dim=4, num_classes=num_classes, engine=engine, **{**keywords, "scale": s}).to(dtype)
        with torch.no_grad():
            head.weight.copy_(-x.expand(num_classes, 4))
        return value(head, x, y)

    log_others = math.log(num_classes - 1)
    free = math.log1p(math.exp(log_others - s + s * m0))
    tolerance = 1e-3 if dtype == torch.float32 else 1e-8
    assert free < 1e-10
    assert collapsed("unified", m0=m0) == pytest.approx(free, rel=tolerance, abs=0.0)
    assert collapsed("ampface", margin=m0, wrong_class_relu=False) < 1e-10
    assert collapsed("unified", m0=m0, wrong_class_relu=True) == pytest.approx(log_others + s * m0, rel=1e-5)
    assert collapsed("ampface", margin=m0) > 30
    assert collapsed("unified", m1=1.35) < 1e-10  # an unextended cos(m1 a) collapses too
    assert collapsed("unified", m1=1.35, wrong_class_relu=True) > 30
    assert collapsed("unified", m2=0.5) > 3
    assert collapsed("unified", m3=0.5) > 40


@pytest.mark.parametrize(("m2", "m3"), [(0.6, 0.0), (0.0, 0.5)])
def test_additive_margins_do_not_collapse(m2: float, m3: float) -> None:
    """Appendix B's best additive margins: the collapsed state costs more than the simplex."""
    w = simplex(6)
    labels = torch.arange(6)
    good = value(head_at("unified", w, scale=16.0, m2=m2, m3=m3), w, labels)
    pole = w[:1].expand(6, 6)
    collapsed = value(head_at("unified", -pole, scale=16.0, m2=m2, m3=m3), pole, labels)
    assert collapsed > 10 * good


# ----------------------------------------------------------------------------------------------------- SphereFace2

BALANCES = [1e-6, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-6, None]
SCALES = [1.0, 30.0, 64.0, 1000.0]
SHAPES: list[dict[str, Any]] = [
    {},
    {"margin": 0.0},
    {"margin": 0.5, "power": 1.0},
    {"margin": 0.4, "negative_margin": 0.1, "power": 5.0},
    {"margin": 0.3, "power": 0.5},
    {"margin_type": "a"},
    {"margin_type": "a", "margin": 1.2, "power": 1.0},
    {"margin_type": "m"},
    {"margin_type": "m", "margin": 3.0, "power": 2.0},
]


@pytest.fixture
def _float64() -> Any:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def starting_bias(num_classes: int, **keywords: Any) -> tuple[hs.Head, Tensor]:
    """A head whose prototypes are all orthogonal to the first axis."""
    head = hs.create_head("sphereface2", dim=3, num_classes=num_classes, **keywords)
    with torch.no_grad():
        head.weight[:, 0] = 0.0
    return head, torch.tensor([[2.0, 0.0, 0.0]])


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("num_classes", [2, 3, 50, 10_000])
def test_bias_starts_where_its_gradient_vanishes(num_classes: int, scale: float, shape: dict[str, Any]) -> None:
    """Appendix G: dL/db = 0 when every cosine is 0; eqs. 9 and 10 each lose this somewhere in this range."""
    for balance in BALANCES:
        head, _ = starting_bias(num_classes, balance=balance, scale=scale, **shape)
        b = float(head.objective.bias.detach())
        assert math.isfinite(b)
        residual = ref.bias_residual(num_classes, balance, scale, **shape)
        assert abs(residual(b)) < 1e-10, (balance, b)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("balance", BALANCES)
def test_bias_of_a_million_classes(balance: float | None) -> None:
    head, _ = starting_bias(1_000_000, balance=balance, scale=64.0)
    residual = ref.bias_residual(1_000_000, balance, 64.0)
    assert abs(residual(float(head.objective.bias.detach()))) < 1e-10


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 30.0, 64.0])
@pytest.mark.parametrize("num_classes", [2, 3, 50])
def test_gradient_of_the_starting_bias(num_classes: int, scale: float, shape: dict[str, Any]) -> None:
    """The same through backward: the residual is small against the positive term alone."""
    for balance in BALANCES:
        head, x = starting_bias(num_classes, balance=balance, scale=scale, **shape)
        (whole,) = torch.autograd.grad(head(x, torch.tensor([1])), head.objective.get_parameter("bias"))
        (negatives,) = torch.autograd.grad(head(x, torch.tensor([-1])), head.objective.get_parameter("bias"))
        part = float(negatives) * (num_classes - 1) / num_classes  # the positive class is one of them at -1
        assert part > 0
        assert abs(float(whole)) < 1e-10 * part, balance


@pytest.mark.usefixtures("_float64")
def test_class_biases_start_from_the_shared_one() -> None:
    shared, x = starting_bias(6)
    apart, _ = starting_bias(6, bias="class")
    assert apart.objective.bias.shape == (6,)
    torch.testing.assert_close(apart.objective.bias, shared.objective.bias.expand(6), rtol=0.0, atol=0.0)
    apart(x, torch.tensor([1])).backward()
    assert abs(float(apart.objective.bias.grad.sum())) < 1e-12


@pytest.mark.parametrize("balance", [0.0, 1.0])
def test_one_sided_balance_is_refused(balance: float) -> None:
    with pytest.raises(ValueError, match="must lie strictly between 0 and 1"):
        hs.create_head("sphereface2", dim=3, num_classes=5, balance=balance)


def binary(cos: Tensor, y: Tensor, positive: Callable[[Tensor], Tensor], negative: Callable[[Tensor], Tensor]) -> float:
    """mean over rows of sum over classes of log(1 + e^.), the arguments and weights as the equations print them."""
    own = torch.zeros_like(cos, dtype=torch.bool)
    own[torch.arange(len(y)), y] = True
    return float(torch.where(own, positive(cos), negative(cos)).sum(1).mean())


def test_table_2_switches_build_equations_1_to_5() -> None:
    """PN, EH, AM, SA one after the other, without and with the bias."""
    x, w = sphere(9, 4, 3), sphere(6, 4, 4)
    y = torch.tensor([0, 1, 2, 3, 4, 5, 0, 1, 2])
    cos = ref.cosines(x, w)
    lam, r, m, t, b = 0.8, 12.0, 0.35, 3.0, -2.5

    def loss(bias: str | None = None, **keywords: Any) -> float:
        head = head_at("sphereface2", w, bias=bias, **keywords)
        if bias:
            with torch.no_grad():
                head.objective.bias.fill_(b)
        return value(head, x, y)

    def l1p(z: Tensor) -> Tensor:
        return torch.log(1 + torch.exp(z))

    def g(z: Tensor) -> Tensor:
        return 2 * ((z + 1) / 2) ** t - 1

    none: dict[str, Any] = {"balance": None, "scale": 1.0, "margin": 0.0, "power": 1.0}
    pn: dict[str, Any] = {**none, "balance": lam}
    eh: dict[str, Any] = {**pn, "scale": r}
    am: dict[str, Any] = {**eh, "margin": m}
    sa: dict[str, Any] = {**am, "power": t}
    eq1 = binary(cos, y, lambda c: l1p(-c), l1p)
    balanced = binary(cos, y, lambda c: lam * l1p(-c), lambda c: (1 - lam) * l1p(c))
    eq2 = binary(cos, y, lambda c: lam / r * l1p(-r * c), lambda c: (1 - lam) / r * l1p(r * c))
    eq3 = binary(cos, y, lambda c: lam / r * l1p(-r * (c - m)), lambda c: (1 - lam) / r * l1p(r * (c + m)))
    eq4 = binary(cos, y, lambda c: lam / r * l1p(-r * (c - m) - b), lambda c: (1 - lam) / r * l1p(r * (c + m) + b))
    eq5 = binary(
        cos, y, lambda c: lam / r * l1p(-r * (g(c) - m) - b), lambda c: (1 - lam) / r * l1p(r * (g(c) + m) + b)
    )
    found = [loss(**none), loss(**pn), loss(**eh), loss(**am), loss("shared", **am), loss("shared", **sa)]
    assert found == pytest.approx([eq1, balanced, eq2, eq3, eq4, eq5], rel=1e-12)
    assert len({round(v, 9) for v in found}) == 6


def test_gradient_of_a_classifier_needs_no_other_classifier() -> None:
    """Section 2.4 and appendix E: dL/dW_i does not change when the other prototypes do; under softmax it does."""
    x, w = sphere(5, 4, 5), sphere(6, 4, 6)
    y = torch.tensor([0, 1, 2, 0, 3])
    moved = sphere(6, 4, 7)
    moved[2] = w[2]

    def gradient(name: str, prototypes: Tensor) -> Tensor:
        head = head_at(name, prototypes, scale=10.0)
        head(x, y).backward()
        return head.weight.grad[2]  # type: ignore[index]

    torch.testing.assert_close(gradient("sphereface2", w), gradient("sphereface2", moved), rtol=1e-12, atol=1e-15)
    assert (gradient("coco", w) - gradient("coco", moved)).abs().max() > 1e-3


def test_similarity_adjustment_stretches_the_low_end() -> None:
    """Section 2.2: g maps [-0.2, 1] to about [-0.9, 1]; read off a head's loss with one negative."""
    head = head_at("sphereface2", plane(0.0).repeat(2, 1), scale=1.0, margin=0.0, bias=None, balance=None, power=3.0)
    x = plane(math.acos(-0.2))
    loss = value(head, x, torch.tensor([-1])) / 2  # log(1 + e^g)
    assert math.log(math.expm1(loss)) == pytest.approx(-0.9, abs=0.05)


def test_the_bias_of_sphereface2_goes_by_a_word_too() -> None:
    """TOML has no None: a recipe of Table 2's first rows writes "none"."""
    heads = [hs.create_head("sphereface2", dim=4, num_classes=5, bias=bias) for bias in (None, "none")]
    x, y = torch.randn(6, 4), torch.arange(6) % 5
    heads[1].load_state_dict(heads[0].state_dict())
    assert torch.equal(heads[0](x, y), heads[1](x, y))


# -------------------------------------------------------------------------------- what the docstrings say losses equal


def with_gradients(head: hs.Head, x: Tensor, y: Tensor, **rows: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Loss, gradient of the embeddings, gradient of the prototypes."""
    x = x.clone().requires_grad_()
    loss = head(x, y, **rows)
    loss.backward()
    assert x.grad is not None
    return loss.detach(), x.grad, head.weight.grad


def test_curricularface_is_arcface_while_no_negative_is_hard() -> None:
    w = simplex(5)
    x, y = w + 0.05 * sphere(5, 5, 0), torch.arange(5)
    angle = torch.arccos(ref.cosines(x, w))
    assert (torch.cos(angle.diagonal() + 0.5) > ref.cosines(x, w)[~torch.eye(5, dtype=torch.bool)].max()).all()
    curricular, arcface = (head_at(name, w, scale=16.0) for name in ("curricularface", "arcface"))
    torch.testing.assert_close(with_gradients(curricular, x, y), with_gradients(arcface, x, y), rtol=1e-12, atol=1e-15)


def test_the_boundary_of_the_circle_loss_is_a_circle() -> None:
    """Circle Loss sec. 3.3: it compares s (cos_j^2 + (1 - cos_y)^2 - 2 m^2) with 0 while both weights are positive."""
    s, m = 16.0, 0.25
    w = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.5, 0.0, 0.75**0.5]], dtype=torch.float64)
    x, y = torch.tensor([[0.9, 0.3, 0.2]], dtype=torch.float64), torch.tensor([0])
    cos = ref.cosines(x, w)[0]
    assert (cos > -m).all()
    wanted = torch.nn.functional.softplus((s * cos[1:] ** 2).logsumexp(0) + s * (1 - cos[0]) ** 2 - 2 * s * m**2)
    assert value(head_at("circle", w, scale=s, margin=m), x, y) == pytest.approx(float(wanted), rel=1e-12)


def test_ldam_is_gm_softmax_with_a_margin_by_class() -> None:
    """Largest Margins, sec. 3.1."""
    x, w, y = sphere(6, 4, 0), sphere(5, 4, 1), torch.tensor([0, 1, 2, 3, 4, 0])
    counts = torch.tensor([100.0, 50.0, 10.0, 3.0, 1.0], dtype=torch.float64)
    margins = (0.5 * counts**-0.25)[y]
    ldam = with_gradients(head_at("ldam", w, scale=9.0, max_margin=0.5, class_counts=counts), x, y)
    gm = with_gradients(head_at("gm_softmax", w, scale=9.0), x, y, beta1=-margins, beta2=-margins)
    torch.testing.assert_close(ldam, gm, rtol=1e-12, atol=1e-15)


def test_c_contrastive_without_a_margin_is_the_center_loss_of_the_prototypes() -> None:
    x, w, y = 2 * sphere(6, 4, 0), 3 * sphere(5, 4, 1), torch.tensor([0, 1, 2, 3, 4, 0])
    center = head_at("center", w, normalize=True)
    center.objective.centers.copy_(w)
    loss, dx, _ = with_gradients(head_at("c_contrastive", w, margin=0.0), x, y)
    half, half_dx, _ = with_gradients(center, x, y)
    torch.testing.assert_close((loss, dx), (2 * half, 2 * half_dx))


@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_lm_softmax_becomes_the_sample_margin(scale: float) -> None:
    """0 <= LSE(s c_j)/s - max c_j <= log(k - 1)/s."""
    x, w, y = sphere(6, 4, 0), sphere(5, 4, 1), torch.tensor([0, 1, 2, 3, 4, 0])
    margin, smooth = value(head_at("sample_margin", w), x, y), value(head_at("lm_softmax", w, scale=scale), x, y)
    assert 0 <= smooth - margin + 1e-12 <= math.log(4) / scale + 2e-12


@pytest.mark.parametrize("k", [3, 10])
def test_regularizers_of_the_simplex(k: int) -> None:
    x, y = sphere(2, k, 0), torch.tensor([0, 1])
    assert value(head_at("zero_centroid", simplex(k)), x, y) == pytest.approx(0.0, abs=1e-12)
    total = float((sphere(k, k, 1).sum(0) ** 2).sum())
    assert value(head_at("zero_centroid", sphere(k, k, 1)), x, y) == pytest.approx(100 / k**2 * total, rel=1e-9)
    for t in (1.0, 2.0, 5.0):
        energy = value(head_at("hyperspherical_energy", simplex(k), exponent=t), x, y)
        assert energy == pytest.approx((2 * k / (k - 1)) ** (-t / 2), rel=1e-9)
