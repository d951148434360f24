"""Steps planned together are, bit by bit, those planned alone."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hypersphere.data import Augmentation, AugmentedSteps
from hypersphere.data.augment import KINDS

EVERYTHING = Augmentation(**dict[str, Any].fromkeys(KINDS, 0.5))  # type: ignore[arg-type]
RESIZED = Augmentation(**dict[str, Any].fromkeys(KINDS, 0.5), crop_resize=True)  # type: ignore[arg-type]


def generator(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(100 + step)


def draw(step: int, images: int) -> Tensor:
    return Augmentation.draw(images, generator(step))


def batch(step: int, count: int = 5, size: int = 12) -> Tensor:
    return torch.randint(256, (count, 3, size, size), generator=generator(step)).to(torch.uint8)


@pytest.mark.parametrize("augment", [EVERYTHING, RESIZED, Augmentation(flip=0.5), Augmentation()])
def test_images_are_those_of_every_step_alone(augment: Augmentation) -> None:
    together = AugmentedSteps(augment, draw, ahead=8)
    for step in (*range(3, 12), 2, 40):
        assert torch.equal(together(batch(step), step), augment(batch(step), generator(step)))


@pytest.mark.parametrize("count", [1, 3, 16, 37, 256])
@pytest.mark.parametrize("augment", [EVERYTHING, RESIZED])
def test_a_plan_does_not_depend_on_the_rows_around(augment: Augmentation, count: int) -> None:
    """Not even in the last bit, wherever in a vector instruction a row comes to lie."""
    draws = [draw(step, count) for step in range(8)]
    alone = [augment.plan(each, 3, 112, 112) for each in draws]
    numbers, layout = augment.plan(torch.cat(draws), 3, 112, 112)
    assert torch.equal(numbers, torch.cat([each for each, _ in alone]))
    assert {layout} == {each for _, each in alone}


def test_steps_in_a_row_are_planned_once() -> None:
    asked: list[int] = []

    def seen(step: int, images: int) -> Tensor:
        asked.append(step)
        return draw(step, images)

    augment = AugmentedSteps(EVERYTHING, seen, ahead=4)
    for step in range(2, 8):
        augment(batch(step), step)
    assert asked == [0, 1, 2, 3, 4, 5, 6, 7]
    augment(batch(7, count=2), 7)
    augment(batch(7, count=2, size=10), 7)
    assert asked[8:] == [4, 5, 6, 7, 4, 5, 6, 7]


def test_bad_images_and_settings() -> None:
    with pytest.raises(ValueError, match=r"images are torch\.float32 \(5, 3, 12, 12\); expected uint8"):
        AugmentedSteps(EVERYTHING, draw)(batch(0).float(), 0)
    with pytest.raises(ValueError, match="ahead=0"):
        AugmentedSteps(EVERYTHING, draw, ahead=0)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_on_a_gpu_the_host_does_not_wait() -> None:
    together, images = AugmentedSteps(EVERYTHING, draw, ahead=4), batch(0).cuda()
    together(images, 100)
    torch.cuda.set_sync_debug_mode("error")
    try:
        changed = [together(images, step) for step in range(6)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for step, found in enumerate(changed):
        assert torch.equal(found, EVERYTHING(images, generator(step)))
