"""The gradients of a training step as one CUDA graph: hundreds of small kernels, launched as one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from hypersphere.distributed import World
from hypersphere.training.recipe import Recipe

Gradients = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Result = TypeVar("Result")
WARM_UP = 3
"""Steps that are taken as usual before one is captured."""


def on_own_stream(step: Callable[[], Result]) -> Result:
    """Take a step as usual, on a stream of its own, as torch asks before a capture."""
    current, own = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    own.wait_stream(current)
    with torch.cuda.stream(own):
        result = step()
    current.wait_stream(own)
    return result


def capture(step: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
    """Note down the kernels of a step, without running them: the graph, and what the step returned.

    Garbage is collected before: a graph of an earlier run that is destroyed meanwhile would end the capture.
    """
    gc.collect()
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


def make_step_graph(recipe: Recipe, world: World, gradients: Gradients, optimizer: torch.optim.Optimizer) -> StepGraph:
    """Return what computes the gradients of a run's steps; ValueError where they cannot be one graph."""
    check_graph(recipe, world, mixed=bool(recipe.train.mixup or recipe.train.cutmix))
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return StepGraph(gradients, trained, recipe.train.batch_size)


def check_graph(recipe: Recipe, world: World, *, mixed: bool) -> None:
    """Raise ValueError where a step can be no graph: for what the recipe asks, or for images that are `mixed`."""
    settings, head = recipe.train, recipe.head
    causes = {
        f"the run is on {world.device.type}": world.device.type != "cuda",
        f"{world.size} processes train together": world.size > 1,
        "train.accumulate splits the batch": settings.accumulate > 1,
        "train.precision=float16 scales the loss": settings.precision == "float16",
        "batches are mixed anew at every step": mixed,
        "train.semi_siamese moves the prototypes": settings.semi_siamese is not None,
        "head.sample draws classes": head.get("sample") is not None,
        "a teacher is asked at every step": recipe.teacher.model is not None,
    }
    cause = next((text for text, found in causes.items() if found), None)
    if cause is not None:
        raise ValueError(f"graph=True: {cause}, which no single graph holds; leave it out")


class StepGraph:
    """Computes gradients as `gradients` does: after a few steps by replaying what it did, on other images.

    Args:
        gradients: called with images and labels; leaves gradients in the parameters and returns the loss and the
            embeddings.
        parameters: whose gradients these are.
        batch_size: of the batches that are replayed; one of another size is computed as usual.
    """

    def __init__(self, gradients: Gradients, parameters: Iterable[nn.Parameter], batch_size: int) -> None:
        self.gradients, self.parameters, self.batch_size = gradients, list(parameters), batch_size
        self.warmed = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.held: list[Tensor | None] = []
        self.given: tuple[Tensor, Tensor] | None = None
        self.result: tuple[Tensor, Tensor] | None = None

    def __call__(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Leave the gradients of a batch in the parameters; return its loss and embeddings, until the next call."""
        if len(images) != self.batch_size:
            return self._compute(images, labels)
        if self.warmed < WARM_UP:
            self.warmed += 1
            return on_own_stream(lambda: self._compute(images, labels))
        if self.graph is None:
            self._capture(images, labels)
        assert self.graph is not None
        assert self.given is not None
        assert self.result is not None
        for held, value in zip(self.given, (images, labels), strict=True):
            held.copy_(value)
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.held, strict=True):
            parameter.grad = gradient
        return self.result

    def _compute(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        for parameter in self.parameters:
            parameter.grad = None
        loss, embeddings = self.gradients(images, labels)
        return loss.detach(), embeddings.detach()

    def _capture(self, images: Tensor, labels: Tensor) -> None:
        """Make the graph of a step: its gradients lie where they will always lie."""
        given = self.given = images.clone(), labels.clone()
        self.graph, self.result = capture(lambda: self._compute(*given))
        self.held = [parameter.grad for parameter in self.parameters]
