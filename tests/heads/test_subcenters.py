"""Several prototypes of a class: every engine against loops in float64, values and gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor

import hypersphere as hs
from hypersphere.engines import EngineOptions, Reduction, reduce_negatives

CLASSES, SUBCENTERS, DIM, ROWS = 7, 3, 5, 11
ENGINES = [{"engine": "dense"}, {"engine": "chunked", "chunk_size": 6}, {"engine": "chunked"}, {"engine": "auto"}]


def drawn(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, DIM, generator=generator, dtype=torch.float64)
    weight = torch.randn(CLASSES * SUBCENTERS, DIM, generator=generator, dtype=torch.float64)
    labels = torch.arange(ROWS) % CLASSES
    labels[4] = -1
    return x, weight, labels


def best(x: Tensor, weight: Tensor) -> list[Tensor]:
    """The cosine of a row with every class: of its three prototypes the nearest one's."""
    unit = x / x.norm()
    found = []
    for place in range(CLASSES):
        own = weight[SUBCENTERS * place : SUBCENTERS * (place + 1)]
        cosines = [unit @ row / row.norm() for row in own]
        found.append(max(cosines, key=Tensor.item))
    return found


def plain_loss(name: str, x: Tensor, weight: Tensor, labels: Tensor, scale: float, margin: float) -> Tensor:
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row, label in zip(x, labels.tolist(), strict=True):
        if label < 0:
            continue
        cosines = best(row, weight)
        target = cosines[label] - margin
        if name == "arcface":
            target = torch.cos(torch.acos(cosines[label]) + margin)
        others = sum(torch.exp(scale * cosine) for place, cosine in enumerate(cosines) if place != label)
        total = total - torch.log(torch.exp(scale * target) / (torch.exp(scale * target) + others))
        count += 1
    return total / count


def make(name: str, weight: Tensor, **options: Any) -> hs.heads.Head:
    options = {"scale": 8.0, "margin": 0.3, **options}
    head = hs.create_head(name, dim=DIM, num_classes=CLASSES, subcenters=SUBCENTERS, dtype=weight.dtype, **options)
    with torch.no_grad():
        head.weight.copy_(weight)
    return head


@pytest.mark.parametrize("engine", ENGINES, ids=lambda each: "-".join(map(str, each.values())))
@pytest.mark.parametrize("name", ["cosface", "arcface"])
def test_values_and_gradients_are_those_of_the_loops(name: str, engine: dict[str, object]) -> None:
    x, weight, labels = drawn()
    head, given = make(name, weight, **engine), x.clone().requires_grad_()
    loss = head(given, labels)
    loss.backward()
    plain_x, plain_weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    wanted = plain_loss(name, plain_x, plain_weight, labels, 8.0, 0.3)
    wanted.backward()
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(given.grad, plain_x.grad, rtol=1e-8, atol=1e-11)
    torch.testing.assert_close(head.weight.grad, plain_weight.grad, rtol=1e-8, atol=1e-11)
    assert plain_weight.grad is not None
    assert int((plain_weight.grad.abs().sum(1) == 0).sum()) < CLASSES * SUBCENTERS - CLASSES


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_a_maximum_has_the_gradient_of_one_prototype(engine: str) -> None:
    x, weight, labels = drawn(1)
    given, prototypes = x.clone().requires_grad_(), weight.clone().requires_grad_()
    reduction = Reduction("max", normalize_embeddings=True, subcenters=SUBCENTERS)
    found = reduce_negatives(given, prototypes, labels, reduction, options=EngineOptions(engine=engine, chunk_size=6))
    (found.value.sum() + 2 * found.target.sum()).backward()
    plain_x, plain_weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    total, classes = torch.zeros((), dtype=torch.float64), []
    for row, label in zip(plain_x, labels.tolist(), strict=True):
        cosines = best(row, plain_weight)
        classes.append(max((place for place in range(CLASSES) if place != label), key=lambda p: cosines[p].item()))
        total = total + cosines[classes[-1]] + (2 * cosines[label] if label >= 0 else 0)
    total.backward()
    assert found.argmax is not None
    assert found.argmax.tolist() == classes
    torch.testing.assert_close(given.grad, plain_x.grad, rtol=1e-8, atol=1e-11)
    torch.testing.assert_close(prototypes.grad, plain_weight.grad, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
def test_what_is_looked_at_is_the_nearest_prototype(engine: str) -> None:
    x, weight, labels = drawn(2)
    head = make("cosface", weight, engine=engine)
    cosines = torch.stack([torch.stack(best(row, weight)) for row in x])
    torch.testing.assert_close(head.cosines(x), cosines)
    torch.testing.assert_close(head.logits(x), 8 * cosines)
    assert head.predict(x).tolist() == cosines.argmax(1).tolist()
    own, other = head.nearest(x, labels)
    for row, label in enumerate(labels.tolist()):
        assert float(own[row]) == pytest.approx(float(cosines[row, label]) if label >= 0 else 0.0)
        assert float(other[row]) == pytest.approx(
            max(float(cosines[row, place]) for place in range(CLASSES) if place != label)
        )
    assert head.num_classes == CLASSES
    assert "subcenters=3" in repr(head)


def test_copies_of_one_prototype_are_the_plain_head() -> None:
    """Three equal prototypes give the plain loss, whose gradient the three share in sum."""
    x, weight, labels = drawn(3)
    head = make("arcface", weight[::SUBCENTERS].repeat_interleave(SUBCENTERS, 0), engine="chunked")
    plain = hs.create_head("arcface", dim=DIM, num_classes=CLASSES, scale=8.0, margin=0.3, dtype=torch.float64)
    with torch.no_grad():
        plain.weight.copy_(weight[::SUBCENTERS])
    losses = [each(x, labels) for each in (head, plain)]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[0], losses[1])
    assert head.weight.grad is not None
    torch.testing.assert_close(head.weight.grad.unflatten(0, (-1, SUBCENTERS)).sum(1), plain.weight.grad)


def test_wrong_images_gather_at_a_prototype_of_their_own() -> None:
    """Of each class's images one in four points another way: the nearest prototype of these is not that of the rest."""
    torch.manual_seed(0)
    points = hs.geometry.normalize(torch.randn(16, 32))
    labels = torch.arange(8).repeat_interleave(4)
    images = torch.stack([points[label + 8 * (turn == 3)] for label in range(8) for turn in range(4)])
    head = hs.create_head("cosface", dim=32, num_classes=8, subcenters=2, scale=16.0, margin=0.2)
    with torch.no_grad():
        head.weight.copy_(torch.stack([points[:8], points[8:]], 1).flatten(0, 1) + 0.1 * torch.randn(16, 32))
    optimizer = torch.optim.SGD(head.parameters(), 0.5, momentum=0.9)
    for _ in range(60):
        optimizer.zero_grad()
        head(images, labels).backward()
        optimizer.step()
    own, other = head.nearest(images, labels)
    assert float((own - other).min()) > 0.5
    nearest = (hs.geometry.normalize(head.weight) @ images.T).detach().unflatten(0, (8, 2)).argmax(1)
    for place, label in enumerate(labels.tolist()):
        assert int(nearest[label, place]) == (place % 4 == 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "softmax"}, r"subcenters=2: softmax has one prototype per class; cosface, arcface"),
        ({"name": "curricularface"}, r"curricularface has one prototype per class"),
        ({"name": "cosface", "sample": 0.5}, r"subcenters=2 goes without sample"),
        ({"name": "cosface", "add": {"sample_margin": {}}}, r"goes without add"),
        ({"name": "cosface", "prototypes": "simplex"}, r"goes without prototypes"),
    ],
)
def test_what_does_not_go_together_is_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_head(dim=8, num_classes=4, subcenters=2, **options)  # type: ignore[call-overload]


def test_subcenters_must_be_a_whole_number() -> None:
    with pytest.raises(ValueError, match=r"subcenters=0 must be"):
        hs.create_head("cosface", dim=8, num_classes=4, subcenters=0)


def test_bfloat16_products_pick_a_prototype_and_keep_the_target_exact() -> None:
    x, weight, labels = (each.float() if each.is_floating_point() else each for each in drawn(4))
    head = make("cosface", weight, engine="chunked", precision="bfloat16")
    exact = make("cosface", weight, engine="chunked")
    torch.testing.assert_close(head(x, labels), exact(x, labels), rtol=0.02, atol=0.0)
