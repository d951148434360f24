"""A head: prototypes, a loss and an engine behind one call."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_finite_number, check_integer, check_positive, nearest
from hypersphere.engines import ENGINES, PRECISIONS, Precision, ambient_precision, compute_dtype, local_rows
from hypersphere.geometry import EPS, normalize, regular_simplex, tammes
from hypersphere.heads.inputs import check_embeddings, check_labels, check_rows, to_compute_dtype
from hypersphere.heads.sampling import Sampler, check_sampling
from hypersphere.heads.sharding import Over, Sharding, is_sharded
from hypersphere.losses import OBJECTIVES, Batch, Contrastive, Objective, ShardedBatch, Triplet

Additions = Mapping[str, Mapping[str, Any]]
_START = 0.01
_DRAWS = "sampler._extra_state"


class Head(nn.Module):
    """Prototypes + a loss + an engine. Use `hypersphere.create_head` to make one by the loss's name.

    Args:
        objective: the loss.
        dim: width of the embeddings.
        num_classes: number of prototypes, at least 2.
        prototypes: `learned`; or fixed: `simplex` (num_classes <= dim + 1), `tammes`, or a (num_classes, dim) tensor.
        engine: `auto`, `dense`, `chunked` or `triton`.
        chunk_size: classes per chunk of the chunked engine.
        precision: of the fused engine's products, `bf16`, `fp16`, `tf32` or `fp32`; by default what autocast, the
            embeddings' dtype or `torch.set_float32_matmul_precision` says. On a CPU `bf16` rounds the chunked engine's.
        budget: bytes that the fused engine may take for its N x C matrix; less than 2 N C saves memory for time.
        eps: the epsilon of NormFace eq. 3.
        added: further objectives that share the prototypes, with their weights.
        shard: processes to share the classes: a process group, or a device mesh of one dimension.
        sample: share of the classes that a call in training mode sees, in (0, 1]: those of its labels, and random ones.
        unbiased: weigh the sampled classes, so that sums over the negatives keep their mean.
        unit_gradients: let `weight.grad` be the gradient of the normalised prototypes, for a step of
            `RowSGD(unit_eps=head.eps)`, which takes it through the normalisation in the same pass.
        device, dtype: of the prototypes; a loss's own parameters stay float32.

    Inputs:
        embeddings (N, dim) of any floating dtype, and integer labels (N,), -1 for none of these classes.
    """

    weight: Tensor
    checked: bool = True
    """Whether each call looks at values (finite embeddings, the range of labels): on a GPU it waits for them. Shapes
    and dtypes are checked in any case. Who sets it to False answers for the labels."""

    def __init__(
        self,
        objective: Objective,
        *,
        dim: int,
        num_classes: int,
        prototypes: str | Tensor = "learned",
        engine: str = "auto",
        chunk_size: int | None = None,
        precision: Precision | None = None,
        budget: int | None = None,
        eps: float = EPS,
        added: Mapping[str, tuple[float, Objective]] | None = None,
        shard: Over | None = None,
        sample: float | None = None,
        unbiased: bool = False,
        unit_gradients: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.dim, self.num_classes = dim, num_classes
        self.engine = check_choice("engine", engine, ENGINES)
        self.chunk_size = None if chunk_size is None else check_integer("chunk_size", chunk_size, 1)
        if precision is not None:
            check_choice("precision", precision, PRECISIONS)
        self.precision = precision
        self.budget = None if budget is None else check_integer("budget", budget, 0)
        self.eps = check_positive("eps", eps)
        self.sharding = None if shard is None else Sharding(shard, num_classes, device)
        fixed = _fixed_prototypes(prototypes, num_classes, dim)
        if fixed is not None:
            own = fixed if self.sharding is None else self.sharding.own_rows(fixed)
            own = own.to(device=device, dtype=dtype)
            self.register_buffer("weight", own if self.sharding is None else self.sharding.joined(own))
        elif self.sharding is not None:
            own = self.sharding.drawn(torch.empty(0, dim, device=device, dtype=dtype), std=_START)
            self.weight = nn.Parameter(self.sharding.joined(own))
        else:
            self.weight = nn.Parameter(torch.empty(num_classes, dim, device=device, dtype=dtype))
            nn.init.normal_(self.weight, std=_START)
        self.objective = objective.to(device=device)
        self.added_weights = {name: weight for name, (weight, _) in (added or {}).items()}
        self.added = nn.ModuleDict({name: extra.to(device=device) for name, (_, extra) in (added or {}).items()})
        if self.sharding is not None:
            for each in (objective, *(extra for _, extra in (added or {}).values())):
                self.sharding.cut(each)
        if unbiased and sample is None:
            raise ValueError("unbiased=True is about a sample of the classes: give sample, for example sample=0.1")
        self.sampler = None if sample is None else self._sampler(sample, unbiased)
        self.unit_gradients = unit_gradients
        self.weight.unit_gradients = unit_gradients  # type: ignore[attr-defined]  # for the optimizer to see
        if unit_gradients:
            self._check_unit_gradients()

    def _sampler(self, share: float, unbiased: bool) -> Sampler:
        check_sampling([self.objective, *self.added.values()], unbiased)  # type: ignore[list-item]
        sampler = Sampler(share, unbiased, 0 if self.sharding is None else self.sharding.exchange.rank)
        sampler.mark(table for table in self.per_class().values() if isinstance(table, nn.Parameter))
        return sampler

    def _check_unit_gradients(self) -> None:
        for each in (self.objective, *self.added.values()):
            if not each.normalizes_prototypes or not each.only_scores:
                raise ValueError(f"unit_gradients=True: {each.name} depends on more than scores with unit prototypes")

    def forward(self, embeddings: Tensor, labels: Tensor, **rows: Tensor) -> Tensor:
        """The loss of a batch, a scalar in float32 (float64 for float64 input).

        Where the classes are sharded, every process gives its own rows, and the loss is that of all of them together;
        the gradient of a process's rows is multiplied by the number of processes, so that
        `DistributedDataParallel`, which averages, gives the gradient of that loss.

        Args:
            embeddings: (N, dim).
            labels: (N,) integers in [0, num_classes), or -1.
            rows: per-sample parameters of the loss, where it has any (`gm_softmax`).
        """
        check_embeddings(embeddings, self.dim, values=self.checked)
        labels = check_labels(labels, embeddings, self.num_classes, values=self.checked)
        check_rows(rows, labels, self.objective)
        ambient = ambient_precision(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            x = to_compute_dtype(embeddings, compute_dtype(embeddings, self.weight))
            batch = self._batch(x, labels, embeddings.dtype, ambient, rows)
            if self.sampler is not None and self.training:
                batch = self.sampler(batch, self.weight)
            loss: Tensor = self.objective(batch)
            for name, extra in self.added.items():
                loss = loss + self.added_weights[name] * extra(batch)
        return loss

    @torch.no_grad()
    def cosines(self, embeddings: Tensor) -> Tensor:
        """(N, num_classes): the cosine of every embedding and prototype, for looking, not for training.

        Where the classes are sharded, all processes call it, each with its own rows.
        """
        check_embeddings(embeddings, self.dim, values=self.checked)
        dtype = compute_dtype(embeddings, self.weight)
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = normalize(local_rows(self.weight).to(dtype), self.eps)
            x = normalize(embeddings.to(dtype), self.eps)
            return x @ unit.T if self.sharding is None else self.sharding.products(x, unit)

    def full_state_dict(self) -> dict[str, Tensor]:
        """The state dict with the classes of all processes, plain tensors on the CPU; all processes call it.

        `load_state_dict` takes it on any number of processes: a sharded head keeps its own rows.
        """
        return {name: self._whole(value).detach().cpu() for name, value in self.state_dict().items()}

    def per_class(self) -> dict[str, Tensor]:
        """What `shard` cuts, by its name in the state dict: what has a row per class (prototypes, biases, centres)."""
        modules = {"objective.": self.objective} | {f"added.{name}.": extra for name, extra in self.added.items()}
        found = {"weight": self.weight}
        for prefix, objective in modules.items():
            for name in objective.per_class:  # type: ignore[union-attr]
                value = getattr(objective, name)
                if isinstance(value, Tensor) and value.dim() > 0:
                    found[prefix + name] = value
        return found

    def whole_weight(self) -> Tensor | None:
        """All prototypes on the CPU, for one process: None in the others, all of which must ask for them."""
        if self.sharding is None:
            return self.weight.detach().cpu()
        return self.sharding.whole(self.weight, keep=self.sharding.exchange.rank == 0)

    def prototypes(self, count: int) -> Tensor:
        """The first `count` prototypes; where they are sharded, all processes ask for them."""
        weight = self.weight.detach()
        return weight[:count] if self.sharding is None else self.sharding.first(weight, count)

    @torch.no_grad()
    def nearest(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) each: the cosine of every embedding with its own prototype, and the largest with any other.

        No N x C matrix is made. A row labelled -1 has 0 for its own. Where the classes are sharded, all processes call
        it, each with its own rows.
        """
        dtype, ambient = compute_dtype(embeddings, self.weight), ambient_precision(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            batch = self._batch(embeddings.to(dtype), labels, embeddings.dtype, ambient, {})
            reduced = batch.reduce("max")
        mine = slice(None) if not isinstance(batch, ShardedBatch) else batch.mine
        return reduced.target[mine], reduced.value[mine]

    def _whole(self, value: Tensor) -> Tensor:
        whole = value if self.sharding is None or not is_sharded(value) else self.sharding.whole(value)
        assert whole is not None
        return whole

    def _batch(
        self, x: Tensor, labels: Tensor, wire: torch.dtype, ambient: Precision, rows: Mapping[str, Tensor]
    ) -> Batch:
        """The batch of a call; `wire` is the dtype that x had before it was widened for the loss."""
        batch = Batch(
            x,
            labels,
            local_rows(self.weight),
            self.objective.normalizes_prototypes,
            self.eps,
            self.engine,
            self.chunk_size,
            self.precision,
            ambient,
            self.budget,
            rows,
            self.checked,
            unit_gradients=self.unit_gradients,
        )
        return batch if self.sharding is None else self.sharding.join(batch, wire)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take up a state, alone or as a part of a larger module.

        It may come from a head that samples its classes otherwise, or not at all, and have all processes' classes.
        """
        if self.sampler is None:
            state_dict.pop(prefix + _DRAWS, None)
        else:
            state_dict.setdefault(prefix + _DRAWS, self.sampler.get_extra_state())
        if self.sharding is not None:
            state_dict.update(self.sharding.like(self.state_dict(prefix=prefix), state_dict))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """`to`, `half` and the like; prototypes that are sharded cannot leave the devices of their processes' group."""
        if self.sharding is not None and self.sharding.mesh is not None:
            here = local_rows(self.weight)
            there = fn(here.new_empty(0)).device
            if there.type != here.device.type:
                raise ValueError(f"a sharded head stays on {here.device.type}: make it with device={there.type!r}")
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    @torch.no_grad()
    def advance(self) -> None:
        """Move annealing and margin schedules by one step: call it once per optimizer step."""
        for objective in (self.objective, *self.added.values()):
            objective.advance()  # type: ignore[operator]

    def extra_repr(self) -> str:
        fixed = "" if isinstance(self.weight, nn.Parameter) else ", fixed prototypes"
        shards = "" if self.sharding is None else f", sharded over {self.sharding.exchange.size} processes"
        return f"dim={self.dim}, num_classes={self.num_classes}, engine={self.engine!r}{fixed}{shards}"


class PairLoss(nn.Module):
    """A loss on the embeddings of a batch alone: `loss(embeddings, labels)`."""

    checked: bool = True
    """As of `Head`."""

    def __init__(self, objective: Objective, eps: float = EPS) -> None:
        super().__init__()
        self.objective = objective
        self.eps = check_positive("eps", eps)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        check_embeddings(embeddings, None, values=self.checked)
        labels = check_labels(labels, embeddings, None, values=self.checked)
        with torch.autocast(embeddings.device.type, enabled=False):
            x = to_compute_dtype(embeddings, compute_dtype(embeddings))
            loss: Tensor = self.objective(Batch(x, labels, x, eps=self.eps))
        return loss


def create_head(
    name: str,
    *,
    dim: int,
    num_classes: int,
    prototypes: str | Tensor = "learned",
    engine: str = "auto",
    chunk_size: int | None = None,
    precision: Precision | None = None,
    budget: int | None = None,
    eps: float = EPS,
    add: Additions | None = None,
    shard: Over | None = None,
    sample: float | None = None,
    unbiased: bool = False,
    unit_gradients: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> Head:
    """A head by the name of its loss.

    Args:
        name: one of `list_heads()`.
        dim: width of the embeddings.
        num_classes: number of prototypes, at least 2.
        prototypes: `learned`; or fixed: `simplex`, `tammes`, or a (num_classes, dim) tensor.
        engine: `auto`, `dense`, `chunked` or `triton`.
        chunk_size: classes per chunk of the chunked engine.
        precision: of the fused engine's products, `bf16`, `fp16`, `tf32` or `fp32`; by default what autocast, the
            embeddings' dtype or `torch.set_float32_matmul_precision` says. On a CPU `bf16` rounds the chunked engine's.
        budget: bytes that the fused engine may take for its N x C matrix; less than 2 N C saves memory for time.
        eps: the epsilon of NormFace eq. 3; the released code's is 1e-6.
        add: further losses that share the prototypes, each with its weight and options, for example
            `{"c_contrastive": {"weight": 0.01}, "sample_margin": {"weight": 0.5}}`.
        shard: processes to share the classes (docs/sharding.md): a process group, or a device mesh of one dimension.
            All of them make the head, with the same seed.
        sample: share of the classes that a call in training mode sees (PartialFC, docs/sampling.md), in (0, 1]: those
            of its labels always, and random others. Gradients of prototypes are then sparse: train with `RowSGD` or
            `RowAdamW`, which leave the other rows alone.
        unbiased: weigh the sampled classes, so that sums over the negatives keep their mean.
        unit_gradients: let `weight.grad` be the gradient of the normalised prototypes, for a step of
            `RowSGD(unit_eps=head.eps)`, which takes it through the normalisation in the same pass.
        device, dtype: of the prototypes; a loss's own parameters stay float32.
        options: the loss's own keywords; its docstring lists them.

    Example:
        >>> head = create_head("arcface", dim=512, num_classes=85_742, scale=64, margin=0.5)
        >>> loss = head(embeddings, labels)
    """
    dim, num_classes = check_integer("dim", dim, 1), check_integer("num_classes", num_classes, 2)
    if not isinstance(add or {}, Mapping):
        raise ValueError(f"add={add!r} must map names of losses to their options, for example {{'center': {{}}}}")
    added = {}
    for extra, settings in (add or {}).items():
        if not isinstance(settings, Mapping):
            raise ValueError(f"add[{extra!r}] must map option names to values, for example {{'weight': 0.01}}")
        weight = check_finite_number(f"add[{extra!r}]['weight']", settings.get("weight", 1.0))
        rest = {key: value for key, value in settings.items() if key != "weight"}
        added[extra] = weight, _objective(extra, {"dim": dim, "num_classes": num_classes}, rest)
    return Head(
        _objective(name, {"dim": dim, "num_classes": num_classes}, options),
        dim=dim,
        num_classes=num_classes,
        prototypes=prototypes,
        engine=engine,
        chunk_size=chunk_size,
        precision=precision,
        budget=budget,
        eps=eps,
        added=added,
        shard=shard,
        sample=sample,
        unbiased=unbiased,
        unit_gradients=unit_gradients,
        device=device,
        dtype=dtype,
    )


def create_loss(name: str, *, eps: float = EPS, **options: Any) -> PairLoss:
    """A loss that needs no prototypes: `contrastive` or `triplet`.

    Example:
        >>> loss = create_loss("triplet", margin=0.2, mining="hard")
        >>> loss(embeddings, labels)
    """
    pairs = {entry.name: entry for entry in (Contrastive, Triplet)}
    if name not in pairs:
        hint = "it needs prototypes: use create_head. " if name in OBJECTIVES.names() else ""
        raise ValueError(f"{name!r} is no pair loss; {hint}{nearest(str(name), pairs)}")
    return PairLoss(_objective(name, {}, options), eps)


def list_heads(pattern: str = "*") -> list[str]:
    """The names of all losses that `create_head` knows, matching a shell pattern.

    Example:
        >>> list_heads("sphere*")
        ['sphereface', 'sphereface2', 'sphereface_r']
    """
    return OBJECTIVES.names(pattern)


def _objective(name: str, sizes: Mapping[str, int], options: Mapping[str, Any]) -> Objective:
    entry = OBJECTIVES[name]
    known = set(inspect.signature(entry).parameters) - {"dim", "num_classes"}
    for key in options:
        if key not in known:
            hint = nearest(key, known) if known else "it takes no options"
            raise ValueError(f"{name} has no option {key!r}; {hint}")
    objective: Objective = entry(**sizes, **options)
    objective.options = dict(options)
    return objective


def _fixed_prototypes(prototypes: str | Tensor, num_classes: int, dim: int) -> Tensor | None:
    if isinstance(prototypes, Tensor):
        if prototypes.shape != (num_classes, dim):
            shape = tuple(prototypes.shape)
            raise ValueError(f"prototypes have shape {shape}; num_classes and dim ask for {(num_classes, dim)}")
        if not prototypes.is_floating_point() or not bool(prototypes.isfinite().all()):
            raise ValueError("prototypes must be a floating tensor without NaN or infinity")
        return prototypes.detach().clone()
    if not isinstance(prototypes, str):
        raise ValueError(f"prototypes must be a tensor or a name, not {type(prototypes).__name__}")
    check_choice("prototypes", prototypes, ("learned", "simplex", "tammes"))
    if prototypes == "learned":
        return None
    points = regular_simplex(num_classes, dim) if prototypes == "simplex" else tammes(num_classes, dim)
    return points.to(torch.get_default_dtype())
