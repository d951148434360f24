"""hypersphere: learn, measure, understand and use embeddings on the unit sphere.

Names are loaded when they are first used, so that `hypersphere --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hypersphere.version import __version__

if TYPE_CHECKING:
    from hypersphere import (
        backbones,
        core,
        data,
        distributed,
        engines,
        evaluation,
        geometry,
        heads,
        losses,
        models,
        optim,
        plots,
        pml,
        pocket,
        recognition,
        service,
        theory,
        training,
    )
    from hypersphere.backbones import create_backbone, list_backbones
    from hypersphere.evaluation.protocols import evaluate, list_protocols
    from hypersphere.heads import Head, PairLoss, create_head, create_loss, list_heads
    from hypersphere.models import Embedder, load_model
    from hypersphere.optim import RowAdamW, RowSGD
    from hypersphere.recognition import Recognizer, align_face, load_detector, open_gallery

__all__ = [
    "Embedder",
    "Head",
    "PairLoss",
    "Recognizer",
    "RowAdamW",
    "RowSGD",
    "__version__",
    "align_face",
    "backbones",
    "core",
    "create_backbone",
    "create_head",
    "create_loss",
    "data",
    "distributed",
    "engines",
    "evaluate",
    "evaluation",
    "geometry",
    "heads",
    "list_backbones",
    "list_heads",
    "list_protocols",
    "load_detector",
    "load_model",
    "losses",
    "models",
    "open_gallery",
    "optim",
    "plots",
    "pml",
    "pocket",
    "recognition",
    "service",
    "theory",
    "training",
]

_OWNERS = {
    "Embedder": "models",
    "Head": "heads",
    "PairLoss": "heads",
    "Recognizer": "recognition",
    "RowAdamW": "optim",
    "RowSGD": "optim",
    "align_face": "recognition",
    "create_backbone": "backbones",
    "create_head": "heads",
    "create_loss": "heads",
    "evaluate": "evaluation.protocols",
    "list_backbones": "backbones",
    "list_heads": "heads",
    "list_protocols": "evaluation.protocols",
    "load_detector": "recognition",
    "load_model": "models",
    "open_gallery": "recognition",
}
"""The room of each name that is not a room itself."""


if not TYPE_CHECKING:  # mypy takes any attribute of a module that has a __getattr__ for an Any

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            from hypersphere.core import nearest

            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {nearest(name, __all__)}")
        owner = _OWNERS.get(name)
        value = import_module(f"{__name__}.{owner or name}")
        globals()[name] = value = getattr(value, name) if owner else value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
