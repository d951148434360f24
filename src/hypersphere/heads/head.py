"""A head: prototypes, a loss and an engine behind one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn

from hypersphere.core import check_choice, check_integer, check_positive
from hypersphere.distributed import ClassShards, GroupLike, is_sharded, to_local
from hypersphere.engines import ENGINES, PRECISIONS, Precision, ambient_precision, compute_dtype
from hypersphere.geometry import EPS, normalize
from hypersphere.heads.prototypes import draw_rows_, fixed_prototypes, scale_rows_
from hypersphere.heads.sampling import Sampler, check_sampling
from hypersphere.heads.validate import check_embeddings, check_labels, check_rows, to_compute_dtype
from hypersphere.losses import Batch, Logits, Objective, SampleLoss, ShardedBatch

_DRAWS = "sampler._extra_state"


class Head(nn.Module):
    """Prototypes + a loss + an engine. Use `hypersphere.create_head` to make one by the loss's name.

    Args:
        objective: the loss.
        dim: width of the embeddings.
        num_classes: number of prototypes, at least 2.
        prototypes: `learned`; or fixed: `simplex` (num_classes <= dim + 1), `tammes`, or a (num_classes, dim) tensor.
        prototype_norm: of learned prototypes at the start, drawn uniformly on that sphere. By default they start as the
            rows of `torch.nn.Linear` where the loss sees their lengths, and from N(0, 0.01^2) where it does not.
        renormalize: bring the prototypes back to that norm in every `advance()`.
        engine: `auto`, `dense`, `chunked` or `triton`.
        chunk_size: classes per chunk of the chunked engine.
        precision: of the fused engine's products, `bfloat16`, `float16`, `tf32` or `float32`; by default what autocast,
            the embeddings' dtype or `torch.set_float32_matmul_precision` says. On a CPU `bfloat16` rounds the chunked
            engine's.
        budget: bytes that the fused engine may take for its N x C matrix; less than 2 N C saves memory for time.
        eps: the epsilon of NormFace eq. 3.
        added: further objectives that share the prototypes, with their weights.
        shard: processes to share the classes: a process group, or a device mesh of one dimension.
        sample: share of the classes that a call in training mode sees, in (0, 1]: those of its labels, and random ones.
        unbiased: weigh the sampled classes, so that sums over the negatives keep their mean.
        unit_gradients: let `weight.grad` be the gradient of the normalised prototypes, for a step of
            `RowSGD(unit_eps=head.eps)`, which takes it through the normalisation in the same pass.
        reduction: `mean` over the batch, or `none`: a loss for every row, 0 where the mean leaves it out.
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
        prototype_norm: float | None = None,
        renormalize: bool = False,
        engine: str = "auto",
        chunk_size: int | None = None,
        precision: Precision | None = None,
        budget: int | None = None,
        eps: float = EPS,
        added: Mapping[str, tuple[float, Objective]] | None = None,
        shard: GroupLike | None = None,
        sample: float | None = None,
        unbiased: bool = False,
        unit_gradients: bool = False,
        reduction: str = "mean",
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
        self.sharding = None if shard is None else ClassShards(shard, num_classes, device)
        objectives = (objective, *(extra for _, extra in (added or {}).values()))
        fixed = fixed_prototypes(prototypes, num_classes, dim)
        self.prototype_norm = _check_norm(prototype_norm, renormalize, fixed is not None, objectives)
        self.renormalize = renormalize
        if fixed is not None:
            own = fixed if self.sharding is None else self.sharding.shard_of(fixed)
            own = own.to(device=device, dtype=dtype)
            self.register_buffer("weight", own if self.sharding is None else self.sharding.to_dtensor(own))
        else:
            draw = partial(draw_rows_, norm=self.prototype_norm, normalized=objective.normalizes_prototypes)
            if self.sharding is not None:
                own = self.sharding.draw(torch.empty(0, dim, device=device, dtype=dtype), draw)
            else:
                own = draw(torch.empty(num_classes, dim, device=device, dtype=dtype))
            self.weight = nn.Parameter(own if self.sharding is None else self.sharding.to_dtensor(own))
        for each in objectives:
            each.reset_parameters()
        self.objective = objective.to(device=device)
        self.added_weights = {name: weight for name, (weight, _) in (added or {}).items()}
        self.added = nn.ModuleDict({name: extra.to(device=device) for name, (_, extra) in (added or {}).items()})
        if self.sharding is not None:
            for each in objectives:
                self.sharding.shard_parameters(each, each.per_class)
        if unbiased and sample is None:
            raise ValueError("unbiased=True is about a sample of the classes: give sample, for example sample=0.1")
        self.sampler = None if sample is None else self._sampler(sample, unbiased)
        self.unit_gradients = unit_gradients
        self.weight.unit_gradients = unit_gradients  # type: ignore[attr-defined]  # for the optimizer to see
        if unit_gradients:
            self._check_unit_gradients()
        self.reduction = check_choice("reduction", reduction, ("mean", "none"))
        for each in objectives if reduction == "none" else ():
            if not isinstance(each, SampleLoss):
                raise ValueError(f"reduction='none': {each.name} is one number of the whole batch, not one per sample")

    def _sampler(self, share: float, unbiased: bool) -> Sampler:
        check_sampling([self.objective, *self.added.values()], unbiased)  # type: ignore[list-item]
        sampler = Sampler(share, unbiased, 0 if self.sharding is None else self.sharding.group.rank)
        sampler.mark(table for table in self.per_class().values() if isinstance(table, nn.Parameter))
        return sampler

    def _check_unit_gradients(self) -> None:
        for each in (self.objective, *self.added.values()):
            if not each.normalizes_prototypes or not each.depends_on_scores_only:
                raise ValueError(f"unit_gradients=True: {each.name} depends on more than scores with unit prototypes")

    def forward(self, embeddings: Tensor, labels: Tensor, **rows: Tensor) -> Tensor:
        """The loss of a batch, a scalar in float32 (float64 for float64 input); with `reduction="none"`, (N,) losses.

        Where the classes are sharded, every process gives its own rows, and the loss is that of all of them together;
        the gradient of a process's rows is multiplied by the number of processes, so that
        `DistributedDataParallel`, which averages, gives the gradient of that loss. With `reduction="none"` a process
        has the losses of its own rows, and what is minimised is the mean over the processes of what each makes of them.

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
            loss = self._value(self.objective, batch)
            for name, extra in self.added.items():
                loss = loss + self.added_weights[name] * self._value(extra, batch)
        return loss

    def _value(self, objective: nn.Module, batch: Batch) -> Tensor:
        value: Tensor = objective(batch) if self.reduction == "mean" else objective.per_sample(batch)  # type: ignore[operator]
        return value

    @torch.no_grad()
    def logits(self, embeddings: Tensor) -> Tensor:
        """(N, num_classes): what the main loss compares before any margin; docs/losses.md has the formula of each.

        All classes, whatever `sample` says; no gradient. Where the classes are sharded, all processes call it, each
        with its own rows.
        """
        batch, logits = self._logits(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            matrix = logits.matrix(batch.as_partial_sums())
        if self.sharding is None or not isinstance(batch, ShardedBatch):
            return matrix
        return self.sharding.gather_classes(matrix, batch.mine)

    @torch.no_grad()
    def predict(self, embeddings: Tensor) -> Tensor:
        """(N,): the class with the largest of `logits`, the lowest one on ties.

        No N x C matrix is made but by the engine `dense`. Where the classes are sharded, all processes call it, each
        with its own rows.
        """
        batch, logits = self._logits(embeddings)
        largest = logits.largest(batch.as_partial_sums())
        assert largest.argmax is not None
        if self.sharding is None or not isinstance(batch, ShardedBatch):
            return largest.argmax
        return self.sharding.best_class(largest.value, largest.argmax)[batch.mine]

    def _logits(self, embeddings: Tensor) -> tuple[Batch, Logits]:
        """The embeddings as a batch without labels, and how its logits are made."""
        check_embeddings(embeddings, self.dim, values=self.checked)
        dtype, ambient = compute_dtype(embeddings, self.weight), ambient_precision(embeddings)
        labels = torch.full((len(embeddings),), -1, device=embeddings.device)
        with torch.autocast(embeddings.device.type, enabled=False):
            batch = self._batch(embeddings.to(dtype), labels, embeddings.dtype, ambient, {})
            logits = self.objective.logits(batch.as_partial_sums())
        if logits is None:
            raise ValueError(f"{self.objective.name} compares no embedding with the prototypes: it has no logits")
        return batch, logits

    @torch.no_grad()
    def cosines(self, embeddings: Tensor) -> Tensor:
        """(N, num_classes): the cosine of every embedding and prototype, for looking, not for training.

        Where the classes are sharded, all processes call it, each with its own rows.
        """
        check_embeddings(embeddings, self.dim, values=self.checked)
        dtype = compute_dtype(embeddings, self.weight)
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = normalize(to_local(self.weight).to(dtype), self.eps)
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
        return self.sharding.full_tensor(self.weight, keep=self.sharding.group.rank == 0)

    def prototypes(self, count: int) -> Tensor:
        """The first `count` prototypes; where they are sharded, all processes ask for them."""
        weight = self.weight.detach()
        return weight[:count] if self.sharding is None else self.sharding.first_rows(weight, count)

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
        whole = value if self.sharding is None or not is_sharded(value) else self.sharding.full_tensor(value)
        assert whole is not None
        return whole

    def _batch(
        self, x: Tensor, labels: Tensor, wire: torch.dtype, ambient: Precision, rows: Mapping[str, Tensor]
    ) -> Batch:
        """The batch of a call; `wire` is the dtype that x had before it was widened for the loss."""
        batch = Batch(
            x,
            labels,
            to_local(self.weight),
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
        return batch if self.sharding is None else ShardedBatch.gather(batch, self.sharding, wire)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take up a state, alone or as a part of a larger module.

        It may come from a head that samples its classes otherwise, or not at all, and have all processes' classes.
        """
        if self.sampler is None:
            state_dict.pop(prefix + _DRAWS, None)
        else:
            state_dict.setdefault(prefix + _DRAWS, self.sampler.get_extra_state())
        if self.sharding is not None:
            state_dict.update(self.sharding.shard_state_dict(self.state_dict(prefix=prefix), state_dict))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """`to`, `half` and the like; prototypes that are sharded cannot leave the devices of their processes' group."""
        if self.sharding is not None and self.sharding.mesh is not None:
            here = to_local(self.weight)
            there = fn(here.new_empty(0)).device
            if there.type != here.device.type:
                raise ValueError(f"a sharded head stays on {here.device.type}: make it with device={there.type!r}")
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    @torch.no_grad()
    def advance(self) -> None:
        """Move annealing and margin schedules by one step: call it once per optimizer step.

        With `renormalize`, also bring every prototype back to `prototype_norm`.
        """
        for objective in (self.objective, *self.added.values()):
            objective.advance()  # type: ignore[operator]
        if self.renormalize:
            assert self.prototype_norm is not None
            scale_rows_(to_local(self.weight), self.prototype_norm)

    def extra_repr(self) -> str:
        fixed = "" if isinstance(self.weight, nn.Parameter) else ", fixed prototypes"
        shards = "" if self.sharding is None else f", sharded over {self.sharding.group.size} processes"
        return f"dim={self.dim}, num_classes={self.num_classes}, engine={self.engine!r}{fixed}{shards}"


def _check_norm(norm: float | None, renormalize: bool, fixed: bool, objectives: Iterable[Objective]) -> float | None:
    """The norm of learned prototypes, where it and `renormalize` make sense."""
    if fixed and (renormalize or norm is not None):
        given = "renormalize=True" if norm is None else f"prototype_norm={norm!r}"
        raise ValueError(f"{given} is about learned prototypes: fixed ones keep the norms they have")
    if norm is None:
        if renormalize:
            raise ValueError("renormalize=True needs the norm to come back to: give prototype_norm, for example 1.0")
        return None
    for each in objectives if renormalize else ():
        if not each.normalizes_prototypes:
            raise ValueError(f"renormalize=True: {each.name} learns the lengths of its prototypes; leave it out")
    return check_positive("prototype_norm", norm)
