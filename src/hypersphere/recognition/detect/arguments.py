"""What every detector is given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hypersphere.data import Image


def check_photos(images: Sequence[Image]) -> None:
    """ValueError unless all are uint8 (H, W, 3) with a pixel at least."""
    if isinstance(images, np.ndarray) and images.ndim == 3:
        raise ValueError(f"images is one array {images.shape}: give a list of photos, [image]")
    for index, image in enumerate(images):
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            found = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
            raise ValueError(f"images[{index}] is {found}; expected uint8 (H, W, 3) RGB, as read_photo gives it")
        if 0 in image.shape:
            raise ValueError(f"images[{index}] has no pixels: {image.shape}")
