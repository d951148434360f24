"""Sampled negatives: the loss of the sampled classes, gradients and steps for these alone, no bias where promised."""

import copy
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import hypersphere as hs
from hypersphere.engines import Kind, Modulated, Similarity
from hypersphere.losses import Batch
from hypersphere.losses.sampled import Sample, draw_sample

C, D = 11, 5
LABELS = torch.tensor([0, 10, 3, -1, 3, 0, 7])
COUNTS = list(range(1, C + 1))
OPTIONS: dict[str, dict[str, Any]] = {name: {"class_counts": COUNTS} for name in ("ldam", "label_aware_smoothing")}
REFUSED = ("zero_centroid", "hyperspherical_energy")
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, OPTIONS.get(name, {})) for name in hs.list_heads() if name not in REFUSED),
    ("sphereface2", {"bias": "class"}),
    ("sample_margin", {"form": "mean"}),
    ("c_triplet", {"negatives": "hardest"}),
    ("softmax", {"add": {"center": {"weight": 0.3}, "c_contrastive": {"weight": 0.1}}}),
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))[:20]}" for name, options in CASES]
BIASED = [("sample_margin", {}), ("c_triplet", {"negatives": "hardest"})]


def make(name: str, **options: Any) -> hs.Head:
    torch.manual_seed(0)
    head = hs.create_head(name, dim=D, num_classes=C, **options).double()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() > 0:
                parameter.normal_()
    return head


def embeddings() -> Tensor:
    return torch.randn(7, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def results(head: hs.Head, labels: Tensor = LABELS) -> dict[str, Tensor]:
    """The loss, and all gradients as dense tensors."""
    head.zero_grad()
    x = embeddings().requires_grad_()
    loss = head(x, labels)
    if loss.requires_grad:
        loss.backward()
    grads = {"x": x.grad, **{name: parameter.grad for name, parameter in head.named_parameters()}}
    return {"loss": loss.detach(), **{name: grad.to_dense() for name, grad in grads.items() if grad is not None}}


def assert_same(mine: dict[str, Tensor], theirs: dict[str, Tensor], tolerance: float = 1e-12) -> None:
    for name, expected in theirs.items():
        close = torch.allclose(mine[name], expected, rtol=tolerance, atol=tolerance)
        assert close, f"{name}: {mine[name]} instead of {expected}"
    assert not any(mine[name].any() for name in mine.keys() - theirs.keys())


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_sample_of_everything_is_the_whole(name: str, options: dict[str, Any], unbiased: bool) -> None:
    if unbiased and (name, options) in BIASED:
        pytest.skip("refused")
    plain, sampled = make(name, **options), make(name, **options, sample=1.0, unbiased=unbiased)
    assert_same(results(sampled), results(plain))


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_sample_is_a_head_of_the_sampled_classes(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss and gradients are those of a plain head which has these classes only; the others have no gradient."""
    index = torch.tensor([0, 2, 3, 7, 8, 10])
    monkeypatch.setattr("hypersphere.heads.sampling.draw_sample", lambda *_: Sample(index, C))
    sampled = make(name, **options, sample=0.5)
    small = make(name, **options)
    for module in (small, small.objective, *small.added.values()):
        for key, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            if tensor.dim() and len(tensor) == C:
                rows = tensor.detach()[index].clone()
                setattr(module, key, nn.Parameter(rows) if isinstance(tensor, nn.Parameter) else rows)
    small.num_classes = len(index)
    own, mine = results(small, torch.tensor([0, 5, 2, -1, 2, 0, 3])), results(sampled)
    for key, grad in own.items():
        if grad.dim() and len(grad) == len(index):
            own[key] = torch.zeros(C, *grad.shape[1:], dtype=grad.dtype).index_copy(0, index, grad)
    assert_same(mine, own)


def test_positives_are_in_and_the_rest_is_random() -> None:
    generator = torch.Generator().manual_seed(0)
    labels, drawn = torch.tensor([4, 1, 1, -1]), Counter[tuple[int, ...]]()
    for _ in range(3000):
        sample = draw_sample(labels, 6, 4, generator, False)
        assert torch.equal(sample.index, sample.index.unique())
        assert {1, 4} <= set(sample.index.tolist())
        assert sample.index[sample.local_labels(labels)[:3]].tolist() == [4, 1, 1]
        drawn[tuple(sample.index.tolist())] += 1
    assert len(drawn) == math.comb(4, 2), "every subset that it may be"
    assert max(abs(count - 500) for count in drawn.values()) < 5 * math.sqrt(500)


@pytest.mark.parametrize(
    ("labels", "quota", "unbiased", "count"),
    [
        ([1, 1, 1], 2, False, 2),
        ([0, 1, 2, 3], 2, False, 4),
        ([0, 1, 2, 3], 2, True, 5),
        ([0, 1, 2, 3, 4, 5], 2, True, 6),
        ([-1], 3, False, 3),
        ([], 3, True, 3),
    ],
)
def test_the_number_of_rows(labels: list[int], quota: int, unbiased: bool, count: int) -> None:
    tensor = torch.tensor(labels, dtype=torch.int64)
    sample = draw_sample(tensor, 6, quota, torch.Generator(), unbiased)
    assert len(sample.index) == count
    assert set(labels) - {-1} <= set(sample.index.tolist())


def subsets(labels: Tensor, classes: int, count: int) -> list[Sample]:
    """All samples of a size, which are equally likely."""
    positive = sorted(set(labels.tolist()) - {-1})
    others = [j for j in range(classes) if j not in positive]
    made = []
    for extra in itertools.combinations(others, count - len(positive)):
        index = torch.tensor(sorted([*positive, *extra]))
        made.append(Sample(index, classes, torch.isin(index, torch.tensor(positive))))
    return made


def every_sample(head: hs.Head, labels: Tensor, count: int, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    made = []
    for sample in subsets(labels, C, count):
        monkeypatch.setattr("hypersphere.heads.sampling.draw_sample", lambda *_, kept=sample: kept)
        made.append(results(head, labels))
    return made


@pytest.mark.parametrize("count", [5, 7])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sphereface2", {}),
        ("sphereface2", {"bias": "class", "margin_type": "a"}),
        ("c_contrastive", {}),
        ("c_triplet", {}),
        ("c_triplet", {"center": True}),
        ("sample_margin", {"form": "mean"}),
        ("c_contrastive", {"add": {"center": {"weight": 0.5, "alpha": 0.0}}}),  # centres that move differ by call
    ],
)
def test_sums_are_unbiased(name: str, options: dict[str, Any], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over all samples, of the loss and of every gradient, is that of all classes: exactly, not in a limit."""
    sampled, plain = make(name, **options, sample=0.5, unbiased=True), make(name, **options)
    every = every_sample(sampled, LABELS, count, monkeypatch)
    assert len(every) == math.comb(C - 4, count - 4)
    mean = {key: torch.stack([one[key] for one in every]).mean(0) for key in every[0]}
    assert_same(mean, results(plain), 1e-11)
    assert max(abs(float(one["loss"] - mean["loss"])) for one in every) > 1e-3, "single samples do differ"


def test_the_mean_logit_of_smoothing_is_unbiased(monkeypatch: pytest.MonkeyPatch) -> None:
    """What smoothing adds to softmax is linear in the logits of the negatives."""
    totals = []
    for smoothing in (0.0, 0.4):
        sampled = make("label_smoothing", smoothing=smoothing, sample=0.5, unbiased=True)
        plain = make("label_smoothing", smoothing=smoothing)
        every = every_sample(sampled, LABELS, 6, monkeypatch)
        totals.append((torch.stack([one["loss"] for one in every]).mean(), results(plain)["loss"]))
    (mean0, whole0), (mean, whole) = totals
    torch.testing.assert_close(mean - mean0, whole - whole0, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("relu", [False, True])
def test_inside_the_logarithm_a_logsumexp_is_unbiased_and_outside_too_small(relu: bool) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(7, D, dtype=torch.float64), torch.randn(C, D, dtype=torch.float64)
    bias = torch.randn(C, dtype=torch.float64)
    of_all = Batch(embeddings=x, labels=LABELS, prototypes=w)
    whole = of_all.reduce("logsumexp", Similarity(relu=relu), scale=5.0, bias=bias)
    values = []
    for sample in subsets(LABELS, C, 6):
        batch = Batch(embeddings=x, labels=LABELS, prototypes=w).sampled(sample, sample.rows(w))
        part = batch.reduce("logsumexp", Similarity(relu=relu), scale=5.0, bias=batch.shard_of(bias))
        torch.testing.assert_close(part.target, whole.target)
        values.append(part.value)
    stacked = torch.stack(values)
    torch.testing.assert_close(stacked.exp().mean(0), whole.value.exp(), rtol=1e-12, atol=0)
    assert (stacked.mean(0) < whole.value).all(), "Jensen"


@pytest.mark.parametrize("kind", ["sum", "softplus_sum", "hinge_sum"])
def test_weights_hold_for_rows_of_their_own_scale(kind: Kind) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(7, D, dtype=torch.float64), torch.randn(C, D, dtype=torch.float64)
    options = {"scale": torch.rand(7, dtype=torch.float64) + 1, "offset": torch.randn(7, dtype=torch.float64)}
    function = Modulated(torch.zeros(7, 1, dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64))
    whole = Batch(embeddings=x, labels=LABELS, prototypes=w).reduce(kind, function, **options)  # type: ignore[arg-type]
    samples = subsets(LABELS, C, 6)
    batches = [Batch(embeddings=x, labels=LABELS, prototypes=w).sampled(sample, sample.rows(w)) for sample in samples]
    values = [batch.reduce(kind, function, **options).value for batch in batches]  # type: ignore[arg-type]
    torch.testing.assert_close(torch.stack(values).mean(0), whole.value, rtol=1e-12, atol=1e-12)


OPTIMIZERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = {
    "sgd": (hs.RowSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "adamw": (hs.RowAdamW, torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def train(head: hs.Head, optimizer: torch.optim.Optimizer, first: int, last: int) -> None:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(4, D, dtype=torch.float64, generator=generator)
        optimizer.zero_grad()
        head(x, torch.randint(C, (4,), generator=generator)).backward()
        optimizer.step()
        head.advance()


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", ["arcface", "softmax", "sphereface2"])
def test_training_on_a_sample_of_everything_is_training(name: str, kind: str) -> None:
    ours, theirs, options = OPTIMIZERS[kind]
    sampled, plain = make(name, sample=1.0), make(name)
    train(sampled, ours(sampled.parameters(), **options), 0, 6)
    train(plain, theirs(plain.parameters(), **options), 0, 6)
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(sampled.state_dict()[key], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_only_sampled_rows_change(kind: str) -> None:
    ours, _, options = OPTIMIZERS[kind]
    head = make("softmax", sample=0.4, add={"center": {}})
    optimizer = ours(head.parameters(), **options)
    tables = {"weight": head.weight, "bias": head.objective.bias, "centers": head.added["center"].centers}
    for step in range(5):
        states = {name: dict(optimizer.state[table]) for name, table in tables.items()}
        before = {name: [table, *states[name].values()] for name, table in tables.items()}
        kept = {name: [value.detach().clone() for value in values] for name, values in before.items()}
        train(head, optimizer, step, step + 1)
        sampled = head.weight.grad.coalesce().indices()[0]
        assert len(sampled) == 4
        for name, table in tables.items():
            after = [table, *dict(optimizer.state[table]).values()][: len(kept[name])]
            for new, old in zip(after, kept[name], strict=True):
                changed = (new != old).reshape(C, -1).any(1).nonzero()[:, 0]
                assert set(changed.tolist()) <= set(sampled.tolist()), name
            assert (table[sampled] != kept[name][0][sampled]).any()  # type: ignore[index]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_resumed_run_draws_what_the_other_would_have_drawn(kind: str) -> None:
    ours, _, options = OPTIMIZERS[kind]
    head = make("arcface", sample=0.4)
    optimizer = ours(head.parameters(), **options)
    train(head, optimizer, 0, 3)
    torch.manual_seed(99)
    other = hs.create_head("arcface", dim=D, num_classes=C, sample=0.4).double()
    other.load_state_dict(head.state_dict())
    second = ours(other.parameters(), **options)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(head, optimizer, 3, 7)
    train(other, second, 3, 7)
    for key, value in head.state_dict().items():
        assert torch.equal(other.state_dict()[key], value), key


def test_prototypes_pass_between_heads_that_sample_and_that_do_not() -> None:
    sampled, plain = make("arcface", sample=0.6), make("arcface")
    with torch.no_grad():
        plain.weight += 1
    before = sampled.sampler.get_extra_state()
    sampled.load_state_dict(plain.state_dict())
    assert torch.equal(sampled.weight, plain.weight)
    assert torch.equal(sampled.sampler.get_extra_state(), before)
    plain.load_state_dict(make("arcface", sample=0.6).state_dict())
    assert not torch.equal(sampled.weight, plain.weight)
    with pytest.raises(RuntimeError, match="Unexpected"):
        plain.load_state_dict({**plain.state_dict(), "other": before})
    both = torch.nn.ModuleDict({"head": sampled})
    both.load_state_dict({f"head.{name}": value for name, value in plain.state_dict().items()})
    assert torch.equal(sampled.weight, plain.weight), "as a part of a larger module too"
    both = torch.nn.ModuleDict({"head": plain})
    both.load_state_dict({f"head.{name}": value for name, value in sampled.state_dict().items()})


def test_the_seed_decides() -> None:
    first, second, third = (make("arcface", sample=0.6) for _ in range(3))
    third.sampler.seed += 1
    assert all(torch.equal(results(first)["weight"], results(second)["weight"]) for _ in range(3))
    assert any(not torch.equal(results(first)["weight"], results(third)["weight"]) for _ in range(3))


def test_evaluation_sees_every_class() -> None:
    head = make("arcface", sample=0.4).eval()
    plain = make("arcface").eval()
    state = copy.deepcopy(head.state_dict())
    assert torch.equal(head(embeddings(), LABELS), plain(embeddings(), LABELS))
    assert all(torch.equal(value, state[key]) for key, value in head.state_dict().items())
    assert head.cosines(embeddings()).shape == (7, C)


def test_calls_before_one_step_add_up() -> None:
    """Accumulated gradients are those of both samples; one call's say themselves that they have every row once."""
    head = make("arcface", sample=0.4)
    parts = []
    for _ in range(2):
        parts.append(results(head)["weight"])
        assert head.weight.grad is not None
        assert head.weight.grad.is_coalesced()
    head.sampler.draws = 0
    head.zero_grad()
    for _ in range(2):
        head(embeddings(), LABELS).backward()
    grad = head.weight.grad.coalesce()
    torch.testing.assert_close(grad.to_dense(), parts[0] + parts[1])
    assert torch.equal(grad.indices()[0], grad.indices()[0].unique())
    twice = torch.cat([grad.indices(), grad.indices()], 1)  # as a GPU adds them up
    head.weight.grad = torch.sparse_coo_tensor(twice, torch.cat([grad.values()] * 2), grad.shape, check_invariants=True)
    head.sampler._mark(head.weight)
    assert not head.weight.grad.is_coalesced()


class _Largest(TorchDispatchMode):
    """The most numbers that any tensor made inside the block has."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {leaf.data_ptr() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and dense(leaf)}
        for made in tree_leaves(out):
            if isinstance(made, Tensor) and dense(made) and made.data_ptr() not in given:
                self.numbers = max(self.numbers, made.numel())
        return out


def dense(tensor: Tensor) -> bool:
    return tensor.layout == torch.strided


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", ["arcface", "sphereface2", "softmax"])
def test_nothing_of_the_size_of_the_prototypes_is_ever_made(name: str, kind: str) -> None:
    """Forward, backward and step touch 40 of 4,000 rows of 64; what is made per class is a number each."""
    ours, _, options = OPTIMIZERS[kind]
    head = hs.create_head(name, dim=64, num_classes=4000, sample=0.01, add={"center": {}})
    optimizer = ours(head.parameters(), **options)
    x, labels = torch.randn(8, 64), torch.arange(8)
    for step in range(3):
        with _Largest() as seen:
            optimizer.zero_grad()
            head(x, labels).backward()
            optimizer.step()
        made = 4000 * 64 if step == 0 else 4001  # the optimizer's memory, once
        assert seen.numbers <= made
    assert seen.numbers > 40 * 64 - 1, "the mode does see what is made"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "arcface", "sample": 0.0}, "sample=0 "),
        ({"name": "arcface", "sample": 1.5}, "sample=1.5"),
        ({"name": "arcface", "sample": "some"}, "sample='some'"),
        ({"name": "arcface", "unbiased": True}, "give sample"),
        ({"name": "zero_centroid", "sample": 0.5}, "zero_centroid cannot be sampled: it is of all prototypes"),
        ({"name": "arcface", "sample": 0.5, "add": {"hyperspherical_energy": {}}}, "hyperspherical_energy cannot"),
        ({"name": "sample_margin", "sample": 0.5, "unbiased": True}, "sample_margin cannot be sampled without bias"),
        ({"name": "c_triplet", "negatives": "hardest", "sample": 0.5, "unbiased": True}, "c_triplet cannot"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hs.create_head(dim=D, num_classes=C, **options)


def test_fixed_prototypes_are_sampled_too() -> None:
    head = hs.create_head("arcface", dim=16, num_classes=C, prototypes="simplex", sample=0.4)
    x = torch.randn(4, 16, requires_grad=True)
    head(x, torch.arange(4)).backward()
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize("share", [True, "0.1", 0, -0.1, 1.5, float("nan")])
def test_a_share_is_a_number_up_to_one(share: Any) -> None:
    with pytest.raises(ValueError, match="sample"):
        make("arcface", sample=share)


@pytest.mark.parametrize("name", ["softmax", "label_smoothing", "label_aware_smoothing", "focal", "sphereface2"])
def test_a_bias_is_taken_once_a_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken twice, its gradient would be rounded twice on its way to the parameter's dtype."""
    taken: list[Tensor] = []
    real = Batch.shard_of

    def spy(batch: Batch, per_class: Tensor) -> Tensor:
        taken.append(per_class)
        return real(batch, per_class)

    monkeypatch.setattr(Batch, "shard_of", spy)
    more: dict[str, Any] = {"bias": "class"} if name == "sphereface2" else OPTIONS.get(name, {})
    head = hs.create_head(name, dim=D, num_classes=C, sample=0.5, **more)
    head(torch.randn(4, D), torch.tensor([0, 1, 1, -1]))
    assert len(taken) == 1
