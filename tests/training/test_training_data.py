"""The images of a recipe: fitted, and without those that cannot be read."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.data import FolderSource, write_folder, write_mnist, write_records
from hypersphere.pocket.dataset import PocketFaces
from hypersphere.training import Recipe, Trainer
from hypersphere.training.recipe import DataSettings, TrainSettings
from hypersphere.training.training_data import readable_source, training_source
from tests.data.samples import arrays, make_folder, picture, saved


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_folder(tmp_path / "set", each=10)
    (root / "Ada" / "3.jpg").write_bytes(b"")
    (root / "Cy" / "9.jpg").write_bytes(saved(picture(1))[:200])
    return root


def settings(root: Path, **changes: object) -> DataSettings:
    return DataSettings(**{"source": str(root), "size": (12, 10), "unreadable": 0.1, **changes})  # type: ignore[arg-type]


def begin(folder: Path) -> None:
    """What the trainer leaves at its first checkpoint."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "checkpoints" / "step-000000001.json").write_text("{}")


def test_what_cannot_be_read_is_listed_and_left_out(root: Path, tmp_path: Path) -> None:
    source = training_source(settings(root))
    seen: list[tuple[int, int]] = []
    with pytest.warns(RuntimeWarning, match=r"2 of 30 images cannot be read and are left out; see .*unreadable\.txt"):
        good = readable_source(source, settings(root), tmp_path / "run", lambda done, total: seen.append((done, total)))
    assert seen[-1] == (30, 30)
    assert len(good) == 28
    assert {3, 29}.isdisjoint(good.indices.tolist())  # type: ignore[attr-defined]
    assert good.batch(range(28)).shape == (28, 3, 12, 10)
    title, first, second = (tmp_path / "run" / "unreadable.txt").read_text().splitlines()
    assert title == "# 2 of 30 images cannot be read: index, image and cause"
    assert first == f"3\t{root / 'Ada' / '3.jpg'}: empty (0 bytes)"
    assert second.startswith(f"29\t{root / 'Cy' / '9.jpg'}: ")


def test_too_many_refuse_the_run_and_mended_ones_let_it_start(root: Path, tmp_path: Path) -> None:
    strict = settings(root, unreadable=0.05)
    with pytest.raises(
        ValueError,
        match=r"2 of 30 images cannot be read \(6\.67%; data\.unreadable=0\.05 allows 5\.00%\): .*3\.jpg: empty .*, "
        r".*9\.jpg: .* All are listed in .*run.unreadable\.txt$",
    ):
        readable_source(training_source(strict), strict, tmp_path / "run")
    assert len((tmp_path / "run" / "unreadable.txt").read_text().splitlines()) == 3
    for name in ("Ada/3.jpg", "Cy/9.jpg"):
        (root / name).write_bytes(saved(picture(1)))
    source = training_source(strict)
    assert readable_source(source, strict, tmp_path / "run") is source
    assert (tmp_path / "run" / "unreadable.txt").read_text().startswith("# 0 of 30 ")


def test_a_run_without_a_single_image_is_refused(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", each=1)
    for file in root.rglob("*.jpg"):
        file.write_bytes(b"")
    lax = settings(root, unreadable=1.0)
    with pytest.raises(ValueError, match="3 of 3 images cannot be read"):
        readable_source(training_source(lax), lax, tmp_path / "run")


def test_identities_that_are_lost_are_named(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set", each=1)
    (root / "Bo_Lee" / "0.jpg").write_bytes(b"")
    lax = settings(root, unreadable=0.5, label_noise=0.0)
    with pytest.warns(RuntimeWarning, match=r"1 of 3 .* left out, and with them 1 identities \(Bo_Lee\); see"):
        good = readable_source(training_source(lax), lax, tmp_path / "run")
    assert good.num_classes == 2
    assert good.labels.tolist() == [0, 1]


def test_a_run_that_goes_on_keeps_to_its_list(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    with pytest.warns(RuntimeWarning, match="left out"):
        before = readable_source(training_source(settings(root)), settings(root), folder)
    begin(folder)
    (root / "Ada" / "3.jpg").write_bytes(saved(picture(1)))
    monkeypatch.setattr(
        "hypersphere.training.training_data.check_readable", lambda *_, **__: pytest.fail("scanned again")
    )
    after = readable_source(training_source(settings(root)), settings(root), folder)
    assert after.indices.tolist() == before.indices.tolist()  # type: ignore[attr-defined]


def test_a_run_taken_up_after_an_image_was_mended_is_the_same_run(tmp_path: Path) -> None:
    root = tmp_path / "set"
    write_folder(arrays(each=12, people=2, side=16), root, quality=95)
    bad = root / "1" / "0003.jpg"
    good, recipe = bad.read_bytes(), recipe_for(root)
    weights = []
    for stops, mended in [((6,), False), ((3, 6), True)]:
        bad.write_bytes(b"")
        folder = tmp_path / f"run-{mended}"
        for stop in stops:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                source = readable_source(training_source(recipe.data), recipe.data, folder)
            trained = Trainer(recipe, folder, source=source).run(until=stop)
            bad.write_bytes(good)
        weights.append(torch.cat([parameter.flatten() for parameter in trained.backbone.parameters()]))
    assert torch.equal(*weights)


def recipe_for(root: Path) -> Recipe:
    return Recipe(
        data=settings(root, size=(16, 16)),
        backbone={"name": "cnn4", "dim": 4},
        train=TrainSettings(steps=6, batch_size=8, checkpoint_every=3),
    )


def test_a_list_of_other_data_is_refused(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.warns(RuntimeWarning, match="left out"):
        readable_source(training_source(settings(root)), settings(root), folder)
    begin(folder)
    text = (folder / "unreadable.txt").read_text()
    for changed in ("", text.replace("of 30", "of 31"), text.replace("3\t", "4\t", 1), text.replace("29\t", "99\t")):
        (folder / "unreadable.txt").write_text(changed)
        with pytest.raises(ValueError, match=r"unreadable\.txt: .*the data are not those that this run began with"):
            readable_source(training_source(settings(root)), settings(root), folder)


def test_the_check_can_be_switched_off_and_pocket_faces_need_none(root: Path, tmp_path: Path) -> None:
    for chosen in (settings(root, check=False), DataSettings(identities=2, images_per_identity=1, size=(16, 16))):
        source = training_source(chosen)
        assert readable_source(source, chosen, tmp_path / "run") is source
    assert not (tmp_path / "run").exists()
    assert isinstance(training_source(DataSettings()), PocketFaces)
    with pytest.raises(ValueError, match=r"unreadable=1\.5 must be between 0 and 1"):
        settings(root, unreadable=1.5)


def test_another_size_stops_the_run_before_it_starts(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    (root / "Cy" / "1.jpg").write_bytes(saved(picture(1, 20, 30)))
    with pytest.raises(ValueError, match=r"Cy.1\.jpg is 30x20 .*size=\[12, 10\] asks for 10x12.*data.resize=true"):
        readable_source(training_source(settings(root)), settings(root), tmp_path / "run")
    resized = settings(root, resize=True)
    source = readable_source(training_source(resized), resized, tmp_path / "run")
    assert source.batch(range(6)).shape == (6, 3, 12, 10)


def test_files_become_grey_and_arrays_are_checked_too(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    assert training_source(settings(root, grey=True)).batch([0]).shape == (1, 1, 12, 10)
    write_mnist(arrays(each=3, people=3, side=28, channels=1), tmp_path / "mnist")
    for grey in (True, False):
        digits = settings(tmp_path / "mnist", size=(28, 28), grey=grey)
        source = readable_source(training_source(digits), digits, tmp_path / "run")
        assert source.batch([0]).shape == (1, 1 if grey else 3, 28, 28)
    small = settings(tmp_path / "mnist", size=(32, 32), grey=True)
    with pytest.raises(ValueError, match="28x28x1 .* asks for 32x32"):
        readable_source(training_source(small), small, tmp_path / "run")


def test_it_works_on_what_imbalance_and_noise_made(root: Path, tmp_path: Path) -> None:
    write_records(FolderSource(make_folder(tmp_path / "good", each=20)), tmp_path / "x.rec")
    altered = settings(
        tmp_path / "x.rec", imbalance="long_tailed", imbalance_ratio=2.0, label_noise=0.3, unreadable=0.2
    )
    source = training_source(altered)
    assert readable_source(source, altered, tmp_path / "run") is source
    changed = settings(root, label_noise=0.3)
    noisy = training_source(changed)
    with pytest.warns(RuntimeWarning, match="2 of 30"):
        good = readable_source(noisy, changed, tmp_path / "other")
    assert good.labels.tolist() == np.delete(noisy.labels, [3, 29]).tolist()
