"""Sampling by an affine map: to the last bit the sum of weighted neighbours, those outside with weight 0."""

import pytest
import torch
from torch import Tensor

from hypersphere.data.pixels import move

MAPS = torch.tensor(
    [
        [1.0, 0.0, 5.0, 0.0, 1.0, 4.0],  # nothing moves
        [-1.0, 0.0, 7.0, 0.0, 1.0, 1.0],  # mirrored and shifted
        [0.9, -0.3, 5.3, 0.3, 0.9, 4.1],
        [1.7, 0.4, -1.6, -0.4, 1.7, 9.2],
        [1.0, 0.0, 14.5, 0.0, 1.0, 4.25],  # all but out of the image
        [1.0, 0.0, 5.0, 0.0, 1.0, -900.0],
        [0.1, 0.0, -0.5, 0.0, 0.1, 8.5],  # along its edges
    ]
)
BOXES = torch.tensor(
    [[0, 9, 0, 11], [2, 5, 3, 4], [0, 9, 0, 11], [1, 8, 2, 11], [0, 9, 0, 11], [0, 1, 0, 1], [4, 9, 0, 6]]
).float()


def summed(images: Tensor, affine: Tensor, box: Tensor | None, *, blend: bool) -> Tensor:
    """The same sum, neighbour by neighbour, in the same order and precision."""
    _, channels, height, width = images.shape
    y = torch.arange(height)[:, None] - (height - 1) / 2
    x = torch.arange(width) - (width - 1) / 2
    result = torch.zeros(images.shape)
    for number, (a, b, c, d, e, f) in enumerate(each.unbind() for each in affine):
        top, bottom, left, right = (0, height, 0, width) if box is None else box[number].int().tolist()
        column, row = a * x + b * y + c, d * x + e * y + f
        for below in range(1 + blend):
            for beside in range(1 + blend):
                near_row, near_column = row.floor() + below, column.floor() + beside
                share_row, share_column = row - row.floor(), column - column.floor()
                weight = (share_row if below else 1 - share_row) * (share_column if beside else 1 - share_column)
                weight = weight if blend else torch.ones_like(weight)
                seen = (near_row >= top) & (near_row < bottom) & (near_column >= left) & (near_column < right)
                index = near_row.clamp(0, height - 1).long(), near_column.clamp(0, width - 1).long()
                for channel in range(channels):
                    result[number, channel] += images[number, channel][index] * (weight * seen)
    return result


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("box", [None, BOXES], ids=["whole", "boxes"])
@pytest.mark.parametrize("blend", [True, False])
def test_move_is_the_sum_of_its_neighbours_bit_by_bit(channels: int, box: Tensor | None, *, blend: bool) -> None:
    images = torch.randint(256, (7, channels, 9, 11), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    affine = MAPS if blend else MAPS.round()
    moved = move(images, affine, box, blend=blend)
    assert moved.is_contiguous()
    assert torch.equal(moved, summed(images, affine, box, blend=blend))
    assert moved.any()


def test_what_is_not_moved_and_what_is_outside() -> None:
    images = torch.full((7, 1, 9, 11), 200, dtype=torch.uint8)
    moved = move(images, MAPS, None, blend=True)
    assert (moved[0] == 200).all()
    assert not moved[5].any()
    assert 0 < moved[4].count_nonzero() < moved[4].numel() / 4
