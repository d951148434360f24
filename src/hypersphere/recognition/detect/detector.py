"""What a detector is, and how one is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from hypersphere.data import Image
from hypersphere.models import fetch, find_entry
from hypersphere.recognition.detect import scrfd, yunet
from hypersphere.recognition.detect.mtcnn import Mtcnn
from hypersphere.recognition.detect.one_shot import STRIDES
from hypersphere.recognition.detect.scrfd import Scrfd
from hypersphere.recognition.detect.session import open_network, shapes_of
from hypersphere.recognition.detect.yunet import YuNet
from hypersphere.recognition.face import Face


class Detector(Protocol):
    """Finds faces with five landmarks in photos."""

    name: str

    def __call__(self, images: Sequence[Image]) -> list[list[Face]]:
        """Return the faces of every photo, uint8 (H, W, 3) RGB of any sizes, the best score first."""
        ...


def load_detector(
    source: str | Path = "mtcnn", *, threads: int | None = None, provider: str = "cpu", **options: Any
) -> Detector:
    """Return a detector of faces.

    Args:
        source: a name of the catalogue, `mtcnn` or `yunet`, or an ONNX file of YuNet or SCRFD, which are known by their
            outputs.
        threads: of each network; those of torch by default.
        provider: of onnxruntime, a key of `models.PROVIDERS`.
        options: of the detector: see `Mtcnn`, `YuNet` and `Scrfd`.

    Example:
        >>> detector = load_detector("mtcnn", min_face=40)
        >>> [len(faces) for faces in detector([photo])]
        [1]
    """
    if str(source) == "mtcnn":
        return Mtcnn(threads=threads, provider=provider, **options)
    entry = find_entry(source)
    if entry is not None and entry.kind != "detector":
        raise ValueError(f"detector {str(source)!r} is a {entry.kind}; give it as the model")
    path = Path(source) if entry is None else fetch(entry) or Path(source)
    if path.suffix != ".onnx":
        raise ValueError(f"detector {str(source)!r} is neither mtcnn, yunet nor an .onnx file of YuNet or SCRFD")
    session = open_network(path, threads, provider=provider)
    return _kind_of(path, session)(path, session, **options)


def _kind_of(path: Path, session: Any) -> type[YuNet] | type[Scrfd]:
    """Tell by its input and outputs which detector a file is."""
    inputs, outputs = shapes_of(session.get_inputs()), shapes_of(session.get_outputs())
    widths = {name: shape[-1] if shape else None for name, shape in outputs.items()}
    takes_images = len(inputs) == 1 and all(len(shape) == 4 and shape[1] == 3 for shape in inputs.values())
    if takes_images and widths == yunet.OUTPUTS:
        return YuNet
    strides = len(STRIDES)
    if takes_images and list(widths.values()) == [width for width in scrfd.WIDTHS for _ in range(strides)]:
        return Scrfd
    if takes_images and list(widths.values()) == [width for width in scrfd.WIDTHS[:2] for _ in range(strides)]:
        raise ValueError(f"{path}: an SCRFD without landmarks; take a file with them (their names have `kps`)")
    shown = ", ".join(f"{name} {shape}" for name, shape in outputs.items())
    raise ValueError(
        f"{path}: no detector that is known: YuNet has the outputs {', '.join(yunet.OUTPUTS)}, SCRFD three scores, "
        f"three boxes and three sets of landmarks; this file has {shown}"
    )
