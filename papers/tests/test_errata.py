"""What the papers print wrongly: the printed line fails, the corrected one holds.

Each test names the place. LM is "Learning towards the Largest Margins", SF SphereFace, SF2 SphereFace2, NF NormFace,
AF the appendix of "Unifying Margin-Based Softmax Losses" (AmpFace).
"""

import math
from typing import Any

import pytest
import torch
from scipy import integrate, special
from torch import Tensor

import hypersphere as hs


def unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True)


def sphere(rows: int, dim: int, seed: int) -> Tensor:
    return unit(torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def simplex(k: int) -> Tensor:
    return unit(torch.eye(k, dtype=torch.float64) - 1.0 / k)


def loss(name: str, w: Tensor, x: Tensor, y: Tensor, call: dict[str, Any] | None = None, **keywords: Any) -> float:
    head = hs.create_head(name, dim=w.shape[1], num_classes=len(w), **keywords).double()
    with torch.no_grad():
        head.weight.copy_(w)
    return float(head(x, y, **(call or {})).detach())


# ------------------------------------------------------------------------------------------------- largest margins

GM: dict[str, Any] = {"scale": 4.0, "alpha1": 1.0, "beta1": 0.2, "alpha2": 0.4, "beta2": 0.0}


def gm_bound(k: int, sign: int, *, scale: float, alpha1: float, beta1: float, alpha2: float, beta2: float) -> float:
    first = math.exp(scale * sign * (alpha2 + beta2 - alpha1 - beta1))
    return math.log(first + (k - 1) * math.exp(-scale * (1 / (k - 1) + alpha1 + beta1)))


@pytest.mark.parametrize("k", [2, 3, 7])
def test_lm_theorem_3_2_prints_the_first_exponent_with_the_wrong_sign(k: int) -> None:
    """LM Theorem 3.2 (appendix A): exp(s(a1 + b1 - a2 - b2)) must be exp(s(a2 - a1 + b2 - b1)), as its proof ends."""
    w, y = simplex(k), torch.arange(k)
    risk = loss("gm_softmax", w, w, y, **GM)
    assert risk == pytest.approx(gm_bound(k, 1, **GM), rel=1e-9)
    printed = gm_bound(k, -1, **GM)
    assert risk < printed - 1.0  # not a lower bound
    for seed in range(5):
        assert loss("gm_softmax", sphere(k, k, seed), sphere(k, k, seed + 9), y, **GM) > gm_bound(k, 1, **GM)


def test_lm_theorem_3_5_prints_the_same_wrong_sign_per_sample() -> None:
    """LM Theorem 3.5, eq. A.4's last line and the sentence after it, with numbers of each sample's own."""
    k = 4
    w = simplex(k)
    y = torch.tensor([0, 0, 0, 0, 0, 1, 1, 2, 3])  # imbalanced
    g = torch.Generator().manual_seed(0)
    draw = torch.rand(4, len(y), generator=g, dtype=torch.float64)
    a1, b1, a2, b2 = 0.6 + draw[0], 0.3 * draw[1], 0.5 * draw[2], -0.3 * draw[3]
    s = 5.0
    call: dict[str, Any] = {"alpha1": a1, "beta1": b1, "alpha2": a2, "beta2": b2}

    def bound(sign: int) -> float:
        second = (k - 1) * torch.exp(-s * (1 / (k - 1) + a1 + b1))
        return float(torch.log(torch.exp(s * sign * (a2 + b2 - a1 - b1)) + second).mean())

    risk = loss("gm_softmax", w, w[y], y, call, scale=s)
    assert risk == pytest.approx(bound(1), rel=1e-9)
    assert risk < bound(-1)
    assert loss("gm_softmax", w, sphere(len(y), k, 1), y, call, scale=s) > bound(1)


@pytest.mark.parametrize("seed", range(5))
def test_lm_b_2_is_reversed(seed: int) -> None:
    """LM eq. B.2 prints R_sm <= its mean form; a maximum is at least the mean: R_sm >= mean form (as A.3 uses it)."""
    w, x, y = sphere(6, 4, seed), sphere(8, 4, seed + 20), torch.arange(8) % 6
    assert loss("sample_margin", w, x, y) > loss("sample_margin", w, x, y, form="mean")
    s = simplex(5)
    equal = loss("sample_margin", s, s, torch.arange(5)), loss("sample_margin", s, s, torch.arange(5), form="mean")
    assert equal[0] == pytest.approx(equal[1], rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4, 10])
def test_lm_a_3_loses_a_factor(k: int) -> None:
    """LM eq. A.3, sixth and seventh lines: 1/(k-1) - sqrt(...) must be -(1/(k-1)) sqrt(...)."""
    for w in (simplex(k), sphere(k, k, 3)):
        centre = w.mean(0)
        fifth = -float((w - centre).norm(dim=1).sum()) / (k - 1)
        root = math.sqrt(k * float(((w - centre) ** 2).sum()))
        assert root == pytest.approx(math.sqrt(k * (k - k * float(centre @ centre))))
        last = -k / (k - 1)
        assert fifth >= -root / (k - 1) - 1e-12
        assert -root / (k - 1) >= last - 1e-12
        printed = 1 / (k - 1) - root
        assert not (fifth >= printed >= last)  # the printed chain breaks somewhere
    w = simplex(k)
    assert -float(w.norm(dim=1).sum()) / (k - 1) == pytest.approx(-k / (k - 1))


def test_lm_2_1_loses_the_mean() -> None:
    """LM eq. 2.1: the second form drops the factor 1/N."""
    w, x, y = 2 * sphere(5, 3, 0), 3 * sphere(7, 3, 1), torch.arange(7) % 5
    cos = unit(x) @ unit(w).T
    logits = x.norm(dim=1)[:, None] * w.norm(dim=1)[None] * cos
    rows = -torch.log_softmax(logits, 1)[torch.arange(7), y]
    first = loss("softmax", w, x, y, bias=False)
    assert first == pytest.approx(float(rows.sum()) / 7, rel=1e-9)
    assert first != pytest.approx(float(rows.sum()), rel=0.1)


def test_lm_2_4_takes_the_limit_before_the_minimum() -> None:
    """LM eq. 2.4: the energies tend to infinity (or 0) with t; their t-th roots tend to 1 / (least distance).

    So the limit belongs outside the arg min.
    """

    def distances(w: Tensor) -> Tensor:
        return torch.pdist(w)

    good, bad = sphere(30, 3, 0), sphere(30, 3, 1)
    least = [float(distances(w).min()) for w in (good, bad)]
    assert max(least) < 1
    for w, d in zip((good, bad), least, strict=True):
        energies = [float((2 * distances(w) ** -t).sum()) for t in (10.0, 50.0, 200.0)]
        assert energies[0] < energies[1] < energies[2]
        assert energies[2] > 1e100
        assert float((2 * (distances(w) / d) ** -2000.0).sum()) ** (1 / 2000.0) / d == pytest.approx(1 / d, rel=1e-3)


def largest_margin(w: Tensor, y: int) -> float:
    """max over unit z of w_y.z - max_j w_j.z: the distance of the origin from the hull of the w_y - w_j."""
    differences = w[y] - torch.cat([w[:y], w[y + 1 :]])
    weights = torch.full((len(differences),), 1 / len(differences), dtype=torch.float64)
    for n in range(20000):  # Frank-Wolfe
        point = weights @ differences
        corner = int((differences @ point).argmin())
        weights = weights * (1 - 2 / (n + 2))
        weights[corner] += 2 / (n + 2)
    return float((weights @ differences).norm())


def margin_at(w: Tensor, y: int, z: Tensor) -> float:
    return float(hs.geometry.sample_margins(z[None], w, torch.tensor([y])))


def test_lm_theorem_2_2_the_best_feature_is_not_always_the_printed_one() -> None:
    """LM Theorem 2.2: z* = (w_y - centroid of the nearest prototypes), normalised, can be beaten.

    Five points with the largest class margin in space (90 degrees): the pole and a square on the equator.
    """
    w = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1]], dtype=torch.float64)
    assert float(hs.geometry.class_margin(w)) == pytest.approx(math.pi / 2)  # Tammes' optimum for five
    nearest = w[(w @ w[0] - (w @ w[0])[1:].max()).abs() < 1e-9]
    assert len(nearest) == 3
    printed = unit(w[0] - nearest.mean(0))
    assert margin_at(w, 0, printed) == pytest.approx(3 / math.sqrt(10), abs=1e-6)
    assert margin_at(w, 0, w[0]) == pytest.approx(1.0, abs=1e-6)
    assert largest_margin(w, 0) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("k", [3, 4, 6])
def test_lm_theorem_2_2_the_proof_overstates_the_margin(k: int) -> None:
    """LM Theorem 2.2's proof, third and fourth lines: max_z min_j (w_y - w_j).z is not min_j |w_y - w_j|.

    k depends on z. At the simplex the value is k/(k-1) (Proposition 2.3), below the distance sqrt(2k/(k-1)).
    """
    w = simplex(k)
    distance = float((w[0] - w[1]).norm())
    assert distance == pytest.approx(math.sqrt(2 * k / (k - 1)))
    assert margin_at(w, 0, w[0]) == pytest.approx(k / (k - 1), abs=1e-9)
    assert largest_margin(w, 0) == pytest.approx(k / (k - 1), abs=1e-2)
    assert distance > k / (k - 1) + 0.1


@pytest.mark.parametrize("k", [3, 5])
def test_lm_proposition_2_3_centroid(k: int) -> None:
    """LM Proposition 2.3's proof: the centroid of the others is -w_y/(k-1), not -w_y (and "Lemma 2.3" is Lemma 2.1)."""
    w = simplex(k)
    centroid = w[1:].mean(0)
    torch.testing.assert_close(centroid, -w[0] / (k - 1))
    assert (centroid + w[0]).norm() > 0.4
    torch.testing.assert_close(unit(w[0] - centroid), w[0])


@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("angle", [0.1, 1.0, 1.5])
def test_lm_theorem_3_1_cannot_have_d_plus_one_acute_equal_angles(d: int, angle: float) -> None:
    """LM Theorem 3.1's proof takes k <= d + 1 vectors at equal acute angles; R^d has room for d of them only."""

    def rank(k: int) -> int:
        c = math.cos(angle)
        return int(torch.linalg.matrix_rank((1 - c) * torch.eye(k, dtype=torch.float64) + c))

    assert rank(d) <= d  # possible
    assert rank(d + 1) == d + 1  # needs one dimension more


@pytest.mark.parametrize("theta", [0.3, 1.0, 1.5])
def test_lm_3_2_has_equality_beyond_angle_zero(theta: float) -> None:
    """LM eq. 3.2 and A.1: "equality if and only if theta = 0" is false for CosFace and NormFace (m1 = 1, m2 = 0)."""
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    x = torch.tensor([[math.cos(theta), math.sin(theta)]], dtype=torch.float64)
    y = torch.tensor([0])

    def right_side(m2: float, m3: float) -> float:
        return loss("gm_softmax", w, x, y, scale=7.0, alpha1=math.cos(m2), alpha2=math.cos(m2), beta1=-m3, beta2=-m3)

    assert loss("unified", w, x, y, scale=7.0, m3=0.3) == pytest.approx(right_side(0.0, 0.3), rel=1e-9)
    assert loss("unified", w, x, y, scale=7.0, m2=0.5) > right_side(0.5, 0.0) + 1e-3


def test_lm_proposition_3_3_needs_the_cosine_of_m2() -> None:
    """LM Proposition 3.3's proof prints m2 >= 1/2; section 3.1 has it right: cos m2 >= 1/2.

    m2 = 1.2 satisfies the printed one only, and then all prototypes opposite to all samples beat the simplex.
    """
    k = 10
    w, y = simplex(k), torch.arange(k)
    pole = w[:1].expand(k, k)
    for m2, simplex_is_best in ((0.5, True), (1.04, True), (1.2, False)):
        assert m2 >= 0.5
        assert (math.cos(m2) >= 0.5) == simplex_is_best
        best = loss("arcface", w, w, y, scale=8.0, margin=m2)
        collapsed = loss("arcface", -pole, pole, y, scale=8.0, margin=m2)
        assert (best < collapsed) == simplex_is_best


def test_lm_softmax_is_no_limit_in_alpha_2() -> None:
    """LM section 3.1: "alpha_2 or beta_2 approaches -infinity": alpha_2 works only where cos_y > 0."""
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    y, s = torch.tensor([0]), 10.0
    for x, works in (([[0.8, 0.6]], True), ([[-0.8, 0.6]], False)):
        at = torch.tensor(x, dtype=torch.float64)
        wanted = s * loss("lm_softmax", w, at, y, scale=s)
        assert loss("gm_softmax", w, at, y, scale=s, beta2=-1e4) == pytest.approx(wanted, rel=1e-9)
        by_alpha = loss("gm_softmax", w, at, y, scale=s, alpha2=-1e4)
        assert by_alpha == (pytest.approx(wanted, rel=1e-9) if works else pytest.approx(8e4, rel=1e-2))


def test_lm_proof_of_3_2_sums_over_the_wrong_index() -> None:
    """LM Theorem 3.2's proof, first display: sum over j != i (the sample) must be j != y_i (its class)."""
    w, x, y = sphere(4, 3, 0), sphere(3, 3, 1), torch.tensor([2, 0, 1])
    cos = x @ w.T

    def risk(skip: list[int]) -> float:
        rows = []
        for i in range(3):
            rest = [4.0 * cos[i, j] for j in range(4) if j != skip[i]]
            rows.append(torch.logsumexp(torch.stack([4.0 * cos[i, y[i]], *rest]), 0) - 4.0 * cos[i, y[i]])
        return float(torch.stack(rows).mean())

    wanted = loss("gm_softmax", w, x, y, scale=4.0)
    assert risk(y.tolist()) == pytest.approx(wanted, rel=1e-9)
    assert risk([0, 1, 2]) != pytest.approx(wanted, rel=1e-2)


@pytest.mark.parametrize(("k", "printed"), [(10, 96.37), (100, 90.57)])
def test_lm_appendix_c_cuts_its_optimal_class_margins(k: int, printed: float) -> None:
    """LM appendices C.2 and C.3: arccos(-1/9) = 96.38 and arccos(-1/99) = 90.58 degrees, printed cut off."""
    exact = math.degrees(math.acos(-1 / (k - 1)))
    assert math.degrees(float(hs.geometry.class_margin(simplex(k)))) == pytest.approx(exact, abs=1e-6)
    assert round(exact, 2) == pytest.approx(printed + 0.01)
    assert math.floor(exact * 100) / 100 == printed


# ----------------------------------------------------------------------------------------------------- SphereFace2


def gradients(which: str) -> tuple[Tensor, Tensor, Tensor]:
    """dL/dW of Table 13's loss, the logits, and x."""
    w = sphere(5, 3, 0).requires_grad_()
    x, y = 1.5 * sphere(1, 3, 1)[0], 2
    logits = w @ x
    if which == "softmax":
        value = torch.logsumexp(logits, 0) - logits[y]
    else:
        signs = torch.ones(5, dtype=torch.float64)
        signs[y] = -1
        value = torch.log(1 + torch.exp(signs * logits)).sum()
    return torch.autograd.grad(value, w)[0], logits.detach(), x


def test_sf2_table_13_softmax_target_cell() -> None:
    """SF2 Table 13, dL/dW_y, softmax: printed (sum_{i != y} p_i - 1) x; it is (p_y - 1) x = -(sum_{i != y} p_i) x."""
    gradient, logits, x = gradients("softmax")
    p = torch.softmax(logits, 0)
    torch.testing.assert_close(gradient[2], (p[2] - 1) * x)
    torch.testing.assert_close(gradient[2], -(p.sum() - p[2]) * x)
    assert (gradient[2] - (p.sum() - p[2] - 1) * x).norm() > 0.1
    torch.testing.assert_close(gradient[0], p[0] * x)  # the cell above is right


def test_sf2_table_13_binary_target_cell() -> None:
    """SF2 Table 13, dL/dW_y, SphereFace2: printed -sigmoid(W_y.x) x; it is -sigmoid(-W_y.x) x."""
    gradient, logits, x = gradients("binary")
    torch.testing.assert_close(gradient[2], -torch.sigmoid(-logits[2]) * x)
    assert (gradient[2] + torch.sigmoid(logits[2]) * x).norm() > 0.1
    torch.testing.assert_close(gradient[0], torch.sigmoid(logits[0]) * x)  # the cell above is right


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_sf2_similarity_adjustment_increases(power: float) -> None:
    """SF2 section 2.2 calls g "monotonic decreasing"; it increases, so a closer positive costs less."""
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([0])
    costs = []
    for angle in (0.2, 1.0, 2.0, 3.0):
        x = torch.tensor([[math.cos(angle), -math.sin(angle)]], dtype=torch.float64)
        costs.append(loss("sphereface2", w, x, y, power=power, balance=1 - 1e-9, bias=None, scale=5.0))
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def printed_bias(equation: int, *, k: int, lam: float, r: float, m: float, t: float = 3.0) -> float:
    plain = 2 * 0.5**t - 1
    a_y, a_i = r * (plain - m), r * (plain + m)
    z = lam / ((1 - lam) * (k - 1))
    root = math.sqrt((1 - z) ** 2 + 4 * z * math.exp(a_y - a_i))
    if equation == 9:
        return math.log(-(1 - z) + root) - math.log(2) - a_y
    return math.log(2 * z) - a_i - math.log(1 - z + root)


@pytest.mark.parametrize(("k", "lam", "broken", "works"), [(3, 0.7, 10, 9), (50, 0.99, 10, 9), (8600, 0.7, 9, 10)])
def test_sf2_equation_10_is_stable_on_one_side_only(k: int, lam: float, broken: int, works: int) -> None:
    """SF2 appendix G offers eq. 10 against eq. 9's cancellation; for z > 1 it is eq. 10 that cancels."""
    r, m = 64.0, 0.5
    z = lam / ((1 - lam) * (k - 1))
    assert (z > 1) == (broken == 10)
    with pytest.raises(ValueError, match=r"math domain error|positive"):  # log of a difference that came out as 0
        printed_bias(broken, k=k, lam=lam, r=r, m=m)
    head = hs.create_head("sphereface2", dim=2, num_classes=k, balance=lam, scale=r, margin=m)
    assert float(head.objective.bias.detach()) == pytest.approx(printed_bias(works, k=k, lam=lam, r=r, m=m), rel=1e-6)


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_sf2_a_bias_does_not_replace_an_angular_margin_on_the_negatives(power: float) -> None:
    """SF2 appendix F says so of A and M too; only C's margin is a constant shift of the logit, which b can absorb."""
    angles = torch.linspace(0.6, 2.4, 50, dtype=torch.float64)

    def g(cos: Tensor) -> Tensor:
        return 2 * ((cos + 1) / 2) ** power - 1

    plain = g(torch.cos(angles))
    shifts = {
        "c": (plain + 0.4) - plain,
        "a": g(torch.cos(angles - 0.5)) - plain,
        "m": g(torch.cos(angles / 1.7)) - plain,
    }
    spread = {kind: float(s.max() - s.min()) for kind, s in shifts.items()}
    assert spread["c"] < 1e-12
    assert spread["a"] > 0.1
    assert spread["m"] > 0.1


# ------------------------------------------------------------------------------------------------------ SphereFace


@pytest.mark.parametrize("m", [2, 3, 4])
def test_sf_psi_extends_cos_m_theta(m: int) -> None:
    """SF section 3.2, after eq. 6: psi "should be equal to cos(theta) in [0, pi/m]"; it equals cos(m theta) there."""
    s, theta = 3.0, 0.6 * math.pi / m
    w = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    x = torch.tensor([[math.cos(theta), math.sin(theta)]], dtype=torch.float64)
    value = loss("sphereface", w, x, torch.tensor([0]), margin=m, scale=s, anneal=None)
    psi = -math.cos(theta) - math.log(math.expm1(value)) / s
    assert psi == pytest.approx(math.cos(m * theta), abs=1e-9)
    assert abs(psi - math.cos(theta)) > 0.1


def test_sf_posterior_probabilities_are_not_the_logits() -> None:
    """SF section 3.1: "the posterior probabilities become p_1 = |x| cos(theta_1)"; those are the logits."""
    w = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    x = torch.tensor([[-2.0, 1.0]], dtype=torch.float64)
    p = [math.exp(-loss("modified_softmax", w, x, torch.tensor([y]))) for y in (0, 1)]
    assert sum(p) == pytest.approx(1.0)
    assert p[0] == pytest.approx(1 / (1 + math.exp(3.0)), rel=1e-9)
    assert float(x[0] @ w[0]) < 0 < p[0]


@pytest.mark.parametrize("m", [2, 3, 4])
def test_sf_footnote_4_holds_on_a_half_open_interval(m: int) -> None:
    """SF footnote 4: cos(theta) > cos(m theta) on [0, pi/m] fails at 0, where both are 1; (0, pi/m] is right."""
    assert math.cos(0.0) == math.cos(m * 0.0)
    assert all(math.cos(a) > math.cos(m * a) for a in (1e-6, 0.5 * math.pi / m, math.pi / m))


# -------------------------------------------------------------------------------------------------------- NormFace


def test_nf_equation_9_indexes_the_target_by_the_sample() -> None:
    """NF eq. 9, both numerators: W_i (i counts samples) must be W_{y_i}, as in eq. 6."""
    w, x, y = sphere(4, 3, 0), sphere(3, 3, 1), torch.tensor([3, 0, 1])
    s = 6.0
    logits = -s / 2 * torch.cdist(x, w) ** 2
    wanted = loss("normface", w, x, y, scale=s, learnable_scale=False)
    assert float(torch.nn.functional.cross_entropy(logits, y)) == pytest.approx(wanted, rel=1e-9)
    printed = float(torch.nn.functional.cross_entropy(logits, torch.arange(3)))
    assert printed != pytest.approx(wanted, rel=1e-2)


def test_nf_equation_26_loses_a_norm_on_the_way() -> None:
    """NF eq. 26, lines two and three: d x~_j / d|x| is -x_j / |x|^2, printed -x~_j / |x|^2; the last line is right."""
    x = 2.5 * sphere(1, 4, 0)[0]
    upstream = sphere(1, 4, 1)[0]
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(upstream @ hs.geometry.normalize(leaf, eps=1e-30), leaf)
    n = x.norm()
    last = (upstream - x / n * (upstream @ x) / n) / n
    torch.testing.assert_close(gradient, last)
    third = upstream / n - x / n * (upstream @ (x / n)) / n**2
    assert (third - gradient).norm() > 0.01
    torch.testing.assert_close(upstream / n - x / n * (upstream @ x) / n**2, gradient)  # with x_j for x~_j


@pytest.mark.parametrize("length", [1.0, 1e-2, 1e-3])
def test_nf_orthogonality_is_exact_only_without_eps(length: float) -> None:
    """NF appendix 8.5 sets <x~, x~> = 1; under eq. 3 it is |x|^2/(|x|^2 + eps), so <x, dL/dx> = <g, x~> eps/|x|_2^2."""
    eps = 1e-6
    x = length * sphere(1, 4, 0)[0]
    upstream = sphere(1, 4, 1)[0]
    leaf = x.clone().requires_grad_()
    unit_x = hs.geometry.normalize(leaf, eps=eps)
    (gradient,) = torch.autograd.grad(upstream @ unit_x, leaf)
    wanted = float(upstream @ unit_x.detach()) * eps / (length**2 + eps)
    assert float(x @ gradient) == pytest.approx(wanted, rel=1e-6)
    assert wanted != 0
    assert float(unit_x.detach() @ unit_x.detach()) == pytest.approx(length**2 / (length**2 + eps), rel=1e-12)


def test_nf_gradient_of_the_true_label_is_negative() -> None:
    """NF section 3.3: "the gradient of softmax loss w.r.t. the ground truth label is 1 - P_y"; it is P_y - 1."""
    logits = torch.tensor([0.3, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(logits[None], torch.tensor([1])).backward()
    p = float(torch.softmax(logits.detach(), 0)[1])
    assert float(logits.grad[1]) == pytest.approx(p - 1)  # type: ignore[index]


def test_nf_proposition_3_needs_a_metric() -> None:
    """NF Proposition 3 holds for the distance |f~ - W~|, not for d of eq. 5 nor for the squares in eqs. 10-11."""
    f0, f, agent = sphere(2000, 3, 0), sphere(2000, 3, 1), sphere(2000, 3, 2)

    def holds(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """(d(f0, f) - d(f0, W))^2 <= d(f, W)^2, row by row."""
        return (a - b) ** 2 <= c**2 + 1e-12

    distance = [(p - q).norm(dim=1) for p, q in ((f0, f), (f0, agent), (f, agent))]
    assert holds(*distance).all()
    assert not holds(*[d**2 for d in distance]).all()
    assert not holds(*[1 - d**2 / 2 for d in distance]).all()  # the cosine


# --------------------------------------------------------------------------------------------------------- AmpFace


@pytest.mark.parametrize(("s", "d"), [(16.0, 128), (32.0, 512), (64.0, 512)])
def test_af_sigma_of_the_lognormal(s: float, d: int) -> None:
    """AF appendix A, proof of Proposition 3: "sigma = e^(2 s^2/d)" is E[X^2]; sigma^2 = e^(2s^2/d) - e^(s^2/d).

    The error e^(s^2/d)/(C eps^2) that follows is an upper bound of the exact (e^(s^2/d) - 1)/(C eps^2).
    """
    v = s * s / d
    density = lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731

    def moment(power: int) -> float:
        middle = power * math.sqrt(v)
        return integrate.quad(lambda z: math.exp(power * math.sqrt(v) * z) * density(z), middle - 12, middle + 12)[0]

    mu, second = moment(1), moment(2)
    assert mu == pytest.approx(math.exp(v / 2), rel=1e-6)
    assert second == pytest.approx(math.exp(2 * v), rel=1e-6)
    variance = second - mu**2
    assert variance == pytest.approx(math.exp(2 * v) - math.exp(v), rel=1e-6)
    assert variance != pytest.approx(math.exp(2 * v), rel=1e-4)
    assert variance / mu**2 == pytest.approx(math.exp(v) - 1, rel=1e-5)
    assert (math.exp(2 * v)) ** 2 / mu**2 > 2 * math.exp(v)  # e^(2s^2/d) as sigma does not give the printed error


def test_af_law_of_large_numbers_is_for_the_mean() -> None:
    """AF eq. 13 defines X_C as the sum of C variables of mean mu; |X_C - mu| <= eps mu is for their mean."""
    count, eps = 2000, 0.2
    x = torch.exp(0.5 * torch.randn(200, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    mu, variance = math.exp(0.125), math.exp(0.25) * (math.exp(0.25) - 1)
    bound = variance / (count * eps**2 * mu**2)
    far = lambda v: float(((v - mu).abs() / mu > eps).double().mean())  # noqa: E731
    assert bound < 0.01
    assert far(x.mean(1)) <= bound
    assert far(x.sum(1)) == 1.0


def test_af_angle_of_the_nearest_prototype() -> None:
    """AF Fig. 7 and appendix D print 78.64 degrees (Fig. 18: 80) for 85742 uniform prototypes in 512 dimensions.

    The expectation is 79.00 degrees, from appendix A's own cap area.
    """
    d, num_classes = 512, 85_742

    def cap(theta: float) -> float:
        half = 0.5 * special.betainc((d - 1) / 2, 0.5, math.sin(theta) ** 2)
        return half if theta <= math.pi / 2 else 1 - half

    assert 2 * math.pi * (1 - math.cos(0.7)) == pytest.approx(  # the formula itself, where it is elementary
        4 * math.pi * 0.5 * special.betainc(1.0, 0.5, math.sin(0.7) ** 2)
    )
    expected, _ = integrate.quad(lambda a: (1 - cap(a)) ** (num_classes - 1), 0, math.pi, points=[1.2, 1.3, 1.4, 1.5])
    assert math.degrees(expected) == pytest.approx(79.00, abs=0.01)
    assert abs(math.degrees(expected) - 78.64) > 0.3


def test_af_negative_weight_is_one_sample_of_it() -> None:
    """AF Fig. 10 prints 4.4562e6 at 85742 classes; eq. 10 gives 4.681e6 and the sphere's own mean 4.541e6."""
    d, s, num_classes = 512, 64.0, 85_742
    approximation = (num_classes - 1) * math.exp(s * s / (2 * d))
    order = d / 2 - 1  # E e^(s z) on the sphere, a Bessel function
    log_mean = special.gammaln(d / 2) + order * math.log(2 / s) + math.log(special.ive(order, s)) + s
    exact = (num_classes - 1) * math.exp(log_mean)
    assert approximation == pytest.approx(4.681e6, rel=1e-3)
    assert exact == pytest.approx(4.541e6, rel=1e-3)
    spread = math.sqrt((math.exp(s * s / d) - 1) / num_classes)
    assert abs(4.4562e6 / exact - 1) < spread < 0.2  # within one standard deviation of a draw
    assert math.exp(s * s / d) / num_classes == pytest.approx(0.0348, abs=1e-4)  # the printed error is right
