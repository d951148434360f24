"""Backbones by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hypersphere.backbones import iresnet, lightcnn, mobilefacenet, resnet, sfnet, small  # noqa: F401
from hypersphere.backbones.base import BACKBONES, Backbone
from hypersphere.core import nearest


def create_backbone(
    name: str,
    *,
    dim: int = 512,
    input_size: Sequence[int] = (112, 112),
    channels: int = 3,
    last_relu: bool = False,
    checkpointing: bool = False,
    patch: Sequence[int] | None = None,
    **options: Any,
) -> Backbone:
    """A backbone by its name.

    Args:
        name: one of `list_backbones()`.
        dim: width of the embeddings.
        input_size: height and width of the images.
        channels: 3 for colour, 1 for grey images.
        last_relu: a ReLU on the embeddings (SphereFace Table 6 removes it).
        checkpointing: trade time for memory: only the input of every stage is kept for the backward pass.
        patch: top, bottom, left and right, in pixels, of the part of the images that the net looks at (SphereFace's
            ensemble of patches); all of it by default.
        options: the net's own keywords; its docstring lists them.

    Returns:
        A module from images (N, channels, height, width) to embeddings (N, dim).

    Example:
        >>> net = create_backbone("sfnet20", dim=512, input_size=(112, 96), batch_norm=True)
        >>> embeddings = net(images)
    """
    entry = BACKBONES[name]
    parameters = inspect.signature(entry).parameters.values()
    known = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    for key in options:
        if key not in known:
            hint = nearest(key, known) if known else "it takes no options of its own"
            raise ValueError(f"{name} has no option {key!r}; {hint}")
    net: Backbone = entry(
        dim=dim,
        input_size=input_size,
        channels=channels,
        last_relu=last_relu,
        checkpointing=checkpointing,
        patch=patch,
        **options,
    )
    return net


def list_backbones(pattern: str = "*") -> list[str]:
    """The names of all backbones that `create_backbone` knows, matching a shell pattern.

    Example:
        >>> list_backbones("sfnet?0")
        ['sfnet10', 'sfnet20']
    """
    return BACKBONES.names(pattern)
