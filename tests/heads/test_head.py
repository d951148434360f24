"""The head's contract: one call, pure in eval, exact under autocast and compile, honest about bad input."""

import copy
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import hypersphere as hs
from tests.losses import reference

C, D = 7, 5
OPTIONS: dict[str, Any] = {name: {"class_counts": [1, 2, 3, 4, 5, 6, 7]} for name in ("ldam", "label_aware_smoothing")}
PAIRS = ("contrastive", "triplet")


def make(name: str, **options: object) -> hs.Head:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=D, num_classes=C, **OPTIONS.get(name, {}), **options)  # type: ignore[call-overload]
    if isinstance(head.weight, nn.Parameter):
        nn.init.normal_(head.weight)
    return head


def batch(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(6, D).to(dtype), torch.tensor([0, 6, 3, -1, 3, 0])


def test_every_name_of_the_design_is_there() -> None:
    assert set(hs.list_heads()) == {
        "softmax", "modified_softmax", "normface", "l_softmax", "sphereface", "sphereface_r", "cosface", "arcface",
        "ampface", "unified", "coco", "curricularface", "circle", "ldam", "focal", "lm_softmax", "gm_softmax",
        "sphereface2", "c_contrastive", "c_triplet", "contrastive", "triplet", "center", "sample_margin",
        "zero_centroid", "hyperspherical_energy", "label_smoothing", "label_aware_smoothing",
    }  # fmt: skip
    assert hs.list_heads("sphere*") == ["sphereface", "sphereface2", "sphereface_r"]


@pytest.mark.parametrize("name", hs.list_heads())
def test_docstring_has_equation_reference_and_example(name: str) -> None:
    text = type(make(name).objective).__doc__ or ""
    assert "References:" in text
    assert f'"{name}"' in text
    equation = text.split("Args:")[0].split("References:")[0]
    assert re.search(r"=|target|\|\|", equation), "the equation stands before the arguments"


@pytest.mark.parametrize("name", hs.list_heads())
def test_eval_forward_changes_nothing(name: str) -> None:
    head = make(name).eval()
    before = copy.deepcopy(head.state_dict())
    x, y = batch()
    first = head(x, y)
    assert torch.equal(first, head(x, y))
    for key, value in head.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", hs.list_heads())
def test_state_dict_brings_everything_back(name: str) -> None:
    head, (x, y) = make(name), batch()
    for _ in range(3):
        head(x, y)
        head.advance()
    other = hs.create_head(name, dim=D, num_classes=C, **OPTIONS.get(name, {}))
    other.load_state_dict(head.state_dict())
    assert torch.equal(head.eval()(x, y), other.eval()(x, y))


@pytest.mark.parametrize("name", ["sphereface", "l_softmax"])
def test_annealing_follows_the_released_schedule(name: str) -> None:
    head = make(name)
    objective = head.objective
    assert objective.annealing().item() == 1000
    for _ in range(1658):
        head.advance()
    assert objective.annealing().item() > 5
    head.advance()
    assert objective.annealing().item() == 5
    assert int(head.state_dict()["objective.step"]) == 1659


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", hs.list_heads())
def test_autocast_gives_the_float32_loss(name: str, dtype: torch.dtype, engine: str) -> None:
    head = make(name, engine=engine).eval()
    x, y = batch(dtype)
    x.requires_grad_()
    plain = head(x.detach().float(), y)
    exact = x.detach().float().requires_grad_()
    leaves = [p for p in head.parameters() if p.requires_grad]
    wanted = torch.autograd.grad(head(exact, y), [exact, *leaves], allow_unused=True)
    with torch.autocast("cpu", dtype=dtype):
        loss = head(x, y)
        grads = torch.autograd.grad(loss, [x, *leaves], allow_unused=True, retain_graph=True)
        loss.backward()
    for got, want in zip(grads[1:], wanted[1:], strict=True):
        assert (got is None) == (want is None)
        if got is not None and want is not None:
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6 * float(want.abs().max()))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, plain, rtol=1e-6, atol=1e-7)
    assert head.weight.dtype == torch.float32
    if x.grad is not None:
        assert x.grad.dtype == dtype
        assert bool(x.grad.isfinite().all())


TRACED_BACK = ("curricularface", "sphereface2", "c_triplet", "center", "hyperspherical_energy")
"""Of each kind of loss one, whose gradients are compiled by every run of the tests, too; that doubles the time."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *((name, "aot_eager" if name in TRACED_BACK else "eager") for name in hs.list_heads()),
        *(
            pytest.param(name, "aot_eager", marks=pytest.mark.slow)
            for name in hs.list_heads()
            if name not in TRACED_BACK
        ),
    ],
)
def test_dense_compiles_in_one_graph(name: str, backend: str) -> None:
    head = make(name, engine="dense").eval()
    x, y = batch()
    compiled = torch.compile(head, fullgraph=True, backend=backend)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    losses = [head(inputs[0], y), compiled(inputs[1], y)]
    torch.testing.assert_close(losses[0], losses[1])
    parameters = [p for p in head.parameters() if p.requires_grad]
    grads = [
        torch.autograd.grad(loss, [leaf, *parameters], allow_unused=True)
        for loss, leaf in zip(losses, inputs, strict=True)
    ]
    for ours, theirs in zip(*grads, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_auto_compiles_too() -> None:
    head, (x, y) = make("arcface"), batch()
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), head(x, y))
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["cosface", "arcface", "ampface", "unified"])
def test_growing_margins_need_no_new_graph(name: str) -> None:
    more: dict[str, Any] = {"m1": 1.2, "m2": 0.2} if name == "unified" else {}
    head, (x, y) = make(name, margin_steps=3, **more), batch()
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    losses = [compiled(x, y).item()]
    with torch._dynamo.config.patch(error_on_recompile=True):
        for _ in range(4):
            head.advance()
            losses.append(compiled(x, y).item())
            assert losses[-1] == pytest.approx(head(x, y).item(), rel=1e-6)
    assert len(set(losses)) == 4
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["cosface", "arcface", "ampface", "unified"])
def test_the_state_dict_keeps_the_step_of_the_margins(name: str) -> None:
    more: dict[str, Any] = {"m0": 0.7, "m1": 1.2, "m2": 0.2, "m3": 0.1} if name == "unified" else {}
    head, (x, y) = make(name, margin_steps=5, **more), batch()
    for _ in range(3):
        head.advance()
    other = make(name, margin_steps=5, **more)
    assert not torch.equal(other(x, y), head(x, y))
    other.load_state_dict(head.state_dict())
    for one in (head, other):
        one.advance()
    assert torch.equal(other(x, y), head(x, y))
    assert int(other.state_dict()["objective.step"]) == 4
    assert head.bfloat16().objective.step.dtype == torch.int64


def test_the_head_of_a_first_stage_fits_label_aware_smoothing() -> None:
    """MiSLAS: the classifier of plain softmax is trained on with smoothed labels."""
    first, second = make("softmax"), make("label_aware_smoothing")
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.weight, first.weight)
    scaled = make("label_aware_smoothing", weight_scaling=True)
    scaled.state_dict()["objective.class_scale"].fill_(3.0)
    scaled.load_state_dict(first.state_dict())
    assert scaled.state_dict()["objective.class_scale"].tolist() == [1.0] * 7
    scaled.load_state_dict({**first.state_dict(), "objective.class_scale": torch.full((7,), 2.0)})
    assert scaled.state_dict()["objective.class_scale"].tolist() == [2.0] * 7


class Waiting(Exception):
    """On a GPU, this operation would wait for the device or copy from the host."""


class NoWaiting(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        masks = func is aten.index.Tensor and any(i is not None and i.dtype == torch.bool for i in args[1])
        if masks or func in (aten._local_scalar_dense.default, aten.lift_fresh.default, aten.nonzero.default):
            raise Waiting(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in hs.list_heads()), ("arcface", {"margin_steps": 9})]
)
def test_an_unchecked_head_looks_at_no_value(name: str, more: dict[str, Any], engine: str) -> None:
    head, (x, y) = make(name, engine=engine, **more).train(), batch()
    x.requires_grad_()
    assert head.validate
    with pytest.raises(Waiting), NoWaiting():
        head(x, y)
    head.validate = False
    with NoWaiting():
        loss = head(x, y)
        if loss.requires_grad:
            loss.backward()
        head.advance()
        head.cosines(x)
    assert loss.isfinite()


def test_an_unchecked_head_still_checks_shapes_and_types() -> None:
    x, y = batch()
    for head in (make("arcface"), hs.create_loss("triplet")):
        head.validate = False
        assert torch.isnan(head(torch.full_like(x, float("nan")), y))
        for bad, message in ((x.long(), "must be a floating tensor"), (x[0], "embeddings have shape")):
            with pytest.raises(ValueError, match=message):
                head(bad, y)
        for bad, message in ((y.float(), "must be a tensor of integers"), (y[:5], "labels have shape")):
            with pytest.raises(ValueError, match=message):
                head(x, bad)
    assert "validate" not in "".join(make("arcface").state_dict())


def test_an_unchecked_head_gives_the_same_loss() -> None:
    x, y = batch()
    for name in hs.list_heads():
        head = make(name).eval()
        wanted = head(x, y)
        head.validate = False
        assert torch.equal(head(x, y), wanted), name
    rows: dict[str, Any] = {"alpha1": torch.full((6,), 0.3)}
    assert make("gm_softmax")(x, y, alpha1=rows["alpha1"] + 0.8).isfinite()
    head = make("gm_softmax")
    head.validate = False
    assert head(x, y, **rows).isfinite()


def test_cosines() -> None:
    head, (x, _) = make("softmax"), batch()
    cosines = head.cosines(x)
    assert not cosines.requires_grad
    torch.testing.assert_close(
        cosines, nn.functional.cosine_similarity(x[:, None], head.weight.detach()[None], dim=2), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["simplex", "tammes", "given"])
def test_fixed_prototypes_are_not_trained(kind: str) -> None:
    classes, dim = (4, 3) if kind == "simplex" else (6, 3)
    given = torch.randn(6, 3)
    head = hs.create_head("arcface", dim=dim, num_classes=classes, prototypes=given if kind == "given" else kind)
    assert "weight" not in dict(head.named_parameters())
    assert "weight" in head.state_dict()
    degrees = float(torch.rad2deg(hs.geometry.class_margin(head.weight)))
    if kind == "simplex":
        assert degrees == pytest.approx(109.4712, abs=1e-3)
    elif kind == "tammes":
        assert degrees == pytest.approx(90, abs=1e-3)
    else:
        assert torch.equal(head.weight, given)
    x = torch.randn(3, dim, requires_grad=True)
    head(x, torch.tensor([0, 1, 2])).backward()
    assert x.grad is not None
    assert bool(x.grad.any())
    assert "fixed prototypes" in repr(head)


def test_sums_share_the_prototypes() -> None:
    x, y = batch()
    head = hs.create_head(
        "normface", dim=D, num_classes=C, add={"c_contrastive": {"weight": 0.01, "margin": 0.5}, "zero_centroid": {}}
    )
    alone = hs.create_head("normface", dim=D, num_classes=C)
    contrastive = hs.create_head("c_contrastive", dim=D, num_classes=C, margin=0.5)
    centroid = hs.create_head("zero_centroid", dim=D, num_classes=C)
    for other in (alone, contrastive, centroid):
        other.load_state_dict({"weight": head.weight.detach()}, strict=False)
    torch.testing.assert_close(head(x, y), alone(x, y) + 0.01 * contrastive(x, y) + centroid(x, y))


def test_zero_centroid_uses_raw_prototypes_beside_plain_softmax() -> None:
    x, y = batch()
    for name, raw in (("softmax", True), ("l_softmax", True), ("cosface", False), ("sphereface", False)):
        torch.manual_seed(3)
        head = hs.create_head(name, dim=D, num_classes=C, add={"zero_centroid": {"weight": 2.0}})
        weight = head.weight if raw else hs.geometry.normalize(head.weight)
        expected = head.objective(_batch_of(head, x, y)) + 2 * 100 * (weight.mean(0) ** 2).sum()
        torch.testing.assert_close(head(x, y), expected)


def _batch_of(head: hs.Head, x: Tensor, y: Tensor) -> object:
    from hypersphere.losses import Batch

    return Batch(embeddings=x, labels=y, prototypes=head.weight)


def test_curricularface_moves_in_training_only() -> None:
    head, (x, y) = make("curricularface"), batch()
    head.eval()(x, y)
    assert head.objective.t.item() == 0
    head.train()(x, y)
    mean = head.cosines(x)[torch.arange(6), y][y >= 0].mean().item()
    assert head.objective.t.item() == pytest.approx(0.01 * mean, rel=1e-5)
    head(x, torch.full_like(y, -1))
    assert head.objective.t.item() == pytest.approx(0.01 * mean, rel=1e-5)


def test_two_forwards_before_a_backward() -> None:
    grads = []
    for engine in ("dense", "chunked"):
        head = make("curricularface", engine=engine, momentum=0.5).train()
        x, y = batch()
        x.requires_grad_()
        first = head(x, y)
        head(-x, y)
        grads.append(torch.autograd.grad(first, [x, head.weight]))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"alpha": 0.1}, {"alpha": 1.0}, {"alpha": 0.0}])
def test_centers_move_as_the_loop_of_the_paper(options: dict[str, Any]) -> None:
    g = torch.Generator().manual_seed(0)
    head = hs.create_head("center", dim=D, num_classes=6, **options).double()
    wanted = torch.zeros(6, D, dtype=torch.float64)
    for _ in range(5):
        x, labels = torch.randn(9, D, generator=g, dtype=torch.float64), torch.randint(-1, 5, (9,), generator=g)
        loss = reference.center(x, wanted, labels, centers=wanted, normalize=options.get("normalize", False))
        torch.testing.assert_close(head(x, labels), loss, rtol=1e-12, atol=1e-12)
        wanted = reference.moved_centers(x, labels, centers=wanted, **options)
        torch.testing.assert_close(head.objective.centers, wanted, rtol=1e-12, atol=1e-12)


def test_centers_come_to_the_means_of_their_classes() -> None:
    head = hs.create_head("softmax", dim=D, num_classes=3, add={"center": {"weight": 1e-3}})
    g = torch.Generator().manual_seed(0)
    means = torch.randn(3, D, generator=g)
    for _ in range(200):
        labels = torch.randint(3, (60,), generator=g)
        head(means[labels] + 0.1 * torch.randn(60, D, generator=g), labels)
    torch.testing.assert_close(head.added["center"].centers, means, rtol=0, atol=0.1)


def test_centers_stand_still_outside_of_training_and_for_rows_that_overflowed() -> None:
    head = hs.create_head("center", dim=D, num_classes=2, validate=False)
    x, labels = torch.randn(3, D), torch.tensor([0, 1, 1])
    head.eval()(x, labels)
    assert not head.objective.centers.any()
    x[0, 0], x[1, 0] = torch.inf, torch.nan
    head.train()(x, labels)
    torch.testing.assert_close(head.objective.centers, torch.stack([torch.zeros(D), 0.5 * x[2] / 2]))


def test_half_precision_heads_sum_gradients_in_float32() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(4096, D).bfloat16(), torch.randint(0, 3, (4096,))
    for name, options in (("c_triplet", {}), ("softmax", {}), ("sphereface2", {"bias": "class"})):
        head = hs.create_head(name, dim=D, num_classes=3, **options).bfloat16()  # type: ignore[call-overload]
        wide = copy.deepcopy(head).float()
        for one in (head, wide):
            one(x, y).backward()
        for ours, theirs in zip(head.parameters(), wide.parameters(), strict=True):
            if theirs.grad is not None and ours.grad is not None:
                scale = float(theirs.grad.abs().max()) + 1e-9
                assert float((ours.grad.float() - theirs.grad).abs().max()) < 0.02 * scale, name


def test_only_vectors_next_to_zero_saturate_in_half_precision() -> None:
    head = make("arcface")
    x = torch.stack([torch.zeros(D), torch.full((D,), 0.01)]).half().requires_grad_()
    (1e7 * head(x, torch.tensor([0, 1]))).backward()
    assert x.grad is not None
    assert bool(x.grad[0].isfinite().all())
    assert bool(x.grad[1].isinf().any()), "an overflow must reach the gradient scaler"


def test_eps_is_heard() -> None:
    x, y = batch()
    small = 1e-3 * x
    for make_loss in (
        lambda eps: hs.create_loss("contrastive", eps=eps),
        lambda eps: make("c_triplet", eps=eps),
        lambda eps: make("arcface", eps=eps),
    ):
        assert make_loss(1e-2)(small, y).item() != pytest.approx(make_loss(1e-12)(small, y).item(), rel=1e-3)


def test_energy_in_blocks_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    head, (x, y) = make("hyperspherical_energy"), batch()
    whole = head(x, y)
    monkeypatch.setattr("hypersphere.losses.regularizers._ROWS", 3)
    torch.testing.assert_close(head(x, y), whole)


def test_a_head_shows_its_options() -> None:
    assert "ArcFace(scale=32, margin=0.3)" in repr(make("arcface", scale=32, margin=0.3))


def test_numpy_sizes() -> None:
    assert hs.create_head("arcface", dim=np.int64(4), num_classes=np.int32(3)).weight.shape == (3, 4)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", hs.list_heads())
def test_integer_labels_of_any_width(name: str) -> None:
    head, (x, y) = make(name).eval(), batch()
    for dtype in (torch.int32, torch.int16, torch.int8):
        assert torch.equal(head(x, y), head(x, y.to(dtype)))


BAD_INPUT = [
    (lambda x, y: (x[0], y), r"embeddings have shape \(5,\); this loss takes \(N, 5\)"),
    (lambda x, y: (x[:, :4], y), r"embeddings have shape \(6, 4\); this loss takes \(N, 5\)"),
    (lambda x, y: (x.long(), y), "embeddings must be a floating tensor, not torch.int64"),
    (lambda x, y: (x.tolist(), y), "embeddings must be a floating tensor, not list"),
    (
        lambda x, y: (x.index_fill(0, torch.tensor([2]), float("nan")), y),
        "NaN or infinity in 1 of 6 rows, first in row 2",
    ),
    (lambda x, y: (x.index_fill(0, torch.tensor([0, 5]), float("inf")), y), "in 2 of 6 rows, first in row 0"),
    (lambda x, y: (x, y[:5]), r"labels have shape \(5,\); 6 embeddings ask for one each"),
    (lambda x, y: (x, y[:, None]), r"labels have shape \(6, 1\)"),
    (lambda x, y: (x, y.float()), "labels must be a tensor of integers, not torch.float32"),
    (lambda x, y: (x, y.tolist()), "labels must be a tensor of integers, not list"),
    (
        lambda x, y: (x, y.index_fill(0, torch.tensor([4]), 7)),
        r"label 7 in row 4 is out of range: .* 0 to 6 \(7 classes\)",
    ),
    (lambda x, y: (x, y.index_fill(0, torch.tensor([1]), -2)), "label -2 in row 1 is out of range"),
]


@pytest.mark.parametrize(("change", "message"), BAD_INPUT)
@pytest.mark.parametrize("name", ["arcface", "curricularface", "sphereface2"])
def test_bad_input_is_refused_before_any_state_changes(name: str, change: object, message: str) -> None:
    head = make(name).train()
    before = copy.deepcopy(head.state_dict())
    x, y = change(*batch())
    with pytest.raises(ValueError, match=message):
        head(x, y)
    for key, value in head.state_dict().items():
        assert torch.equal(value, before[key])


BAD_OPTIONS = [
    ("arcfase", {}, "unknown loss 'arcfase'; did you mean 'arcface'"),
    ("arcface", {"margni": 0.5}, "arcface has no option 'margni'; did you mean 'margin'"),
    ("modified_softmax", {"scale": 3}, "modified_softmax has no option 'scale'; it takes no options"),
    ("arcface", {"scale": 0}, "scale=0 must be positive"),
    ("arcface", {"scale": float("nan")}, "scale=nan must be finite"),
    ("arcface", {"scale": "big"}, "scale='big' is not a number"),
    ("arcface", {"margin": -0.1}, "margin=-0.1 must be between 0 and 1.5708"),
    ("arcface", {"margin": 2.0}, "margin=2 must be between"),
    ("arcface", {"margin_grad": "none"}, "margin_grad='none' is unknown"),
    ("arcface", {"power": -1}, "power=-1 must be positive"),
    ("cosface", {"margin": -0.1}, "margin=-0.1 must be between 0 and 2"),
    ("ampface", {"margin": 0}, "margin=0 must be positive"),
    ("ampface", {"margin": 1.5}, "margin=1.5 must be between 0 and 1"),
    ("unified", {"m0": -1}, "m0=-1 must be positive"),
    ("unified", {"m1": 0}, "m1=0 must be positive"),
    ("unified", {"m2": 4}, "m2=4 must be between"),
    ("unified", {"m3": float("inf")}, "m3=inf must be finite"),
    ("sphereface", {"margin": 5}, "margin=5 must be one of the integers 1, 2, 3, 4"),
    ("sphereface", {"margin": 1.5}, "sphereface_r takes a real one"),
    ("sphereface", {"anneal": {"bsae": 3}}, "did you mean 'base'"),
    ("sphereface", {"anneal": {"minimum": -1}}, r"anneal\['minimum'\]=-1 must be at least 0"),
    ("sphereface_r", {"margin": 0.5}, "margin=0.5 must be at least 1"),
    ("sphereface_r", {"version": 3}, "version=3 must be 0 or 1"),
    ("arcface", {"prototype_norm": 0.0}, "prototype_norm=0 must be"),
    ("arcface", {"prototype_norm": "one"}, "prototype_norm='one' is not a number"),
    ("arcface", {"renormalize": True}, "renormalize=True needs the norm to come back to: give prototype_norm"),
    ("arcface", {"prototype_norm": 1.0, "prototypes": "tammes"}, "prototype_norm=1.0 is about learned prototypes"),
    ("arcface", {"renormalize": True, "prototypes": "tammes"}, "renormalize=True is about learned prototypes"),
    ("softmax", {"prototype_norm": 1.0, "renormalize": True}, "softmax learns the lengths of its prototypes"),
    (
        "arcface",
        {"prototype_norm": 1.0, "renormalize": True, "add": {"l_softmax": {}}},
        "l_softmax learns the lengths of its prototypes",
    ),
    ("normface", {"normalize": "features"}, "normalize='features' is unknown"),
    ("normface", {"normalize": "embeddings", "power": 2}, "power=2 adjusts cosines"),
    ("curricularface", {"momentum": 1.1}, "momentum=1.1 must be between 0 and 1"),
    ("circle", {"margin": 2}, "margin=2 must be between -1 and 1"),
    ("ldam", {}, "class_counts is missing: give the number of training samples of every class"),
    ("label_aware_smoothing", {}, "class_counts is missing"),
    ("label_aware_smoothing", {"class_counts": [1, 2]}, "class_counts must be 7 positive numbers"),
    ("label_aware_smoothing", {"class_counts": range(1, 8), "head_smoothing": 1}, "head_smoothing=1 leaves nothing"),
    (
        "label_aware_smoothing",
        {"class_counts": range(1, 8), "tail_smoothing": 0.4},
        "tail_smoothing=0.4 must not exceed head_smoothing=0.3",
    ),
    ("label_smoothing", {"smoothing": -0.1}, "smoothing=-0.1 must be between 0 and 1"),
    ("label_smoothing", {"smoothing": 1}, "smoothing=1 leaves nothing of the label: it must be below 1"),
    *[
        (name, {"margin_steps": -1}, "margin_steps=-1 must be an integer of at least 0")
        for name in ("cosface", "arcface", "ampface", "unified")
    ],
    ("arcface", {"margin_steps": 2.5}, "margin_steps=2.5 must be an integer of at least 0"),
    ("ldam", {"class_counts": [1, 2]}, "class_counts must be 7 positive numbers"),
    ("ldam", {"class_counts": [1, 2, 3, 4, 5, 6, 0]}, "class_counts must be 7 positive numbers"),
    ("focal", {"gamma": -1}, "gamma=-1 must be at least 0"),
    ("gm_softmax", {"alpha1": 0.4}, "alpha1=0.4 must be at least 0.5"),
    ("gm_softmax", {"alpha2": 2}, "alpha2=2 must not exceed alpha1=1"),
    ("sphereface2", {"balance": 1}, "balance=1 must lie strictly between 0 and 1"),
    ("sphereface2", {"margin_type": "x"}, "margin_type='x' is unknown"),
    ("sphereface2", {"margin_type": "m", "margin": 0.4}, "margin=0.4 must be at least 1"),
    ("sphereface2", {"margin_type": "a", "negative_margin": 0.4}, "negative_margin belongs to margin_type='c'"),
    ("sphereface2", {"bias": "off"}, "bias='off' is unknown"),
    ("sphereface2", {"power": 0}, "power=0 must be positive"),
    ("c_contrastive", {"margin": 5}, "margin=5 must be between 0 and 4"),
    ("c_triplet", {"negatives": "hard"}, "did you mean 'hardest'"),
    ("triplet", {"mining": "semi"}, "did you mean 'semihard'"),
    ("sample_margin", {"form": "min"}, "form='min' is unknown"),
    ("hyperspherical_energy", {"exponent": -1}, "exponent=-1 must be between 0 and 8"),
    ("arcface", {"engine": "fast"}, "engine='fast' is unknown"),
    ("arcface", {"chunk_size": 0}, "chunk_size=0 must be an integer of at least 1"),
    ("arcface", {"eps": 0}, "eps=0 must be positive"),
    ("arcface", {"prototypes": "random"}, "prototypes='random' is unknown"),
    ("arcface", {"prototypes": "simplex"}, "num_points=7 is too many for a simplex in dim=5"),
    ("arcface", {"prototypes": torch.ones(3, 5)}, r"prototypes have shape \(3, 5\); .* ask for \(7, 5\)"),
    ("arcface", {"prototypes": torch.full((7, 5), float("nan"))}, "without NaN or infinity"),
    ("arcface", {"add": ["center"]}, r"add=\['center'\] must map names of losses to their options"),
    ("arcface", {"prototypes": np.ones((7, 5))}, "prototypes must be a tensor or a name, not ndarray"),
    (["arcface"], {}, "unknown loss"),
    ("sphereface", {"anneal": True}, "anneal=True must map base, gamma, power, minimum to numbers, or be None"),
    ("ldam", {"class_counts": {1: 2}}, "class_counts must be a list or tensor of numbers, not dict"),
    ("sphereface2", {"bias": False}, "bias=False is unknown: it is 'shared', 'class' or 'none'"),
    ("arcface", {"chunk_size": True}, "chunk_size=True must be an integer of at least 1"),
    ("arcface", {"add": {"centre": {}}}, "unknown loss 'centre'; did you mean 'center'"),
    ("arcface", {"add": {"center": 0.1}}, r"add\['center'\] must map option names to values"),
    ("arcface", {"add": {"center": {"weight": "x"}}}, r"add\['center'\]\['weight'\]='x' is not a number"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD_OPTIONS)
def test_bad_options_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_head(name, dim=D, num_classes=C, **options)


@pytest.mark.parametrize(("dim", "classes"), [(0, 3), (3, 1), (3, 0), (2.5, 3), (True, 3)])
def test_bad_sizes(dim: int, classes: int) -> None:
    with pytest.raises(ValueError, match="must be an integer of at least"):
        hs.create_head("arcface", dim=dim, num_classes=classes)


def test_gm_softmax_rows() -> None:
    head, (x, y) = make("gm_softmax"), batch()
    with pytest.raises(ValueError, match=r"alpha1 must have one number per sample, shape \(6,\), not \(5,\)"):
        head(x, y, alpha1=torch.ones(5))
    with pytest.raises(ValueError, match="gm_softmax takes alpha1, beta1, alpha2, beta2 per sample, not gamma"):
        head(x, y, gamma=torch.ones(6))
    with pytest.raises(ValueError, match=r"alpha1=0.3 must be at least 0.5"):
        head(x, y, alpha1=torch.full((6,), 0.3))
    with pytest.raises(ValueError, match=r"alpha2=0.7 must not exceed alpha1=0.6"):
        head(x, y, alpha1=torch.tensor([2.0, 0.6, 2, 2, 2, 2]), alpha2=torch.tensor([1.9, 0.7, 1, 1, 1, 1]))
    with pytest.raises(ValueError, match="beta1 holds NaN or infinity"):
        head(x, y, beta1=torch.full((6,), float("nan")))
    with pytest.raises(ValueError, match="arcface takes no parameters per sample, not alpha1"):
        make("arcface")(x, y, alpha1=torch.ones(6))


def test_create_loss() -> None:
    x, y = batch()
    for name in PAIRS:
        torch.testing.assert_close(hs.create_loss(name, margin=0.5)(x, y), make(name, margin=0.5)(x, y))
    with pytest.raises(ValueError, match="'arcface' is no pair loss; it needs prototypes: use create_head"):
        hs.create_loss("arcface")
    with pytest.raises(ValueError, match="did you mean 'triplet'"):
        hs.create_loss("triplets")
    with pytest.raises(ValueError, match="label -2 in row 0 is out of range: labels must be -1 or more"):
        hs.create_loss("triplet")(x, y - 2 * (y == 0).long())


def test_import_is_light() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import hypersphere; new = set(sys.modules) - before\n"
        "heavy = ('scipy', 'matplotlib', 'pandas', 'sklearn', 'PIL', 'cv2', 'triton', 'torchvision', 'onnx', 'typer')\n"
        "print(sorted(m for m in new if m.split('.')[0] in heavy))\n"
        "print(sorted({m.split('.')[0] for m in new if not m.startswith(('torch', 'numpy', 'hypersphere'))}"
        " - set(sys.stdlib_module_names)))\n"
        "print(torch.cuda.is_initialized(), torch.distributed.is_initialized())"
    )
    source = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=source)
    assert result.stdout.split("\n")[:3] == ["[]", "[]", "False False"]
