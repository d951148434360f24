"""What a head says without labels: logits and predictions; and losses per sample."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs

C, D = 7, 5
COUNTS: dict[str, dict[str, Any]] = {
    name: {"class_counts": range(1, C + 1)} for name in ("ldam", "label_aware_smoothing")
}
NO_LOGITS = ("center", "contrastive", "triplet", "zero_centroid", "hyperspherical_energy")
WITH_LOGITS = [name for name in hs.list_heads() if name not in NO_LOGITS]
OF_A_BATCH = ("contrastive", "triplet", "zero_centroid", "hyperspherical_energy")
PER_SAMPLE = [name for name in hs.list_heads() if name not in OF_A_BATCH]


def make(name: str, **options: Any) -> hs.Head:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=D, num_classes=C, **COUNTS.get(name, {}), **options)
    nn.init.normal_(head.weight)
    for parameter in head.objective.parameters():
        if parameter.dim():
            nn.init.normal_(parameter)
    return head.double()


def batch(rows: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(-1, C, (rows,), generator=generator)
    return 2 * torch.randn(rows, D, generator=generator, dtype=torch.float64), labels


def g(z: Tensor, t: float) -> Tensor:
    return 2 * ((z + 1) / 2) ** t - 1


def inner(head: hs.Head, x: Tensor) -> Tensor:
    return x @ head.weight.detach().T


def scaled(head: hs.Head, logits: Tensor) -> Tensor:
    return (logits * head.objective.class_scale).detach()


def cosines(head: hs.Head, x: Tensor) -> Tensor:
    return nn.functional.cosine_similarity(x[:, None], head.weight.detach()[None], dim=2)


FORMULAS: list[tuple[str, dict[str, Any], Any]] = [
    *((n, {}, lambda h, x: inner(h, x) + h.objective.bias.detach()) for n in ("softmax", "focal", "label_smoothing")),
    ("softmax", {"bias": False}, inner),
    ("label_aware_smoothing", {}, lambda h, x: inner(h, x) + h.objective.bias.detach()),
    ("label_aware_smoothing", {"weight_scaling": True}, lambda h, x: scaled(h, inner(h, x) + h.objective.bias)),
    ("l_softmax", {}, inner),
    ("modified_softmax", {}, lambda h, x: x.norm(dim=1, keepdim=True) * cosines(h, x)),
    ("sphereface", {}, lambda h, x: x.norm(dim=1, keepdim=True) * cosines(h, x)),
    ("sphereface", {"scale": 8.0}, lambda h, x: 8 * cosines(h, x)),
    ("normface", {}, lambda h, x: 10 * cosines(h, x)),
    ("normface", {"power": 2.0, "scale": 4.0}, lambda h, x: 4 * g(cosines(h, x), 2)),
    ("normface", {"normalize": "embeddings"}, lambda h, x: 10 * inner(h, x) / x.norm(dim=1, keepdim=True)),
    ("normface", {"normalize": "prototypes"}, lambda h, x: x.norm(dim=1, keepdim=True) * cosines(h, x)),
    *((n, {"scale": 12.0}, lambda h, x: 12 * cosines(h, x)) for n in (
        "coco", "cosface", "arcface", "ampface", "unified", "sphereface_r", "curricularface", "circle", "ldam",
        "gm_softmax", "lm_softmax",
    )),
    ("arcface", {"power": 3.0, "scale": 12.0}, lambda h, x: 12 * g(cosines(h, x), 3)),
    ("sphereface2", {}, lambda h, x: 40 * g(cosines(h, x), 3) + h.objective.bias.detach()),
    ("sphereface2", {"bias": "class"}, lambda h, x: 40 * g(cosines(h, x), 3) + h.objective.bias.detach()),
    ("sphereface2", {"bias": "none", "power": 1.0}, lambda h, x: 40 * cosines(h, x)),
    ("c_contrastive", {}, lambda h, x: -(2 - 2 * cosines(h, x))),
    ("c_triplet", {}, lambda h, x: -(2 - 2 * cosines(h, x))),
    ("sample_margin", {}, cosines),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize(("name", "options", "formula"), FORMULAS)
def test_logits_and_predictions_are_the_losss_formula(
    name: str, options: dict[str, Any], formula: Any, engine: str
) -> None:
    head, (x, _) = make(name, engine=engine, chunk_size=3, **options), batch()
    wanted = formula(head, x)
    found = head.logits(x.requires_grad_())
    assert not found.requires_grad
    torch.testing.assert_close(found, wanted.detach(), rtol=1e-10, atol=1e-10)
    assert torch.equal(head.predict(x), wanted.argmax(1))


def test_every_loss_with_prototypes_has_a_formula() -> None:
    assert {name for name, _, _ in FORMULAS} == set(WITH_LOGITS)


@pytest.mark.parametrize("name", NO_LOGITS)
def test_losses_without_logits_say_so(name: str) -> None:
    head, (x, _) = make(name), batch()
    for call in (head.logits, head.predict):
        with pytest.raises(ValueError, match=f"{name} compares no embedding with the prototypes"):
            call(x)


@pytest.mark.parametrize("name", ["softmax", "modified_softmax", "normface", "coco", "unified", "gm_softmax"])
def test_softmax_of_the_logits_is_the_loss(name: str) -> None:
    head, (x, y) = make(name), batch()
    torch.testing.assert_close(head(x, y), nn.functional.cross_entropy(head.logits(x), y, ignore_index=-1))


def test_lm_softmax_is_the_softmax_without_its_target_in_the_sum() -> None:
    head, (x, y) = make("lm_softmax", scale=4.0, reduction="none"), batch()
    entropy = nn.functional.cross_entropy(head.logits(x), y, ignore_index=-1, reduction="none")
    torch.testing.assert_close(head(x, y), torch.where(y < 0, 0.0, entropy.expm1().log() / 4))


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_ties_go_to_the_lowest_class(engine: str) -> None:
    head, (x, _) = make("arcface", engine=engine, chunk_size=2), batch()
    with torch.no_grad():
        head.weight.copy_(torch.eye(1, D).expand(C, D))
    assert torch.equal(head.predict(x), torch.zeros(9, dtype=torch.int64))
    assert head.predict(x[:0]).shape == (0,)


def test_a_sampled_head_predicts_among_all_classes() -> None:
    sampled, whole = make("arcface", sample=0.3), make("arcface")
    whole.load_state_dict(sampled.state_dict())
    x, _ = batch(50)
    assert sampled.training
    assert torch.equal(sampled.predict(x), whole.predict(x))
    assert torch.equal(sampled.logits(x), whole.logits(x))


def test_predictions_of_half_precision_embeddings() -> None:
    head, (x, _) = make("cosface").float(), batch()
    half = x.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head.logits(half).dtype == torch.float32
        assert torch.equal(head.predict(half), head.logits(half.float()).argmax(1))


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", PER_SAMPLE)
def test_losses_per_sample_average_to_the_loss(name: str, engine: str) -> None:
    head, single = make(name, engine=engine).eval(), make(name, engine=engine, reduction="none").eval()
    single.load_state_dict(head.state_dict())
    x, y = batch()
    counted = torch.ones_like(y, dtype=torch.bool) if name in ("sphereface2", "c_contrastive") else y >= 0
    losses = single(x, y)
    assert losses.shape == (9,)
    assert not bool(losses[~counted].any())
    for i in range(9):
        torch.testing.assert_close(losses[i], head(x[i : i + 1], y[i : i + 1]))
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    whole, parts = head(leaves[0], y), single(leaves[1], y).sum() / counted.sum()
    torch.testing.assert_close(parts, whole)
    for ours, theirs in zip(
        torch.autograd.grad(parts, [leaves[1], *single.parameters()], allow_unused=True),
        torch.autograd.grad(whole, [leaves[0], *head.parameters()], allow_unused=True),
        strict=True,
    ):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs)


def test_sums_of_losses_per_sample() -> None:
    add = {"c_contrastive": {"weight": 0.1}, "sample_margin": {"weight": 2.0}}
    head, (x, y) = make("normface", add=add, reduction="none"), batch()
    alone = [make(name, reduction="none") for name in ("normface", "c_contrastive", "sample_margin")]
    for each in alone:
        each.load_state_dict({"weight": head.weight.detach()}, strict=False)
    losses = [each(x, y) for each in alone]
    torch.testing.assert_close(head(x, y), losses[0] + 0.1 * losses[1] + 2 * losses[2])


def test_a_sampled_head_has_losses_per_sample() -> None:
    head, (x, y) = make("arcface", sample=0.5, reduction="none"), batch()
    losses = head(x, y)
    assert losses.shape == (9,)
    losses.sum().backward()
    assert head.weight.grad is not None
    assert head.weight.grad.is_sparse


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_losses_of_a_whole_batch_cannot_be_given_per_sample(name: str) -> None:
    message = f"reduction='none': {name} is one number of the whole batch, not one per sample"
    with pytest.raises(ValueError, match=message):
        make(name, reduction="none")
    with pytest.raises(ValueError, match=message):
        make("arcface", reduction="none", add={name: {}})
    with pytest.raises(ValueError, match="reduction='sum'"):
        make("arcface", reduction="sum")
