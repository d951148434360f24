"""The reduction as operators of torch: what `torch.compile` sees of the chunked and the fused engine.

A compiler cannot look into an engine's loops and kernels. It gets two operators instead, one of each pass, that it
calls as they are; their fake kernels tell it shapes. An operator takes tensors, numbers and words only, so a reduction
is taken apart into `Arguments` and put together again inside. Nothing is looked up in this process: a compiled graph
may be read from a cache by another.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from functools import reduce
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from hypersphere.engines.chunked import chunked_backward, chunked_forward
from hypersphere.engines.options import EngineOptions
from hypersphere.engines.score_functions import ScoreFunction
from hypersphere.engines.spec import Kind, Reduced, Reduction, ReductionInputs
from hypersphere.engines.triton.autograd import Kept, fake_kept, fused_backward, fused_forward


class Arguments(NamedTuple):
    """A reduction as an operator takes it, in the order of `_SCHEMA`.

    `function` is the class of the score function, `module:name`; `function_tensors` has an entry for each of its
    fields, None for those that are numbers, which follow in `function_numbers`. `needs` says which of the first five
    tensors need a gradient.
    """

    embeddings: Tensor
    prototypes: Tensor
    scale: Tensor
    offset: Tensor | None
    bias: Tensor | None
    labels: Tensor
    function_tensors: list[Tensor | None]
    function: str
    function_numbers: list[float]
    kind: str
    normalize_prototypes: bool
    eps: float
    normalize_embeddings: bool
    unit_gradients: bool
    subcenters: int
    fixed_scale: float | None
    rounded: bool
    engine: str
    chunk_size: int | None
    precision: str | None
    budget: int | None
    needs: list[bool]

    @classmethod
    def of(cls, engine: str, inputs: ReductionInputs, options: EngineOptions) -> Arguments:
        """Take a reduction apart, for one of the engines `chunked` and `triton`."""
        reduction, function = inputs.reduction, inputs.reduction.score_function
        values = [getattr(function, field.name) for field in fields(cast(Any, function))]
        return cls(
            embeddings=inputs.embeddings,
            prototypes=inputs.prototypes,
            scale=inputs.scale,
            offset=inputs.offset,
            bias=inputs.bias,
            labels=inputs.labels,
            function_tensors=[value.detach() if isinstance(value, Tensor) else None for value in values],
            function=f"{type(function).__module__}:{type(function).__qualname__}",
            function_numbers=[value for value in values if not isinstance(value, Tensor)],
            kind=reduction.kind,
            normalize_prototypes=reduction.normalize_prototypes,
            eps=reduction.eps,
            normalize_embeddings=reduction.normalize_embeddings,
            unit_gradients=reduction.unit_gradients,
            subcenters=reduction.subcenters,
            fixed_scale=inputs.fixed_scale,
            rounded=inputs.rounded,
            engine=engine,
            chunk_size=options.chunk_size,
            precision=options.precision,
            budget=options.budget,
            needs=[
                torch.is_grad_enabled() and tensor is not None and tensor.requires_grad
                for tensor in inputs.differentiable
            ],
        )

    @property
    def inputs(self) -> ReductionInputs:
        """The reduction, put together again."""
        numbers, function = iter(self.function_numbers), _class_called(self.function)
        values = [next(numbers) if tensor is None else tensor for tensor in self.function_tensors]
        names = [field.name for field in fields(function)]
        reduction = Reduction(
            cast(Kind, self.kind),
            function(**dict(zip(names, values, strict=True))),
            normalize_prototypes=self.normalize_prototypes,
            eps=self.eps,
            normalize_embeddings=self.normalize_embeddings,
            unit_gradients=self.unit_gradients,
            subcenters=self.subcenters,
        )
        tensors = self.embeddings, self.prototypes, self.scale, self.offset, self.bias, self.labels
        return ReductionInputs(*tensors, reduction, self.fixed_scale, self.rounded)

    @property
    def options(self) -> EngineOptions:
        return EngineOptions(
            engine=self.engine,
            chunk_size=self.chunk_size,
            precision=self.precision,  # type: ignore[arg-type]
            budget=self.budget,
        )


_SCHEMA = (
    "Tensor embeddings, Tensor prototypes, Tensor scale, Tensor? offset, Tensor? bias, Tensor labels,"
    " Tensor?[] function_tensors, str function, Scalar[] function_numbers, str kind, bool normalize_prototypes,"
    " float eps, bool normalize_embeddings, bool unit_gradients, int subcenters, float? fixed_scale, bool rounded,"
    " str engine, int? chunk_size, str? precision, int? budget, bool[] needs"
)
_FIELDS = (bool, int, float, Tensor)
_OUTPUTS = "Tensor[] outputs, Tensor grad_target, Tensor grad_value"


def describable(function: ScoreFunction) -> bool:
    """Whether an operator can take the score function: a dataclass of a module, with numbers and tensors in it."""
    kind = type(function)
    if "__dataclass_fields__" not in kind.__dict__ or "<locals>" in kind.__qualname__:
        return False
    return all(
        field.init and isinstance(getattr(function, field.name), _FIELDS) for field in fields(cast(Any, function))
    )


def _class_called(name: str) -> Any:
    module, path = name.split(":")
    return reduce(getattr, path.split("."), importlib.import_module(module))


def reduce_traced(engine: str, inputs: ReductionInputs, options: EngineOptions) -> Reduced:
    """Reduce the negatives of every row by the engine `chunked` or `triton`, as one operator of the traced graph."""
    target, value, argmax, *_ = reduce_forward(*Arguments.of(engine, inputs, options))
    return Reduced(target, value, argmax if inputs.reduction.kind == "max" else None)


@torch.library.custom_op("hypersphere::reduce_negatives", mutates_args=(), schema=f"({_SCHEMA}) -> Tensor[]")
def reduce_forward(*args: Any) -> list[Tensor]:
    """Target, value, class of the maximum, and what the fused engine keeps; where there is none, an empty tensor."""
    arguments = Arguments(*args)
    inputs = arguments.inputs
    with torch.autocast(inputs.embeddings.device.type, enabled=False):
        if arguments.engine == "chunked":
            return list(chunked_forward(inputs, arguments.chunk_size))
        target, value, kept = fused_forward(inputs, arguments.options, arguments.needs)
    return _filled(inputs, target, value, *kept)


@reduce_forward.register_fake
def _(*args: Any) -> list[Tensor]:
    arguments = Arguments(*args)
    inputs = arguments.inputs
    x = inputs.embeddings
    target, value = (x.new_empty(x.shape[0]) for _ in range(2))
    if arguments.engine == "chunked":
        return [target, value, x.new_empty(x.shape[0], dtype=torch.int64)]
    return _filled(inputs, target, value, *fake_kept(inputs, arguments.options, arguments.needs))


def _filled(inputs: ReductionInputs, *tensors: Tensor | None) -> list[Tensor]:
    return [inputs.embeddings.new_empty(0) if tensor is None else tensor for tensor in tensors]


@torch.library.custom_op(
    "hypersphere::reduce_negatives_backward", mutates_args=(), schema=f"({_OUTPUTS}, {_SCHEMA}) -> Tensor[]"
)
def reduce_backward(outputs: list[Tensor], grad_target: Tensor, grad_value: Tensor, *args: Any) -> list[Tensor]:
    """The gradients that are needed of embeddings, prototypes, scale, offset and bias."""
    arguments = Arguments(*args)
    inputs, needs = arguments.inputs, arguments.needs
    _, value, argmax, *rest = outputs
    if arguments.engine == "chunked":
        gradients = chunked_backward(inputs, arguments.chunk_size, needs, value, argmax, (grad_target, grad_value))
    else:
        kept = Kept(*(tensor if tensor.numel() else None for tensor in (argmax, *rest)))
        gradients = fused_backward(inputs, arguments.options, needs, value, kept, (grad_target, grad_value))
    return [gradient.contiguous() for gradient in gradients if gradient is not None]


@reduce_backward.register_fake
def _(outputs: list[Tensor], grad_target: Tensor, grad_value: Tensor, *args: Any) -> list[Tensor]:
    arguments = Arguments(*args)
    needed = zip(arguments[:5], arguments.needs, strict=True)
    return [tensor.new_empty(tensor.shape) for tensor, needs in needed if needs and isinstance(tensor, Tensor)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    arguments = Arguments(*inputs)
    ctx.mark_non_differentiable(*output[2:])
    ctx.save_for_backward(*arguments[:6], *arguments.function_tensors, *output)
    ctx.fields, ctx.settings = len(arguments.function_tensors), arguments[7:]


def _differentiate(ctx: Any, grads: list[Tensor]) -> tuple[Any, ...]:
    tensors, rest = ctx.saved_tensors[:6], list(ctx.saved_tensors[6:])
    arguments = Arguments._make((*tensors, rest[: ctx.fields], *ctx.settings))
    found = iter(reduce_backward(rest[ctx.fields :], grads[0], grads[1], *arguments))
    gradients = [next(found) if needed else None for needed in arguments.needs]
    return *gradients, *(_no_gradient(argument) for argument in arguments[5:])


def _no_gradient(argument: Any) -> Any:
    """None, or a list of them for what torch takes for a list of tensors."""
    listed = isinstance(argument, list) and all(isinstance(item, Tensor) for item in argument)
    return [None] * len(argument) if listed else None


torch.library.register_autograd("hypersphere::reduce_negatives", _differentiate, setup_context=_save)
