"""Every objective, every option, on every class chunking: value and all gradients equal the papers' equations."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from tests.losses import reference as ref

NUM_CLASSES, DIM = 8, 5
TOLERANCE = 1e-10
LABELS = (0, 1, 2, -1, 3, 4, 5, 6, 7, 1, -1, 0)
ANGLES = (0.15, 0.7, 1.2, 1.0, 1.7, 2.2, 2.45, 2.9, 0.02, 1.45, 2.0, 3.1)  # to the own prototype; every k of psi
NORMS = (1.0, 0.3, 4.0, 2.0, 1.3, 6.0, 0.8, 2.5, 1.0, 0.05, 3.0, 1.7)
COUNTS = (500, 20, 3, 77, 1, 9, 250, 40)
QUICK = {"base": 20.0, "gamma": 0.5, "power": 2.0, "minimum": 1.5}
RAW_PROTOTYPES = ("softmax", "label_smoothing", "label_aware_smoothing", "focal", "l_softmax")

GROWING: list[tuple[str, dict[str, Any]]] = [
    ("cosface", {}),
    ("cosface", {"power": 2.0}),
    ("arcface", {}),
    ("arcface", {"power": 0.7, "margin_grad": "detached"}),
    ("ampface", {}),
    ("ampface", {"margin_grad": "detached", "wrong_class_relu": False}),
    ("unified", {"m0": 0.7, "m1": 1.2, "m2": 0.2, "m3": 0.1}),
    ("unified", {"m0": 0.8, "m1": 1.3, "wrong_class_relu": True, "margin_grad": "detached"}),
]


@dataclass(frozen=True)
class Case:
    name: str
    keywords: dict[str, Any] = field(default_factory=dict)
    add: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    steps: int = 0
    call: Mapping[str, Tensor] = field(default_factory=dict)
    training: bool = True

    def __str__(self) -> str:
        parts = [f"{k}={v}" for k, v in self.keywords.items() if k not in ("class_counts", "anneal")]
        parts += ["anneal" + str(self.keywords["anneal"] and "=quick")] if "anneal" in self.keywords else []
        parts += [f"+{k}({','.join(f'{a}={b}' for a, b in v.items())})" for k, v in self.add.items()]
        parts += [f"step{self.steps}"] * bool(self.steps) + ["per-sample"] * bool(self.call)
        parts += ["eval"] * (not self.training)
        return "-".join([self.name, *parts]).replace(" ", "")


def per_sample(seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    draw = torch.rand(4, len(LABELS), generator=g, dtype=torch.float64)
    return {"alpha1": 0.5 + draw[0], "beta1": -draw[1], "alpha2": draw[2] - 0.5, "beta2": draw[3] - 0.5}


CASES = [
    Case("softmax"),
    Case("softmax", {"bias": False}),
    *[Case("label_smoothing", {"bias": bias}) for bias in (True, False)],
    *[Case("label_smoothing", {"smoothing": e}) for e in (0.0, 0.6)],
    *[Case("label_aware_smoothing", {"class_counts": COUNTS, "bias": bias}) for bias in (True, False)],
    *[
        Case("label_aware_smoothing", {"class_counts": COUNTS, "bias": bias, "weight_scaling": True})
        for bias in (True, False)
    ],
    Case("label_aware_smoothing", {"class_counts": COUNTS, "head_smoothing": 0.7, "tail_smoothing": 0.2}),
    Case("label_aware_smoothing", {"class_counts": (4,) * 8, "tail_smoothing": 0.1}),
    Case("modified_softmax"),
    Case("normface"),
    Case("normface", {"scale": 20.0, "learnable_scale": False}),
    Case("normface", {"scale": 33.0, "learnable_scale": True}),
    Case("normface", {"normalize": "embeddings"}),
    Case("normface", {"normalize": "embeddings", "scale": 5.0, "learnable_scale": False}),
    Case("normface", {"normalize": "prototypes"}),
    Case("normface", {"normalize": "prototypes", "scale": 2.0, "learnable_scale": True}),
    Case("normface", {"power": 2.0}),
    Case("normface", {"power": 0.7, "scale": 30.0}),
    Case("normface", {"eps": 1e-3}),
    Case("coco"),
    Case("coco", {"scale": 9.0}),
    *[Case("l_softmax", {"margin": m, "anneal": None}) for m in (1, 2, 3, 4)],
    Case("l_softmax"),
    Case("l_softmax", steps=200),
    Case("l_softmax", {"margin": 3, "anneal": QUICK}, steps=2),
    Case("l_softmax", {"margin": 3, "anneal": None, "margin_grad": "detached"}),
    Case("l_softmax", {"anneal": QUICK, "margin_grad": "detached"}, steps=1),
    *[Case("sphereface", {"margin": m, "anneal": None}) for m in (1, 2, 3, 4)],
    *[Case("sphereface", {"margin": m, "anneal": None, "scale": 30.0}) for m in (1, 2, 3, 4)],
    *[Case("sphereface", steps=steps) for steps in (0, 1, 60, 2000)],
    *[Case("sphereface", {"margin": 3, "anneal": QUICK}, steps=steps) for steps in (0, 1, 3, 9)],
    Case("sphereface", {"margin": 4, "anneal": None, "margin_grad": "detached"}),
    Case("sphereface", {"margin": 2, "scale": 12.0, "anneal": QUICK, "margin_grad": "detached"}, steps=2),
    Case("sphereface", {"anneal": None, "eps": 1e-3}),
    Case("sphereface_r"),
    Case("sphereface_r", {"margin_grad": "exact"}),
    Case("sphereface_r", {"margin": 1.0, "margin_grad": "exact"}),
    Case("sphereface_r", {"margin": 3.3, "scale": 8.0, "margin_grad": "exact"}),
    Case("sphereface_r", {"version": 0}),
    *[Case("sphereface_r", {"version": 0, "margin": m, "margin_grad": "exact"}) for m in (1.0, 1.5, 2.7, 4.0)],
    Case("sphereface_r", {"version": 2}),
    Case("sphereface_r", {"version": 2, "margin": 1.7, "margin_grad": "exact"}),
    Case("cosface"),
    Case("cosface", {"scale": 10.0, "margin": 0.1}),
    Case("cosface", {"scale": 20.0, "power": 3.0}),
    Case("cosface", {"scale": 20.0, "power": 0.5}),
    Case("arcface"),
    Case("arcface", {"margin_grad": "detached"}),
    Case("arcface", {"scale": 10.0, "margin": 0.0}),
    Case("arcface", {"scale": 20.0, "power": 3.0}),
    Case("arcface", {"scale": 20.0, "power": 0.7}),
    Case("arcface", {"scale": 20.0, "power": 3.0, "margin_grad": "detached"}),
    Case("ampface"),
    Case("ampface", {"wrong_class_relu": False}),
    Case("ampface", {"scale": 12.0, "margin": 0.6}),
    Case("ampface", {"margin_grad": "detached"}),
    Case("unified"),
    Case("unified", {"scale": 24.0, "m0": 0.7, "m1": 1.2, "m2": 0.2, "m3": 0.1}),
    Case("unified", {"scale": 24.0, "m0": 0.7, "m1": 1.2, "m2": 0.2, "m3": 0.1, "wrong_class_relu": True}),
    Case("unified", {"scale": 24.0, "m0": 0.7, "m1": 1.2, "m2": 0.2, "m3": 0.1, "margin_grad": "detached"}),
    Case("unified", {"scale": 24.0, "m1": 1.35, "wrong_class_relu": True}),
    Case("unified", {"scale": 24.0, "m0": 0.5, "m2": 0.3, "power": 2.0, "wrong_class_relu": True}),
    Case("unified", {"scale": 24.0, "m2": 0.3, "power": 0.5}),
    Case("unified", {"scale": 24.0, "m0": 0.8, "m2": 0.3, "power": 2.0, "margin_grad": "detached"}),
    *[
        Case(name, {"scale": 24.0, "margin_steps": 7, **more}, steps=steps)
        for name, more in GROWING
        for steps in (0, 3, 12)
    ],
    Case("curricularface"),
    Case("curricularface", {"scale": 10.0, "margin": 0.2, "momentum": 0.4}),
    Case("curricularface", {"scale": 10.0, "momentum": 0.4}, training=False),
    Case("circle"),
    Case("circle", {"scale": 16.0, "margin": 0.4}),
    Case("ldam", {"class_counts": COUNTS}),
    Case("ldam", {"class_counts": COUNTS, "max_margin": 0.8, "scale": 5.0}),
    Case("focal"),
    Case("focal", {"gamma": 0.0}),
    Case("focal", {"gamma": 0.5, "bias": False}),
    Case("focal", {"gamma": 1.0}),
    Case("gm_softmax"),
    Case("gm_softmax", {"scale": 10.0, "alpha1": 0.9, "beta1": -0.2, "alpha2": 0.3, "beta2": 0.4}),
    Case("gm_softmax", {"scale": 10.0}, call=per_sample(1)),
    Case("gm_softmax", {"scale": 64.0, "beta1": 0.3}, call={"alpha2": per_sample(2)["alpha2"]}),
    Case("lm_softmax"),
    Case("lm_softmax", {"scale": 5.0}),
    Case("sphereface2"),
    Case("sphereface2", {"negative_margin": 0.1}),
    Case("sphereface2", {"negative_margin": 0.0, "margin": 0.8}),
    Case("sphereface2", {"balance": None, "scale": 1.0, "margin": 0.0, "power": 1.0, "bias": None}),
    Case("sphereface2", {"balance": None}),
    Case("sphereface2", {"balance": 0.99, "scale": 12.0, "bias": None}),
    Case("sphereface2", {"bias": "class"}),
    Case("sphereface2", {"power": 1.0}),
    Case("sphereface2", {"power": 0.7}),
    Case("sphereface2", {"adjustment_grad": "detached"}),
    Case("sphereface2", {"margin_type": "a"}),
    Case("sphereface2", {"margin_type": "a", "margin_grad": "exact"}),
    Case("sphereface2", {"margin_type": "a", "adjustment_grad": "detached"}),
    Case("sphereface2", {"margin_type": "a", "adjustment_grad": "detached", "margin_grad": "exact"}),
    Case("sphereface2", {"margin_type": "a", "margin": 1.0, "bias": "class"}),
    Case("sphereface2", {"margin_type": "m"}),
    Case("sphereface2", {"margin_type": "m", "margin_grad": "exact"}),
    Case("sphereface2", {"margin_type": "m", "adjustment_grad": "detached"}),
    Case("sphereface2", {"margin_type": "m", "margin": 1.2, "power": 1.0, "bias": None}),
    *[Case("c_contrastive", {"margin": m}) for m in (1.0, 0.3, 3.0)],
    *[
        Case("c_triplet", {"negatives": negatives, "center": center})
        for negatives in ("all", "hardest")
        for center in (False, True)
    ],
    Case("c_triplet", {"margin": 2.0}),
    Case("sample_margin"),
    Case("sample_margin", {"form": "mean"}),
    Case("normface", add={"c_contrastive": {"weight": 0.01, "margin": 1.0}}),
    Case("normface", add={"c_contrastive": {}}),
    Case("cosface", {"scale": 10.0}, add={"sample_margin": {"weight": 0.5}}),
    Case("arcface", {"scale": 10.0}, add={"sample_margin": {"weight": 0.5, "form": "mean"}}),
    Case("lm_softmax", {"scale": 10.0}, add={"zero_centroid": {"weight": 5.0}}),
    Case("softmax", add={"zero_centroid": {"weight": 2.0}, "sample_margin": {"weight": 0.5}}),
    Case("focal", add={"zero_centroid": {}}),
    Case("label_smoothing", add={"zero_centroid": {}}),
    Case("arcface", {"margin_steps": 4}, add={"sample_margin": {}, "cosface": {"margin_steps": 8}}, steps=2),
    Case("l_softmax", add={"zero_centroid": {}}),
    Case("modified_softmax", add={"zero_centroid": {}}),
    Case("normface", {"normalize": "embeddings"}, add={"zero_centroid": {}}),
    Case("normface", {"normalize": "prototypes"}, add={"zero_centroid": {}}),
    Case("softmax", add={"center": {"weight": 0.003}}),
    Case("normface", add={"center": {"weight": 0.3, "normalize": True}}),
    Case("normface", add={"center": {"weight": 0.3, "normalize": True}}, training=False),
    Case("sphereface2", add={"c_triplet": {"weight": 0.2, "center": True}, "c_contrastive": {"weight": 3.0}}),
    *[Case("normface", add={"hyperspherical_energy": {"weight": 0.7, "exponent": e}}) for e in (0, 1, 2, 3.5)],
    Case("sphereface", {"anneal": QUICK}, add={"hyperspherical_energy": {}, "center": {"weight": 0.1}}, steps=3),
]
ENGINES = [
    pytest.param("dense", None, id="dense"),
    pytest.param("chunked", 1, id="chunked1"),
    pytest.param("chunked", 3, id="chunked3"),
    pytest.param("chunked", 7, id="chunked7", marks=pytest.mark.slow),
    pytest.param("chunked", 50, id="chunked50"),
]


def batch(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings at chosen angles to their prototypes, prototypes of uneven norms, labels with strangers among them."""
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(NUM_CLASSES, DIM, generator=g, dtype=torch.float64)
    w = w * torch.linspace(0.4, 2.5, NUM_CLASSES, dtype=torch.float64)[:, None]
    own = w / w.norm(dim=1, keepdim=True)
    rows = []
    for label, angle, length in zip(LABELS, ANGLES, NORMS, strict=True):
        axis = own[label]
        side = torch.randn(DIM, generator=g, dtype=torch.float64)
        side = side - (side @ axis) * axis
        a = torch.tensor(angle, dtype=torch.float64)
        rows.append(length * (torch.cos(a) * axis + torch.sin(a) * side / side.norm()))
    return torch.stack(rows), w, torch.tensor(LABELS)


def build(case: Case, engine: str, chunk_size: int | None, w: Tensor) -> hs.Head:
    """The head in float64 with the prototypes of the batch; biases and centres away from zero."""
    options: dict[str, Any] = {**case.keywords, "engine": engine, "chunk_size": chunk_size}
    if case.add:
        options["add"] = {k: dict(v) for k, v in case.add.items()}
    head = hs.create_head(case.name, dim=DIM, num_classes=NUM_CLASSES, **options).double()
    g = torch.Generator().manual_seed(99)
    with torch.no_grad():
        head.weight.copy_(w)
        for name, entries in head.state_dict().items():
            if name.endswith(("centers", "class_scale")) or (name.endswith("bias") and entries.ndim):
                entries.add_(0.3 * torch.randn(entries.shape, generator=g, dtype=torch.float64))
    for _ in range(case.steps):
        head.advance()
    return head.train(case.training)


def leaf(t: Tensor) -> Tensor:
    return t.detach().clone().requires_grad_()


def expected(case: Case, head: hs.Head, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The papers' value, and the leaves it was computed from under the head's parameter names."""
    leaves = {"weight": leaf(head.weight), "embeddings": leaf(x)}

    def evaluate(name: str, module: torch.nn.Module, prefix: str, keywords: dict[str, Any]) -> Tensor:
        k: dict[str, Any] = {key: v for key, v in keywords.items() if key not in ("bias", "learnable_scale", "weight")}
        for key, parameter in module.named_parameters(recurse=False):
            k[{"bias": "b"}.get(key, key)] = learned = leaf(parameter)
            if parameter.requires_grad:
                leaves[f"{prefix}.{key}"] = learned
        if name in ("sphereface", "l_softmax") or "margin_steps" in k:
            k["step"] = case.steps
        if name == "curricularface":
            k |= {"t": module.t.clone(), "training": case.training}
        if name == "center":
            k["centers"] = module.centers.clone()
        if name == "zero_centroid":
            k["raw"] = case.name in RAW_PROTOTYPES or case.keywords.get("normalize") == "embeddings"
        if name == "normface" and "scale" not in k:
            k["scale"] = 1.0
        return ref.HEADS[name](leaves["embeddings"], leaves["weight"], y, **k)

    loss = evaluate(case.name, head.objective, "objective", {**case.keywords, **case.call})
    for name, keywords in case.add.items():
        loss = loss + keywords.get("weight", 1.0) * evaluate(name, head.added[name], f"added.{name}", keywords)  # type: ignore[arg-type]
    return loss, leaves


def assert_close(actual: Tensor | None, wanted: Tensor, what: str, tolerance: float = TOLERANCE) -> None:
    assert actual is not None, f"{what}: no gradient"
    assert actual.shape == wanted.shape, f"{what}: shape {tuple(actual.shape)}, not {tuple(wanted.shape)}"
    error = (actual - wanted).abs().max().item()
    size = wanted.abs().max().item()
    assert error <= tolerance * size, f"{what}: off by {error:.3g} where the paper's largest entry is {size:.3g}"


@pytest.mark.parametrize(("engine", "chunk_size"), ENGINES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradients(case: Case, engine: str, chunk_size: int | None) -> None:
    x, w, y = batch()
    head = build(case, engine, chunk_size, w)
    wanted, leaves = expected(case, head, x, y)
    names = list(leaves)
    wanted_grads = dict(zip(names, torch.autograd.grad(wanted, list(leaves.values())), strict=True))

    embeddings = leaf(x)
    loss = head(embeddings, y, **case.call)
    loss.backward()

    assert loss.shape == ()
    assert loss.dtype == torch.float64
    assert_close(loss.detach(), wanted.detach(), "loss")
    assert_close(embeddings.grad, wanted_grads.pop("embeddings"), "embeddings")
    parameters = {name: p for name, p in head.named_parameters() if p.requires_grad}
    assert set(parameters) == set(wanted_grads)
    for name, parameter in parameters.items():
        assert_close(parameter.grad, wanted_grads[name], name)


@pytest.mark.parametrize("name", ["center", "zero_centroid", "hyperspherical_energy"])
def test_regularisers_make_a_head_by_themselves(name: str) -> None:
    x, w, y = batch()
    case = Case(name)
    head = build(case, "dense", None, w)
    wanted, _ = expected(case, head, x, y)
    loss = head(x, y)
    assert_close(loss.detach(), wanted.detach(), "loss")


def test_every_objective_and_every_learned_number_is_covered() -> None:
    covered = {case.name for case in CASES} | {name for case in CASES for name in case.add}
    assert covered == set(ref.HEADS)


@pytest.mark.parametrize("case", [Case("normface"), Case("normface", {"normalize": "embeddings"})], ids=str)
def test_default_scale_of_normface_is_learned_from_ten(case: Case) -> None:
    head = hs.create_head(case.name, dim=DIM, num_classes=NUM_CLASSES, **case.keywords)
    assert "objective.scale" in dict(head.named_parameters())
    assert float(head.objective.scale.detach()) == 10.0


def test_curricular_t_is_a_moving_average_of_the_target_cosines() -> None:
    x, w, y = batch()
    head = build(Case("curricularface", {"momentum": 0.9}), "dense", None, w)
    known = y >= 0
    average = ref.cosines(x, w)[known, y[known]].mean()
    t = torch.zeros((), dtype=torch.float64)
    for _ in range(3):
        head(x, y)
        t = 0.9 * t + 0.1 * average
        assert_close(head.objective.get_buffer("t"), t, "t")
    head.eval()
    head(x, y)
    assert_close(head.objective.get_buffer("t"), t, "t after eval")


@pytest.mark.parametrize("name", ["sphereface", "l_softmax"])
def test_only_advance_moves_the_annealing(name: str) -> None:
    x, w, y = batch()
    head = build(Case(name, {"anneal": QUICK}), "dense", None, w)
    before = head(x, y)
    assert torch.equal(before, head(x, y))
    head.advance()
    assert int(head.objective.get_buffer("step")) == 1
    assert not torch.equal(before, head(x, y))
    assert "objective.step" in head.state_dict()


@pytest.mark.parametrize(("name", "keywords"), GROWING)
def test_only_advance_moves_the_margins(name: str, keywords: dict[str, Any]) -> None:
    x, w, y = batch()
    head, full = (build(Case(name, {**keywords, **more}), "dense", None, w) for more in ({"margin_steps": 2}, {}))
    losses = []
    for step in range(5):
        assert int(head.objective.get_buffer("step")) == int(head.state_dict()["objective.step"]) == step
        losses.append(float(head(x, y).detach()))
        assert losses[-1] == float(head.eval()(x, y).detach())
        head.train().advance()
    assert len(set(losses[:3])) == 3
    assert losses[2] == losses[3] == losses[4] == float(full(x, y).detach())
    assert "objective.step" not in full.state_dict()


@pytest.mark.parametrize(
    ("name", "keywords"),
    [
        ("contrastive", {}),
        ("contrastive", {"margin": 2.5}),
        ("contrastive", {"margin": 3.0, "distance": "euclidean"}),
        ("contrastive", {"margin": 50.0, "distance": "euclidean"}),
        ("triplet", {}),
        ("triplet", {"margin": 1.0, "mining": "all"}),
        ("triplet", {"mining": "all"}),
        ("triplet", {"margin": 1.0, "mining": "semihard"}),
        ("triplet", {"margin": 0.3, "mining": "semihard"}),
        ("triplet", {"margin": 1.0, "mining": "hard"}),
        ("triplet", {"margin": 0.3, "mining": "hard", "distance": "euclidean"}),
        ("triplet", {"margin": 5.0, "mining": "semihard", "distance": "euclidean"}),
        ("triplet", {"distance": "euclidean"}),
    ],
)
@pytest.mark.parametrize("labels", [(0, 1, 0, 2, -1, 1, 1, 0, -1, 2, 3, 0), LABELS], ids=["few", "many"])
def test_pair_losses(name: str, keywords: dict[str, Any], labels: tuple[int, ...]) -> None:
    x = ref.unit(batch()[0]) * 2.0  # long enough for eps: |f~|^2 is 1 to 1e-12
    y = torch.tensor(labels)
    mine, theirs = leaf(x), leaf(x)
    wanted = ref.PAIRS[name](mine, y, **keywords)
    loss = hs.create_loss(name, **keywords)(theirs, y)
    wanted.backward()
    loss.backward()
    assert_close(loss.detach(), wanted.detach(), "loss")
    assert_close(theirs.grad, mine.grad, "embeddings")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["contrastive", "triplet"])
@pytest.mark.parametrize("labels", [(0, 1, 2, 3), (0, 0, 0, 0), (-1, -1, -1, 0)])
def test_pair_losses_without_a_pair(name: str, labels: tuple[int, ...]) -> None:
    x = leaf(batch()[0][:4])
    y = torch.tensor(labels)
    loss = hs.create_loss(name)(x, y)
    wanted = ref.PAIRS[name](x, y)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=TOLERANCE, abs=0.0)
    assert x.grad is not None


NOT_A_DERIVATIVE = ("circle",)


def exact(case: Case) -> bool:
    k = case.keywords
    if "detached" in (k.get("margin_grad"), k.get("adjustment_grad")) or case.name in NOT_A_DERIVATIVE:
        return False
    if case.name == "sphereface_r" or (case.name == "sphereface2" and k.get("margin_type", "c") != "c"):
        return k.get("margin_grad") == "exact"
    stopped = k.get("center") or any(v.get("center") for v in case.add.values())
    moves = case.name == "curricularface" or "center" in case.add  # every call in training changes the loss
    return not stopped and not (moves and case.training)


WHOLE = [pytest.param(engine, False, marks=pytest.mark.slow) for engine in ("dense", "chunked")]


@pytest.mark.parametrize(("engine", "random_direction"), [("chunked", True), *WHOLE])
@pytest.mark.parametrize("case", [c for c in CASES if exact(c) and not c.steps and not c.call], ids=str)
def test_gradcheck(case: Case, engine: str, random_direction: bool) -> None:
    """The gradient is the loss's own derivative wherever the papers do not stop it.

    Along a random direction of each input; in the slow tests by every number of it.
    """
    torch.manual_seed(0)
    x, w, y = batch(3)
    keep = torch.tensor([1, 2, 3, 5, 9])
    x, y = x[keep], y[keep]
    head = build(case, engine, 3 if engine == "chunked" else None, w)
    learned = {name: p for name, p in head.named_parameters() if p.requires_grad}

    def loss(embeddings: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(head, dict(zip(learned, parameters, strict=True)), (embeddings, y))

    inputs = (leaf(x), *map(leaf, learned.values()))
    assert torch.autograd.gradcheck(
        loss, inputs, eps=1e-6, atol=1e-6, rtol=1e-5, nondet_tol=0.0, fast_mode=random_direction
    )


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_auto_is_one_of_the_engines(engine: str) -> None:
    x, w, y = batch()
    for name in ("arcface", "sphereface2", "c_triplet"):
        one, other = (build(Case(name), e, None, w) for e in ("auto", engine))
        assert_close(one(x, y).detach(), other(x, y).detach(), name)


NEAR_POLES = [c for c in CASES if not c.add and c.name not in ("center", "zero_centroid", "hyperspherical_energy")]


@pytest.mark.parametrize("angle", [0.005, math.pi - 0.005])
@pytest.mark.parametrize("engine", [pytest.param("dense", marks=pytest.mark.slow), "chunked"])
@pytest.mark.parametrize("case", [c for c in NEAR_POLES if not c.steps and not c.call], ids=str)
def test_next_to_the_poles(case: Case, engine: str, angle: float) -> None:
    """A few thousandths of a radian from the own prototype or its opposite, and from a neighbour's too."""
    _, w, _ = batch(5)
    own = w[2] / w[2].norm()
    side = w[3] - (w[3] @ own) * own
    a = torch.tensor(angle, dtype=torch.float64)
    x = 1.5 * (torch.cos(a) * own + torch.sin(a) * side / side.norm())[None].repeat(2, 1)
    y = torch.tensor([2, 0])
    head = build(case, engine, None, w)
    wanted, leaves = expected(case, head, x, y)
    embeddings = leaf(x)
    loss = head(embeddings, y)
    loss.backward()
    wanted_grads = torch.autograd.grad(wanted, [leaves["embeddings"], leaves["weight"]])
    assert_close(loss.detach(), wanted.detach(), "loss", 1e-9)
    assert_close(embeddings.grad, wanted_grads[0], "embeddings", 1e-6)
    assert_close(head.weight.grad, wanted_grads[1], "weight", 1e-6)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", ["arcface", "softmax", "sphereface2", "c_triplet"])
def test_given_prototypes_are_used_and_not_trained(name: str, engine: str) -> None:
    x, w, y = batch()
    w = w.float().double()
    learned = build(Case(name), engine, None, w)
    fixed = hs.create_head(name, dim=DIM, num_classes=NUM_CLASSES, engine=engine, prototypes=w.clone()).double()
    if name == "softmax":
        with torch.no_grad():
            fixed.objective.bias.copy_(learned.objective.get_parameter("bias"))
    grads = []
    for head in (learned, fixed):
        embeddings = leaf(x)
        loss = head(embeddings, y)
        loss.backward()
        grads.append((loss.detach(), embeddings.grad))
    assert_close(grads[1][0], grads[0][0], "loss")
    assert_close(grads[1][1], grads[0][1], "embeddings")  # type: ignore[arg-type]
    assert not fixed.weight.requires_grad


def test_given_prototypes_keep_their_dtype() -> None:
    """The prototypes' dtype is never changed behind the user's back."""
    w = batch()[1]
    for given in (w, w.float(), w.bfloat16()):
        head = hs.create_head("arcface", dim=DIM, num_classes=NUM_CLASSES, prototypes=given)
        assert head.weight.dtype == given.dtype
        assert torch.equal(head.weight, given)


def test_cosines() -> None:
    x, w, _ = batch()
    assert_close(build(Case("arcface"), "dense", None, w).cosines(x).detach(), ref.cosines(x, w), "cosines", 1e-12)
