"""A head: prototypes, a loss and an engine behind one call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import torch
from torch import Tensor, nn

from hypersphere.distributed import ClassShards, is_sharded, to_local
from hypersphere.engines import EngineOptions, Recorder, compute_dtype
from hypersphere.geometry import EPS, normalize
from hypersphere.heads.sampling import Sampler
from hypersphere.heads.start import scale_rows_
from hypersphere.heads.validate import check_embeddings, check_labels, check_rows, in_range, to_compute_dtype
from hypersphere.losses import Batch, Logits, Objective, ShardedBatch
from hypersphere.losses.logits import largest_of_each

_DRAWS = "sampler._extra_state"
_DEFAULT = EngineOptions()


class NoLogits(ValueError):
    """The loss of a head compares no embedding with its prototypes, so that it has no logits and predicts no class."""


class Head(nn.Module):
    """Prototypes + a loss + an engine. Use `hypersphere.create_head` to make one by the loss's name.

    Args:
        objective: the loss.
        weight: (num_classes, dim), the prototypes; an `nn.Parameter` where they are learned.
        added: further objectives that share the prototypes, with their weights.
        sharding: which classes each process has, where they are shared out; `weight` has those of this process.
        sampler: draws the classes that a call in training mode sees.
        renormalize_to: the norm that `advance()` brings the prototypes back to; None leaves their norms alone.
        engine_options: which engine reduces over the negatives, and how.
        eps, unit_gradients, reduction, validate: as of `create_head`.
        subcenters: prototypes of every class, which stand side by side in `weight`.

    Inputs:
        embeddings (N, dim) of any floating dtype, and integer labels (N,), -1 for none of these classes.
    """

    weight: Tensor

    def __init__(
        self,
        objective: Objective,
        weight: Tensor,
        *,
        added: Mapping[str, tuple[float, Objective]] = MappingProxyType({}),
        sharding: ClassShards | None = None,
        sampler: Sampler | None = None,
        renormalize_to: float | None = None,
        engine_options: EngineOptions = _DEFAULT,
        eps: float = EPS,
        unit_gradients: bool = False,
        reduction: str = "mean",
        validate: bool = True,
        subcenters: int = 1,
    ) -> None:
        super().__init__()
        self.subcenters = subcenters
        self.num_classes = len(weight) // subcenters if sharding is None else sharding.num_classes
        self.dim = weight.shape[1]
        if isinstance(weight, nn.Parameter):
            self.weight = weight
        else:
            self.register_buffer("weight", weight)
        self.objective = objective
        self.added_weights = {name: factor for name, (factor, _) in added.items()}
        self.added = nn.ModuleDict({name: extra for name, (_, extra) in added.items()})
        self.sharding, self.sampler = sharding, sampler
        if sampler is not None:
            sampler.mark(table for table in self.per_class().values() if isinstance(table, nn.Parameter))
        self.renormalize_to = renormalize_to
        self.engine_options, self.eps = engine_options, eps
        self.unit_gradients = unit_gradients
        self.weight.unit_gradients = unit_gradients  # type: ignore[attr-defined]  # for the optimizer to see
        self.reduction, self.validate = reduction, validate
        self.recorder = Recorder()

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
        check_embeddings(embeddings, self.dim, values=False)
        labels = check_labels(labels, embeddings, self.num_classes, values=False)
        compiling = torch.compiler.is_compiling()
        if self.validate and not compiling and not in_range(embeddings, labels, self.num_classes):
            check_embeddings(embeddings, self.dim)
            check_labels(labels, embeddings, self.num_classes)
        check_rows(rows, labels, self.objective)
        if self.sharding is not None and compiling:
            untraced = torch.compiler.disable(self._loss, reason="the classes are sharded")  # type: ignore[no-untyped-call]
            return untraced(embeddings, labels, rows)  # type: ignore[no-any-return]
        return self._loss(embeddings, labels, rows)

    def _loss(self, embeddings: Tensor, labels: Tensor, rows: Mapping[str, Tensor]) -> Tensor:
        engine = self.engine_options.for_call(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            x = to_compute_dtype(embeddings, compute_dtype(embeddings, self.weight))
            batch = self._batch(x, labels, engine, embeddings.dtype, rows)
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
        """(N, num_classes): what the main loss compares before any margin; docs/loss-rules.md has the formula of each.

        All classes, whatever `sample` says; no gradient. Where the classes are sharded, all processes call it, each
        with its own rows.
        """
        batch, logits = self._logits(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            matrix = logits.matrix(batch.as_partial_sums())
        if self.sharding is None or not isinstance(batch, ShardedBatch):
            return matrix
        return self.sharding.gather_classes(matrix, batch.local_rows)

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
        return self.sharding.best_class(largest.value, largest.argmax)[batch.local_rows]

    def _logits(self, embeddings: Tensor) -> tuple[Batch, Logits]:
        """The embeddings as a batch without labels, and how its logits are made."""
        check_embeddings(embeddings, self.dim, values=self.validate)
        dtype, engine = compute_dtype(embeddings, self.weight), self.engine_options.for_call(embeddings)
        labels = torch.full((len(embeddings),), -1, device=embeddings.device)
        with torch.autocast(embeddings.device.type, enabled=False):
            batch = self._batch(embeddings.to(dtype), labels, engine, embeddings.dtype)
            logits = self.objective.logits(batch.as_partial_sums())
        if logits is None:
            raise NoLogits(f"{self.objective.name} compares no embedding with the prototypes: it has no logits")
        return batch, logits

    @torch.no_grad()
    def cosines(self, embeddings: Tensor) -> Tensor:
        """(N, num_classes): the cosine of every embedding and prototype, for looking, not for training.

        Of a class with several prototypes it is the largest cosine.

        Where the classes are sharded, all processes call it, each with its own rows.
        """
        check_embeddings(embeddings, self.dim, values=self.validate)
        dtype = compute_dtype(embeddings, self.weight)
        with torch.autocast(embeddings.device.type, enabled=False):
            unit = normalize(to_local(self.weight).to(dtype), self.eps)
            x = normalize(embeddings.to(dtype), self.eps)
            if self.sharding is not None:
                return self.sharding.products(x, unit)
            return largest_of_each(x @ unit.T, self.subcenters)

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
        """One prototype of each of the first `count` classes; where they are sharded, all processes ask for them."""
        weight = self.weight.detach()[:: self.subcenters]
        return weight[:count] if self.sharding is None else self.sharding.first_rows(weight, count)

    @torch.no_grad()
    def nearest(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) each: the cosine of every embedding with its own prototype, and the largest with any other.

        No N x C matrix is made. A row labelled -1 has 0 for its own. Where the classes are sharded, all processes call
        it, each with its own rows.
        """
        dtype, engine = compute_dtype(embeddings, self.weight), self.engine_options.for_call(embeddings)
        with torch.autocast(embeddings.device.type, enabled=False):
            batch = self._batch(embeddings.to(dtype), labels, engine, embeddings.dtype)
            reduced = batch.reduce("max")
        rows = slice(None) if not isinstance(batch, ShardedBatch) else batch.local_rows
        return reduced.target[rows], reduced.value[rows]

    def _whole(self, value: Tensor) -> Tensor:
        whole = value if self.sharding is None or not is_sharded(value) else self.sharding.full_tensor(value)
        assert whole is not None
        return whole

    def _batch(
        self,
        x: Tensor,
        labels: Tensor,
        engine: EngineOptions,
        wire: torch.dtype,
        rows: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> Batch:
        """The batch of a call; `wire` is the dtype that x had before it was widened for the loss."""
        batch = Batch(
            embeddings=x,
            labels=labels,
            prototypes=to_local(self.weight),
            normalizes_prototypes=self.objective.normalizes_prototypes,
            eps=self.eps,
            options=engine,
            rows=rows,
            validate=self.validate,
            unit_gradients=self.unit_gradients,
            subcenters=self.subcenters,
            recorder=self.recorder,
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

        With `renormalize_to`, also bring every prototype back to that norm.
        """
        for objective in (self.objective, *self.added.values()):
            objective.advance()  # type: ignore[operator]
        if self.renormalize_to is not None:
            scale_rows_(to_local(self.weight), self.renormalize_to)

    def extra_repr(self) -> str:
        fixed = "" if isinstance(self.weight, nn.Parameter) else ", fixed prototypes"
        shards = "" if self.sharding is None else f", sharded over {self.sharding.group.size} processes"
        several = "" if self.subcenters == 1 else f", subcenters={self.subcenters}"
        sizes = f"dim={self.dim}, num_classes={self.num_classes}{several}"
        return f"{sizes}, engine={self.engine_options.engine!r}{fixed}{shards}"
