"""The recipe that images without one get."""

from pathlib import Path

import numpy as np
import pytest

from hypersphere.data import ArraySource, open_source, write_folder
from hypersphere.pocket import PocketFaces, verification_pairs
from hypersphere.training import Trainer, recipe_from_table, suggest_recipe
from hypersphere.training.build import check_parts
from hypersphere.training.training_data import held_out_source


def images(people: int, each: int, height: int = 64, width: int = 64) -> ArraySource:
    blank = np.broadcast_to(np.zeros(3, np.uint8), (people * each, height, width, 3))
    return ArraySource(blank, np.repeat(np.arange(people), each))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("people", "each"), [(2, 1), (10, 20), (100, 5), (3000, 2), (25_000, 3), (10, 20_000)])
def test_every_amount_of_data_gets_a_recipe_that_can_be_made(people: int, each: int, device: str) -> None:
    table = suggest_recipe(images(people, each), "people", device)
    recipe = recipe_from_table(table)
    check_parts(recipe)
    assert recipe.data.source == "people"
    assert recipe.train.batch_size <= people * each
    assert recipe.train.epochs is not None
    assert 10 <= recipe.train.epochs <= 100
    assert recipe.train.precision == ("bfloat16" if device == "cuda" else "float32")
    assert bool(recipe.data.validation.identities) == (people >= 100)


@pytest.mark.parametrize(("people", "each"), [(100, 2), (120, 6), (300, 3), (150, 40)])
def test_the_people_held_out_have_the_pairs_that_are_wanted(people: int, each: int) -> None:
    source = images(people, each)
    settings = recipe_from_table(suggest_recipe(source, "people")).data
    held = held_out_source(settings, source)
    assert held.num_classes == round(0.1 * people)
    left, right, same = verification_pairs(held, settings.validation.count, seed=0)
    assert len(left) == len(right) == settings.validation.count == min(6000, held.num_classes * each * (each - 1))
    assert same.sum() == len(same) // 2


def test_nobody_is_held_out_where_people_have_one_image() -> None:
    assert "validation" not in suggest_recipe(images(200, 1), "people")["data"]


def test_scale_and_margin_grow_with_the_people() -> None:
    heads = [suggest_recipe(images(people, 2), "p")["head"] for people in (10, 2000, 30_000)]
    assert [(head["scale"], head["margin"]) for head in heads] == [(24, 0.3), (32, 0.4), (64, 0.5)]


def test_the_network_grows_with_the_images_of_a_gpu() -> None:
    names = [suggest_recipe(images(10, each), "p", "cuda")["backbone"]["name"] for each in (10, 20_000, 200_000)]
    assert names == ["iresnet18", "iresnet50", "iresnet100"]


@pytest.mark.parametrize(
    ("own", "cpu", "cuda"),
    [
        ((20, 20), [32, 32], [32, 32]),
        ((48, 48), [64, 64], [64, 64]),
        ((112, 96), [64, 48], [112, 96]),
        ((128, 64), [64, 32], [112, 64]),
        ((300, 400), [48, 64], [80, 112]),
        ((1000, 10), [64, 16], [112, 16]),
    ],
)
def test_the_size_keeps_the_shape_of_the_images(own: tuple[int, int], cpu: list[int], cuda: list[int]) -> None:
    source = images(2, 2, *own)
    assert suggest_recipe(source, "p")["data"]["size"] == cpu
    assert suggest_recipe(source, "p", "cuda")["data"]["size"] == cuda


def test_the_margin_grows_over_a_third_of_the_run_that_is_asked_for() -> None:
    source = images(10, 32)
    assert suggest_recipe(source, "p")["head"]["margin_steps"] == 333
    assert suggest_recipe(source, "p", changes={"train": {"epochs": 3}})["head"]["margin_steps"] == 10
    table = suggest_recipe(source, "p", changes={"train": {"steps": 60}})
    assert (table["head"]["margin_steps"], table["train"]["steps"], "epochs" in table["train"]) == (20, 60, False)
    with pytest.raises(ValueError, match="train.epochs='x' must be of type float"):
        suggest_recipe(source, "p", changes={"train": {"epochs": "x"}})


def test_a_run_of_it_starts(tmp_path: Path) -> None:
    folder = tmp_path / "people"
    write_folder(PocketFaces(num_identities=3, images_per_identity=3, size=20), folder)
    table = suggest_recipe(open_source(folder), folder, changes={"train": {"steps": 2}})
    assert Trainer(recipe_from_table(table), tmp_path / "run").run().steps == 2


def test_what_cannot_be_trained_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="p: training needs images of at least two people.*4 images of 1"):
        suggest_recipe(images(1, 4), "p")
    for person in ("ada", "grace"):
        (tmp_path / person).mkdir()
        (tmp_path / person / "1.jpg").write_bytes(b"no image")
    with pytest.raises(ValueError, match="none of the 2 images looked at can be read: .*grace"):
        suggest_recipe(open_source(tmp_path), tmp_path)
    with pytest.raises(ValueError, match="device='tpu' is unknown"):
        suggest_recipe(images(2, 2), "p", "tpu")
