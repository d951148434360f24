"""Doubtful images: the cosine with the others of an identity, the list, and training without them."""

from pathlib import Path

import numpy as np
import pytest

import hypersphere as hs
from hypersphere.cli.main import main
from hypersphere.data import (
    ArraySource,
    FolderSource,
    center_cosines,
    read_doubtful,
    share_threshold,
    write_doubtful,
    write_folder,
)
from hypersphere.pocket import PocketFaces
from hypersphere.training import load_recipe
from hypersphere.training.training_data import held_out_source, training_source
from tests.training.small import RECIPE


def source(count: int, labels: list[int]) -> ArraySource:
    return ArraySource(np.zeros((count, 4, 4, 3), np.uint8), labels, where="tiny")


def test_the_cosine_is_that_with_the_centre_of_the_others() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0, 1, 0, -1, 1, 0, 2, 0])
    embeddings = rng.normal(size=(8, 5)) * rng.uniform(0.1, 9, size=(8, 1))
    found = center_cosines(embeddings, labels)
    for place, label in enumerate(labels):
        others = [each for each in range(8) if labels[each] == label and each != place]
        if label < 0 or not others:
            assert np.isnan(found[place])
            continue
        centre = sum(embeddings[each] / np.linalg.norm(embeddings[each]) for each in others)
        wanted = embeddings[place] @ centre / np.linalg.norm(embeddings[place]) / np.linalg.norm(centre)
        assert found[place] == pytest.approx(wanted, abs=1e-12)


def test_two_opposite_others_have_no_centre_and_say_nothing_for_the_image() -> None:
    assert center_cosines(np.array([[1.0, 0], [0, 1], [0, -1]]), np.zeros(3, np.int64))[0] == pytest.approx(0)


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.zeros((2, 3)), r"embedding of image 0 is zero"),
        (np.array([[1.0, 0], [np.nan, 1]]), r"embedding of image 1 is zero, NaN or infinite"),
        (np.ones((3, 2)), r"labels \(2,\); expected \(N, dim\) and \(N,\)"),
    ],
)
def test_embeddings_that_say_nothing_are_refused(embeddings: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        center_cosines(embeddings, np.zeros(2, np.int64))


def test_a_list_comes_back_and_says_what_it_holds(tmp_path: Path) -> None:
    images = source(6, [0, 0, 1, 1, 2, 2])
    cosines = np.array([0.9, -0.2, 0.1, 0.1, np.nan, 0.3])
    found = write_doubtful(tmp_path / "list.txt", images, cosines, 0.2)
    assert found.indices == [1, 2, 3]
    assert (found.compared, found.identities) == (5, 1)
    assert found.percentiles[50] == pytest.approx(0.1)
    assert read_doubtful(tmp_path / "list.txt", images) == [1, 2, 3]
    assert (tmp_path / "list.txt").read_text().splitlines()[1].split("\t")[:2] == ["1", "-0.2000"]


def test_a_share_is_a_threshold() -> None:
    cosines = np.array([0.5, np.nan, 0.1, 0.9, 0.3, 0.7])
    for share, below in ((0.0, 0), (0.2, 1), (0.4, 2), (0.6, 3)):
        assert int((cosines < share_threshold(cosines, share)).sum()) == below
    with pytest.raises(ValueError, match=r"no image has others of its identity"):
        share_threshold(np.full(3, np.nan), 0.5)


def test_a_list_of_other_images_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    write_doubtful(path, source(4, [0, 0, 1, 1]), np.array([0.1, 0.2, 0.9, 0.9]), 0.5)
    with pytest.raises(ValueError, match=r"but the source has 5 images: the list was cut short, or made of other"):
        read_doubtful(path, source(5, [0, 0, 1, 1, 1]))
    whole = path.read_text()
    path.write_text(whole[: whole.rindex("\n", 0, -1) + 1])
    with pytest.raises(ValueError, match=r"has 1 lines more"):
        read_doubtful(path, source(4, [0, 0, 1, 1]))
    path.write_text(whole.replace("image 0", "image 3"))
    with pytest.raises(ValueError, match=r"is no image of the source"):
        read_doubtful(path, source(4, [0, 0, 1, 1]))
    path.write_text("1\n2\n")
    with pytest.raises(ValueError, match=r"no list of doubtful images; `hypersphere data doubtful` writes them"):
        read_doubtful(path, source(4, [0, 0, 1, 1]))


def test_training_leaves_them_out_and_validation_stays_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    plain = load_recipe(path, ["data.validation.identities=2"]).data
    everything = training_source(load_recipe(path).data)
    cosines = np.ones(len(everything))
    cosines[::3] = 0.0
    write_doubtful(tmp_path / "list.txt", everything, cosines, 0.5)
    cleaned = load_recipe(path, ["data.validation.identities=2", f"data.exclude={tmp_path / 'list.txt'}"]).data
    kept = [training_source(plain).describe(index) for index in range(len(training_source(plain)))]
    left_out = {everything.describe(index) for index in range(0, len(everything), 3)}
    source = training_source(cleaned)
    assert [source.describe(index) for index in range(len(source))] == [each for each in kept if each not in left_out]
    before, after = held_out_source(plain), held_out_source(cleaned)
    assert [before.describe(i) for i in range(len(before))] == [after.describe(i) for i in range(len(after))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four people with five images each."""
    place = tmp_path_factory.mktemp("faces")
    write_folder(PocketFaces(num_identities=4, images_per_identity=5, size=(32, 32), difficulty=0.3), place / "people")
    return place


def test_the_command_writes_the_list_by_any_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = hs.create_backbone("cnn4", dim=32, input_size=(32, 32))
    contract = hs.models.Contract(input_size=(32, 32), mean=(127.5,), std=(127.5,), backbone="cnn4")
    hs.models.save_model(tmp_path / "model.safetensors", network.eval(), contract, {"name": "cnn4", "dim": 32})
    out = tmp_path / "doubtful.txt"
    arguments = ["data", "doubtful", str(folder / "people"), str(out), "--model", str(tmp_path / "model.safetensors")]
    assert main([*arguments, "--threshold", "1.0", "--device", "cpu"]) == 0
    assert "20 of 20 images have others of their identity" in capsys.readouterr().out
    found = read_doubtful(out, FolderSource(folder / "people"))
    assert sorted(found) == list(range(20))
    assert main([*arguments[:3], str(tmp_path / "tenth.txt"), *arguments[4:], "--share", "0.1", "--device", "cpu"]) == 0
    assert read_doubtful(tmp_path / "tenth.txt", FolderSource(folder / "people")) == found[:2]
    assert main([*arguments, "--threshold", "1.0"]) != 0
    assert "exists" in capsys.readouterr().err
