"""The papers' losses, written once more, slowly: float64, every cosine at once, one Python loop per row.

Nothing here imports the library. Each function takes embeddings `x` (N, dim), prototypes `w` (C, dim), labels `y` (N,)
and the keywords of the loss of the same name; learned numbers (`b`, `scale` as a tensor, `centers`) and counters
(`step`, `t`) come in as arguments. It returns the mean over the rows that have a class (label >= 0), or over all rows
for the two losses that can learn from a stranger. Gradients are autograd's, so keep away from |cos| = 1.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

EPS = 1e-12
RELEASED = {"base": 1000.0, "gamma": 0.12, "power": 1.0, "minimum": 5.0}
Number = float | Tensor


# ---------------------------------------------------------------------------------------------------- small pieces


def norm(v: Tensor, eps: float = EPS) -> Tensor:
    """|x| = sqrt(sum x_i^2 + eps), NormFace section 3.2."""
    return torch.sqrt((v * v).sum(-1, keepdim=True) + eps)


def unit(v: Tensor, eps: float = EPS) -> Tensor:
    """NormFace eq. 3."""
    return v / norm(v, eps)


def cosines(x: Tensor, w: Tensor, eps: float = EPS) -> Tensor:
    """NormFace eq. 5, all of them."""
    return unit(x, eps) @ unit(w, eps).T


def others(row: Tensor, y: int) -> list[Tensor]:
    """The entries of one row at every class but y (every class, when y = -1)."""
    return [row[j] for j in range(len(row)) if j != y]


def number(t: Tensor) -> float:
    return float(t.detach())


def log_sum_exp(terms: list[Tensor]) -> Tensor:
    largest = max(number(t) for t in terms)
    return torch.log(sum(torch.exp(t - largest) for t in terms)) + largest  # type: ignore[arg-type]


def log_one_plus_exp(z: Tensor) -> Tensor:
    return torch.logaddexp(torch.zeros_like(z), z)


def cross_entropy(target: Tensor, negatives: list[Tensor]) -> Tensor:
    """-log(e^target / (e^target + sum e^negative)) = log(1 + e^(LSE(negatives) - target))."""
    return log_one_plus_exp(log_sum_exp(negatives) - target)


def mean(losses: list[Tensor], *connected: Tensor) -> Tensor:
    if not losses:
        return sum(0.0 * c.sum() for c in connected)  # type: ignore[return-value]
    return torch.stack(losses).mean()


def with_class(y: Tensor) -> list[tuple[int, int]]:
    """(row, label) of the rows that have a class."""
    return [(i, int(label)) for i, label in enumerate(y) if label >= 0]


def straight_through(value: Tensor, slope_of: Tensor) -> Tensor:
    """The first argument's value with the second one's gradient (characteristic gradient detachment)."""
    return slope_of + (value - slope_of).detach()


def adjust(z: Tensor, power: float) -> Tensor:
    """g(z) = 2 ((z + 1) / 2)^t - 1, SphereFace2 section 2.2."""
    return 2 * ((z + 1) / 2) ** power - 1


def grown(none: float, full: float, margin_steps: int, step: int) -> float:
    """A margin that grows linearly from none over the first margin_steps steps."""
    if step >= margin_steps:
        return full
    return ((margin_steps - step) * none + step * full) / margin_steps


def psi(angle: Tensor, m: float) -> Tensor:
    """SphereFace eq. 7: (-1)^k cos(m a) - 2k for a in [k pi / m, (k + 1) pi / m]."""
    k = min(int(number(angle) * m / math.pi), math.ceil(m) - 1)
    return (-1) ** k * torch.cos(m * angle) - 2 * k


def annealed(anneal: Mapping[str, float] | None, step: int) -> float:
    """SphereFace appendix G's lambda with the released schedule."""
    if anneal is None:
        return 0.0
    return max(anneal["minimum"], anneal["base"] * (1 + anneal["gamma"] * step) ** -anneal["power"])


# ------------------------------------------------------------------------------------------- softmax and its family


def softmax(x: Tensor, w: Tensor, y: Tensor, *, b: Tensor | None = None) -> Tensor:
    """NormFace eq. 1, SphereFace eqs. 3-4."""
    scores = x @ w.T if b is None else x @ w.T + b
    return mean([cross_entropy(scores[i, c], others(scores[i], c)) for i, c in with_class(y)], x, w)


def soft_labels(x: Tensor, w: Tensor, y: Tensor, b: Tensor | None, shares: Callable[[int], list[float]]) -> Tensor:
    """-sum_j q_j log p_j, with q the list that belongs to the label."""
    scores = x @ w.T if b is None else x @ w.T + b
    losses: list[Tensor] = []
    for i, c in with_class(y):
        log_p = scores[i] - log_sum_exp(list(scores[i]))
        losses.append(-sum(q * log_p[j] for j, q in enumerate(shares(c))))  # type: ignore[arg-type]
    return mean(losses, x, w)


def label_smoothing(x: Tensor, w: Tensor, y: Tensor, *, smoothing: float = 0.1, b: Tensor | None = None) -> Tensor:
    """Szegedy et al. 2016 section 7: q = (1 - e) one-hot + e / K."""
    k = len(w)
    return soft_labels(x, w, y, b, lambda c: [(1 - smoothing) * (j == c) + smoothing / k for j in range(k)])


def label_aware_smoothing(
    x: Tensor, w: Tensor, y: Tensor, *, class_counts: Any, head_smoothing: float = 0.3, tail_smoothing: float = 0.0,
    b: Tensor | None = None, weight_scaling: bool = False, class_scale: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Zhong et al. 2021 section 3.2: the label keeps 1 - f(N_y), the K - 1 others share f(N_y); f is concave.

    With weight scaling every logit, bias included, is multiplied by its class's factor (their released code).
    """
    assert weight_scaling == (class_scale is not None)
    if class_scale is not None:
        w, b = class_scale[:, None] * w, None if b is None else class_scale * b
    most, fewest, k = max(class_counts), min(class_counts), len(w)

    def shares(c: int) -> list[float]:
        quarter_turns = (class_counts[c] - fewest) / (most - fewest) if most > fewest else 1.0
        f = tail_smoothing + (head_smoothing - tail_smoothing) * math.sin(quarter_turns * math.pi / 2)
        return [1 - f if j == c else f / (k - 1) for j in range(k)]

    return soft_labels(x, w, y, b, shares)


def focal(x: Tensor, w: Tensor, y: Tensor, *, gamma: float = 2.0, b: Tensor | None = None) -> Tensor:
    """-(1 - p_y)^gamma log p_y (Lin et al. 2017 eq. 4; Largest Margins section 4.2 compares with it)."""
    losses = []
    for i, _ in with_class(y):
        ce = softmax(x[i : i + 1], w, y[i : i + 1], b=b)
        losses.append((1 - torch.exp(-ce)) ** gamma * ce)
    return mean(losses, x, w)


def modified_softmax(x: Tensor, w: Tensor, y: Tensor, *, eps: float = EPS) -> Tensor:
    """SphereFace eq. 5."""
    scores = x @ unit(w, eps).T
    return mean([cross_entropy(scores[i, c], others(scores[i], c)) for i, c in with_class(y)], x, w)


def normface(
    x: Tensor, w: Tensor, y: Tensor, *, scale: Number = 10.0, normalize: str = "both", power: float = 1.0,
    eps: float = EPS,
) -> Tensor:  # fmt: skip
    """NormFace eq. 6; "embeddings" and "prototypes" are the two ablations of section 5.2, Table 2."""
    scores = {
        "both": lambda: adjust(cosines(x, w, eps), power),
        "embeddings": lambda: unit(x, eps) @ w.T,
        "prototypes": lambda: x @ unit(w, eps).T,
    }[normalize]()
    scores = scale * scores
    return mean([cross_entropy(scores[i, c], others(scores[i], c)) for i, c in with_class(y)], x, w)


def coco(x: Tensor, w: Tensor, y: Tensor, *, scale: float = 30.0) -> Tensor:
    """NormFace eq. 6 with a fixed scale (Liu et al. 2017, the Coco row of SphereFace2 Table 5)."""
    return normface(x, w, y, scale=scale)


def l_softmax(
    x: Tensor, w: Tensor, y: Tensor, *, margin: int = 4, anneal: Mapping[str, float] | None = RELEASED,
    margin_grad: str = "exact", step: int = 0, eps: float = EPS,
) -> Tensor:  # fmt: skip
    """Large-margin softmax (SphereFace reference 16): |w_y| |x| psi(a) for w_y.x, blended as in SphereFace app. G."""
    lam = annealed(anneal, step)
    scores = x @ w.T
    losses = []
    for i, c in with_class(y):
        lengths = norm(x[i], eps)[0] * norm(w[c], eps)[0]
        cos = scores[i, c] / lengths
        value = (lam * cos + psi(torch.arccos(cos), margin)) / (1 + lam)
        if margin_grad == "detached":
            value = straight_through(value, cos)
        losses.append(cross_entropy(lengths * value, others(scores[i], c)))
    return mean(losses, x, w)


def sphereface(
    x: Tensor, w: Tensor, y: Tensor, *, margin: int = 4, scale: float | None = None,
    anneal: Mapping[str, float] | None = RELEASED, margin_grad: str = "exact", step: int = 0, eps: float = EPS,
) -> Tensor:  # fmt: skip
    """SphereFace eq. 7, annealed by appendix G; a given scale stands for |x| (feature normalisation)."""
    lam = annealed(anneal, step)
    cos = cosines(x, w, eps)
    losses = []
    for i, c in with_class(y):
        radius = norm(x[i], eps)[0] if scale is None else torch.tensor(scale, dtype=x.dtype)
        value = (lam * cos[i, c] + psi(torch.arccos(cos[i, c]), margin)) / (1 + lam)
        if margin_grad == "detached":
            value = straight_through(value, cos[i, c])
        losses.append(cross_entropy(radius * value, others(radius * cos[i], c)))
    return mean(losses, x, w)


def sphereface_r(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 30.0, margin: float = 1.5, version: int = 1,
    margin_grad: str = "detached", eps: float = EPS,
) -> Tensor:  # fmt: skip
    """SphereFace-R v1 (SphereFace2 appendix F, L_SF2-M): cos(min(m, pi / a) a); v2 divides the other angles by m.

    v0 is psi of SphereFace eq. 7 with a real m.
    """
    cos = cosines(x, w, eps)
    losses = []
    for i, c in with_class(y):
        if version < 2:
            angle = torch.arccos(cos[i, c])
            bounded = torch.cos(torch.minimum(torch.full_like(angle, margin), math.pi / angle) * angle)
            target = bounded if version == 1 else psi(angle, margin)
            if margin_grad == "detached":
                target = straight_through(target, cos[i, c])
            negatives = others(cos[i], c)
        else:
            target = cos[i, c]
            negatives = [torch.cos(torch.arccos(z) / margin) for z in others(cos[i], c)]
            if margin_grad == "detached":
                negatives = [straight_through(v, z) for v, z in zip(negatives, others(cos[i], c), strict=True)]
        losses.append(cross_entropy(scale * target, [scale * n for n in negatives]))
    return mean(losses, x, w)


def unified(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, m0: float = 1.0, m1: float = 1.0, m2: float = 0.0,
    m3: float = 0.0, wrong_class_relu: bool = False, power: float = 1.0, margin_grad: str = "exact", eps: float = EPS,
    margin_steps: int = 0, step: int = 0,
) -> Tensor:  # fmt: skip
    """Largest Margins eq. 3.1 with m0 (AmpFace appendix B-C) and the wrong-class ReLU of AmpFace Table 3."""
    m0, m1 = (grown(1.0, m, margin_steps, step) for m in (m0, m1))
    m2, m3 = (grown(0.0, m, margin_steps, step) for m in (m2, m3))
    cos = cosines(x, w, eps)
    losses = []
    for i, c in with_class(y):
        target = m0 * adjust(torch.cos(m1 * torch.arccos(cos[i, c]) + m2), power) - m3
        if margin_grad == "detached":
            target = straight_through(target, adjust(cos[i, c], power))
        negatives = [adjust(z, power) for z in others(cos[i], c)]
        if wrong_class_relu:
            negatives = [torch.clamp(n, min=0.0) for n in negatives]
        losses.append(cross_entropy(scale * target, [scale * n for n in negatives]))
    return mean(losses, x, w)


def cosface(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, margin: float = 0.35, power: float = 1.0,
    margin_grad: str = "exact", margin_steps: int = 0, step: int = 0,
) -> Tensor:  # fmt: skip
    """Largest Margins eq. 3.1 with m3 alone; `power` is SphereFace2 appendix D's similarity adjustment."""
    margin = grown(0.0, margin, margin_steps, step)
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        target = scale * (adjust(cos[i, c], power) - margin)
        losses.append(cross_entropy(target, [scale * adjust(z, power) for z in others(cos[i], c)]))
    return mean(losses, x, w)


def arcface(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, margin: float = 0.5, power: float = 1.0,
    margin_grad: str = "exact", margin_steps: int = 0, step: int = 0,
) -> Tensor:  # fmt: skip
    """Largest Margins eq. 3.1 with m2 alone; `power` is SphereFace2 appendix D's similarity adjustment."""
    margin = grown(0.0, margin, margin_steps, step)
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        target = adjust(torch.cos(torch.arccos(cos[i, c]) + margin), power)
        if margin_grad == "detached":  # g(cos) + Detach(g(cos(a + m)) - g(cos)), as SphereFace2 appendix F writes it
            target = straight_through(target, adjust(cos[i, c], power))
        losses.append(cross_entropy(scale * target, [scale * adjust(z, power) for z in others(cos[i], c)]))
    return mean(losses, x, w)


def ampface(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, margin: float = 0.35, wrong_class_relu: bool = True,
    margin_grad: str = "exact", margin_steps: int = 0, step: int = 0,
) -> Tensor:  # fmt: skip
    """AmpFace appendix B: the multiplicative margin m0, trained with the wrong-class ReLU (Table 3)."""
    margin = grown(1.0, margin, margin_steps, step)
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        target = margin * cos[i, c]
        if margin_grad == "detached":
            target = straight_through(target, cos[i, c])
        negatives = others(cos[i], c)
        if wrong_class_relu:
            negatives = [torch.clamp(n, min=0.0) for n in negatives]
        losses.append(cross_entropy(scale * target, [scale * n for n in negatives]))
    return mean(losses, x, w)


def curricularface(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, margin: float = 0.5, momentum: float = 0.99,
    t: Tensor | float = 0.0, training: bool = True,
) -> Tensor:  # fmt: skip
    """Huang et al. 2020 eqs. 5, 6 and 10 (SphereFace2 reference 10): hard negatives get c_j (t + c_j)."""
    cos = cosines(x, w)
    rows = with_class(y)
    t = torch.as_tensor(t, dtype=x.dtype).detach()
    if training and rows:
        t = momentum * t + (1 - momentum) * torch.stack([cos[i, c].detach() for i, c in rows]).mean()
    losses = []
    for i, c in rows:
        target = torch.cos(torch.arccos(cos[i, c]) + margin)
        negatives = [z if number(z) <= number(target) else z * (t + z) for z in others(cos[i], c)]
        losses.append(cross_entropy(scale * target, [scale * n for n in negatives]))
    return mean(losses, x, w)


def circle(x: Tensor, w: Tensor, y: Tensor, *, scale: float = 256.0, margin: float = 0.25) -> Tensor:
    """Sun et al. 2020 eqs. 6 and 8 (SphereFace2 reference 34), class-level labels; the weights carry no gradient."""
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        target = torch.clamp(1 + margin - cos[i, c], min=0.0).detach() * (cos[i, c] - (1 - margin))
        negatives = [torch.clamp(z + margin, min=0.0).detach() * (z - margin) for z in others(cos[i], c)]
        losses.append(cross_entropy(scale * target, [scale * n for n in negatives]))
    return mean(losses, x, w)


def ldam(x: Tensor, w: Tensor, y: Tensor, *, class_counts: Any, max_margin: float = 0.5, scale: float = 30.0) -> Tensor:
    """Largest Margins section 3.1, after eq. 3.3: beta = -C n_y^(-1/4), C such that the rarest class has max_margin."""
    counts = [float(n) for n in class_counts]
    constant = max_margin * min(counts) ** 0.25
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        target = scale * (cos[i, c] - constant * counts[c] ** -0.25)
        losses.append(cross_entropy(target, others(scale * cos[i], c)))
    return mean(losses, x, w)


def gm_softmax(
    x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0, alpha1: Number = 1.0, beta1: Number = 0.0,
    alpha2: Number = 1.0, beta2: Number = 0.0,
) -> Tensor:  # fmt: skip
    """Largest Margins eq. 3.3; the four numbers may be given per sample."""

    def of(value: Number, i: int) -> Number:
        return value[i] if isinstance(value, Tensor) and value.ndim else value

    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        numerator = scale * (of(alpha1, i) * cos[i, c] + of(beta1, i))
        first = scale * (of(alpha2, i) * cos[i, c] + of(beta2, i))
        losses.append(log_sum_exp([first, *others(scale * cos[i], c)]) - numerator)
    return mean(losses, x, w)


def lm_softmax(x: Tensor, w: Tensor, y: Tensor, *, scale: float = 64.0) -> Tensor:
    """Largest Margins eq. 3.5, right side."""
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        losses.append(log_sum_exp([scale * (z - cos[i, c]) for z in others(cos[i], c)]) / scale)
    return mean(losses, x, w)


# --------------------------------------------------------------------------------------------- binary classification

SPHEREFACE2_MARGINS = {"c": 0.4, "a": 0.5, "m": 1.7}


def sphereface2(
    x: Tensor, w: Tensor, y: Tensor, *, balance: float | None = 0.7, scale: float = 40.0, margin: float | None = None,
    power: float = 3.0, margin_type: str = "c", negative_margin: float | None = None, b: Tensor | None = None,
    margin_grad: str = "detached", adjustment_grad: str = "exact",
) -> Tensor:  # fmt: skip
    """SphereFace2 eq. 5 and appendix F (L_SF2-C, L_SF2-A, L_SF2-M); balance=None is eq. 1's unweighted sum.

    A row labelled -1 belongs to no class: all of its K terms are negative, and the row counts (section 1).
    adjustment_grad="detached" is the released code's g, whose derivative is 1.
    """
    m = SPHEREFACE2_MARGINS[margin_type] if margin is None else margin
    negative = 0.0 if margin_type != "c" else m if negative_margin is None else negative_margin
    positive_weight, negative_weight = (1.0, 1.0) if balance is None else (balance, 1 - balance)
    num_classes = len(w)
    bias = torch.zeros(num_classes, dtype=x.dtype) if b is None else b.expand(num_classes)

    def g(z: Tensor) -> Tensor:
        value = adjust(z, power)
        return straight_through(value, z) if adjustment_grad == "detached" else value

    cos = cosines(x, w)
    losses = []
    for i, c in enumerate(int(label) for label in y):
        loss = torch.zeros((), dtype=x.dtype)
        if c >= 0:
            plain = g(cos[i, c])
            angle = torch.arccos(cos[i, c])
            if margin_type == "c":
                logit = scale * (plain - m)
            else:
                if margin_type == "a":
                    moved = torch.minimum(torch.full_like(angle, math.pi), angle + m)
                else:
                    moved = torch.minimum(torch.full_like(angle, m), math.pi / angle) * angle
                with_margin = adjust(torch.cos(moved), power)
                if margin_grad == "detached":
                    with_margin = straight_through(with_margin, plain)
                elif adjustment_grad == "detached":
                    with_margin = straight_through(with_margin, torch.cos(moved))
                logit = scale * with_margin
            loss = loss + positive_weight / scale * log_one_plus_exp(-logit - bias[c])
        for j in range(num_classes):
            if j != c:
                loss = loss + negative_weight / scale * log_one_plus_exp(scale * (g(cos[i, j]) + negative) + bias[j])
        losses.append(loss)
    return mean(losses, x, w)


def sphereface2_bias(
    num_classes: int, *, balance: float | None = 0.7, scale: float = 40.0, margin: float | None = None,
    power: float = 3.0, margin_type: str = "c", negative_margin: float | None = None,
) -> float:  # fmt: skip
    """The root of SphereFace2 eq. 7 at cos = 0, by bisection (appendix G without its closed form)."""
    residual = bias_residual(
        num_classes,
        balance,
        scale,
        margin=margin,
        power=power,
        margin_type=margin_type,
        negative_margin=negative_margin,
    )
    low, high = -1e5, 1e5
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if residual(middle) < 0 else (low, middle)
    return (low + high) / 2


def bias_residual(
    num_classes: int, balance: float | None, scale: float, *, margin: float | None = None, power: float = 3.0,
    margin_type: str = "c", negative_margin: float | None = None,
) -> Callable[[float], float]:  # fmt: skip
    """b -> log(negative part) - log(positive part) of dL/db (SphereFace2 eq. 7) when every cosine is 0."""
    m = SPHEREFACE2_MARGINS[margin_type] if margin is None else margin
    adjusted = lambda z: 2 * ((z + 1) / 2) ** power - 1  # noqa: E731
    plain = adjusted(0.0)
    if margin_type == "c":
        a_y = scale * (plain - m)
        a_i = scale * (plain + (m if negative_margin is None else negative_margin))
    else:
        moved = min(math.pi, math.pi / 2 + m) if margin_type == "a" else min(m, 2.0) * math.pi / 2
        a_y, a_i = scale * adjusted(math.cos(moved)), scale * plain
    positive, negative = (1.0, 1.0) if balance is None else (balance, 1 - balance)

    def log_sigmoid(z: float) -> float:
        return -math.log1p(math.exp(-z)) if z > 0 else z - math.log1p(math.exp(z))

    constant = math.log(negative) + math.log(num_classes - 1) - math.log(positive)
    return lambda b: constant + log_sigmoid(a_i + b) - log_sigmoid(-a_y - b)


# ------------------------------------------------------------------------------------------------ agents and pairs


def c_contrastive(x: Tensor, w: Tensor, y: Tensor, *, margin: float = 1.0) -> Tensor:
    """NormFace eq. 10, summed over the agents; a stranger (-1) has negative terms only and counts."""
    squared = 2 - 2 * cosines(x, w)
    losses = []
    for i, c in enumerate(int(label) for label in y):
        loss = sum(torch.clamp(margin - d, min=0.0) for d in others(squared[i], c))
        losses.append(loss + squared[i, c] if c >= 0 else loss)
    return mean(losses, x, w)  # type: ignore[arg-type]


def c_triplet(
    x: Tensor, w: Tensor, y: Tensor, *, margin: float = 0.8, negatives: str = "all", center: bool = False
) -> Tensor:
    """NormFace eq. 11; with `center`, section 5.2: the positive distance is optimised whether or not a triplet is."""
    squared = 2 - 2 * cosines(x, w)
    losses = []
    for i, c in with_class(y):
        own = squared[i, c].detach() if center else squared[i, c]
        terms = [torch.clamp(margin + own - d, min=0.0) for d in others(squared[i], c)]
        if center:
            terms = [term + squared[i, c] for term in terms]
        losses.append(sum(terms) if negatives == "all" else max(terms, key=number))  # type: ignore[arg-type]
    return mean(losses, x, w)  # type: ignore[arg-type]


def contrastive(x: Tensor, y: Tensor, *, margin: float = 1.0, distance: str = "unit") -> Tensor:
    """NormFace eq. 7, mean over the pairs i < j of rows that have a class; `euclidean`: DeepID2 eq. 3."""
    f = unit(x) if distance == "unit" else x
    losses = []
    for i in range(len(y)):
        for j in range(i + 1, len(y)):
            if y[i] >= 0 and y[j] >= 0:
                d = ((f[i] - f[j]) ** 2).sum()
                if distance == "unit":
                    losses.append(d if y[i] == y[j] else torch.clamp(margin - d, min=0.0))
                else:
                    losses.append(d / 2 if y[i] == y[j] else torch.clamp(margin - d.sqrt(), min=0.0) ** 2 / 2)
    return mean(losses, x)


def triplet(x: Tensor, y: Tensor, *, margin: float = 0.2, mining: str = "all", distance: str = "unit") -> Tensor:
    """NormFace eq. 8 over all triplets, over (a, p) with their nearest semi-hard n, or over each anchor's hardest."""
    f = unit(x) if distance == "unit" else x
    rows = with_class(y)

    def d(i: int, j: int) -> Tensor:
        squared = ((f[i] - f[j]) ** 2).sum()
        return squared if distance == "unit" else squared.sqrt()

    losses = []
    for a, ca in rows:
        positives = [d(a, p) for p, cp in rows if cp == ca and p != a]
        negatives = [d(a, n) for n, cn in rows if cn != ca]
        if not positives or not negatives:
            continue
        if mining == "all":
            losses += [torch.clamp(margin + p - n, min=0.0) for p in positives for n in negatives]
        elif mining == "hard":
            losses.append(torch.clamp(margin + max(positives, key=number) - min(negatives, key=number), min=0.0))
        else:
            for p in positives:
                inside = [n for n in negatives if number(p) < number(n) < number(p) + margin]
                if inside:
                    losses.append(torch.clamp(margin + p - min(inside, key=number), min=0.0))
    return mean(losses, x)


# ----------------------------------------------------------------------------------------------------- regularisers


def center(x: Tensor, w: Tensor, y: Tensor, *, centers: Tensor, normalize: bool = False) -> Tensor:
    """Center loss (NormFace reference 36, SphereFace reference 34): 1/2 |x - c_y|^2; NormFace Table 2 normalises it."""
    points, middles = (unit(x), unit(centers)) if normalize else (x, centers)
    return mean([0.5 * ((points[i] - middles[c]) ** 2).sum() for i, c in with_class(y)], x)


def moved_centers(x: Tensor, y: Tensor, *, centers: Tensor, alpha: float = 0.5, normalize: bool = False) -> Tensor:
    """Wen et al. eqs. 3 and 4: c_j - alpha sum_i [y_i = j] (c_j - x_i) / (1 + sum_i [y_i = j]), class by class."""
    points, after = (unit(x) if normalize else x), centers.clone()
    for j in range(len(centers)):
        rows = [points[i] for i, c in with_class(y) if c == j]
        if rows:
            after[j] = centers[j] - alpha * sum(centers[j] - row for row in rows) / (1 + len(rows))
    return after


def sample_margin(x: Tensor, w: Tensor, y: Tensor, *, form: str = "max") -> Tensor:
    """Largest Margins eq. 3.4 on cosines; form="mean" is the right side of eq. B.2."""
    cos = cosines(x, w)
    losses = []
    for i, c in with_class(y):
        rest = others(cos[i], c)
        away = max(rest, key=number) if form == "max" else sum(rest) / len(rest)
        losses.append(away - cos[i, c])
    return mean(losses, x, w)


def zero_centroid(x: Tensor, w: Tensor, y: Tensor, *, raw: bool = False) -> Tensor:
    """Largest Margins eq. 3.7 with appendix C's factor 100; raw prototypes under losses that do not normalise them."""
    prototypes = w if raw else unit(w)
    return 100 * (prototypes.mean(0) ** 2).sum()


def hyperspherical_energy(x: Tensor, w: Tensor, y: Tensor, *, exponent: float = 2.0) -> Tensor:
    """Largest Margins eq. 2.4's Riesz energy before the limit, mean over ordered pairs; exponent 0 is log(1 / d)."""
    f = unit(w)
    terms = []
    for i in range(len(f)):
        for j in range(len(f)):
            if i != j:
                d = torch.sqrt(((f[i] - f[j]) ** 2).sum())
                terms.append(-torch.log(d) if exponent == 0 else d**-exponent)
    return torch.stack(terms).mean()


HEADS: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        softmax, label_smoothing, label_aware_smoothing, modified_softmax, normface, coco, l_softmax, sphereface,
        sphereface_r, cosface, arcface, ampface, unified, curricularface, circle, ldam, focal, gm_softmax, lm_softmax,
        sphereface2, c_contrastive, c_triplet, center, sample_margin, zero_centroid, hyperspherical_energy,
    )
}  # fmt: skip
PAIRS: dict[str, Callable[..., Tensor]] = {"contrastive": contrastive, "triplet": triplet}
COUNT_STRANGERS = ("sphereface2", "c_contrastive")
