"""`hypersphere train`: images of one's own, recipes by name, going on, and what is said when something is wrong."""

import re
import tomllib
from pathlib import Path

import pytest

from hypersphere.cli import main
from hypersphere.cli.train import TrainingProgress
from hypersphere.data import write_folder
from hypersphere.models import load_model
from hypersphere.pocket import PocketFaces
from hypersphere.training import load_recipe, recipe_keys
from hypersphere.training.choose_recipe import ELSEWHERE
from tests.training.small import RECIPE

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with images of three people and a recipe."""
    monkeypatch.chdir(tmp_path)
    write_folder(PocketFaces(num_identities=3, images_per_identity=4, size=24), tmp_path / "people", quality=90)
    (tmp_path / "small.toml").write_text(RECIPE)
    return tmp_path


def test_a_folder_of_people_is_trained_by_a_recipe_that_is_shown(here: Path, capsys: Capture) -> None:
    assert main(["train", "people", "--steps", "3", "--seed", "5", "--device", "cpu", "head.scale=20"]) == 0
    shown = capsys.readouterr().out
    (run,) = (here / "runs").iterdir()
    assert run.name.startswith("people-")
    text = shown[shown.index("about") : shown.index("3 steps are too few for BatchNorm")]
    table = tomllib.loads(text)
    assert (table["train"]["steps"], table["train"]["seed"], table["head"]["scale"]) == (3, 5, 20)
    assert table["data"] == {"source": "people", "size": [32, 32], "resize": True}
    assert f"the model: {run.relative_to(here)}/model.safetensors" in shown
    assert load_model(run).contract.input_size == (32, 32)
    assert "`people`: 12 images of 3 identities" in (run / "README.md").read_text()
    (here / "own.toml").write_text(text)
    assert main(["train", "own.toml", "--out", str(run), "--device", "cpu"]) == 0
    assert "finished, all 3 steps are done" in capsys.readouterr().err


def test_people_held_out_that_leave_less_than_a_batch_are_named(here: Path, capsys: Capture) -> None:
    write_folder(PocketFaces(num_identities=6, images_per_identity=4, size=24), here / "more", quality=90)
    assert main(["train", "more", "--steps", "2", "--device", "cpu", "data.validation.identities=3"]) == 2
    assert (
        "train.batch_size=24 is more than the 12 images that are left to train on: data.validation.identities=3 holds"
        " out the others; give train.batch_size=12 or fewer, or hold out fewer people"
    ) in " ".join(capsys.readouterr().err.split())


def test_progress_says_what_each_stage_trains(here: Path) -> None:
    def titles(*settings: str) -> list[str]:
        progress, said = TrainingProgress("small.toml"), []
        for stage in load_recipe(here / "small.toml", settings).stages():
            progress.expect(stage, 3, here)
            said.append(progress.title)
        return said

    second = "second={head={name='arcface'},train={freeze_backbone=true}}"
    assert titles(second) == ["training sphereface", "training arcface"]
    taught = "teacher.model=models/teacher.onnx"
    assert titles(taught) == ["training sphereface and a student of teacher.onnx"]
    assert titles(taught, "head.loss_weight=0") == ["training a student of teacher.onnx"]


def test_the_card_has_results_with_intervals_and_no_paths(here: Path, capsys: Capture) -> None:
    write_folder(PocketFaces(num_identities=6, images_per_identity=4, size=24), here / "more", quality=90)
    words = ["train", str(here / "more"), "--steps", "2", "--out", "run", "--device", "cpu"]
    assert main([*words, "data.validation.identities=3", "train.batch_size=4"]) == 0
    (accuracy,) = re.findall(r"accuracy on held-out identities: (.*)", capsys.readouterr().out)
    card = (here / "run" / "README.md").read_text()
    assert f"| held-out identities, verification accuracy | {accuracy} |" in card
    assert "`more`: 12 images of 3 identities" in card
    assert 'source = "more"' in card
    assert str(here) not in card
    assert load_model(here / "run").card == card


def test_a_dry_run_writes_nothing(here: Path, capsys: Capture) -> None:
    assert main(["train", "people", "--dry-run", "--device", "cpu"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["about"] == "3 people, 12 images"
    assert main(["train", "pocket/faces", "--dry-run", "--epochs", "2", "--device", "cpu"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["train"]["epochs"] == 2
    assert not (here / "runs").exists()


def test_recipes_are_listed_by_name(capsys: Capture) -> None:
    assert main(["train", "--list"]) == 0
    assert re.search("^pocket/faces +pocket faces, 200 identities", capsys.readouterr().out, re.MULTILINE)


def test_a_run_says_where_it_goes_on_and_how_to_train_longer(here: Path, capsys: Capture) -> None:
    command = ["train", "small.toml", "--steps", "6", "--out", "run", "--device", "cpu"]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "going on" not in said
    assert "finished" not in said
    for file in (here / "run" / "checkpoints").glob("step-000000006.*"):
        file.unlink()
    assert main(command) == 0
    assert "run: going on after step 4 of 6" in capsys.readouterr().err
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "run: finished, all 6 steps are done" in said
    longer = said.splitlines()[1].split()
    assert longer[:3] == ["hypersphere", "train", "small.toml"]
    assert main([*longer[1:], "--device", "cpu", "--out", "longer"]) == 0
    assert (here / "longer" / "model.safetensors").is_file()


@pytest.mark.filterwarnings("always:.*damaged:RuntimeWarning")
def test_a_damaged_checkpoint_is_a_plain_line(here: Path, capsys: Capture) -> None:
    words = ["train", "small.toml", "--steps", "6", "--out", "run", "--device", "cpu"]
    assert main(words) == 0
    newest = here / "run" / "checkpoints" / "step-000000006.pt"
    newest.write_bytes(newest.read_bytes()[:-9])
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr().err
    first, second = said.splitlines()[:2]
    assert re.fullmatch(
        r"hypersphere: warning: run/checkpoints/step-000000006\.pt: damaged .*; the one of step 4 is taken instead",
        first,
    )
    assert second == "run: going on after step 4 of 6"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pocket/fases"], "did you mean 'pocket/faces'?"),
        (["small.toml", "train.step=3"], "train.step=3 over small.toml: train.step is unknown; did you mean 'steps'?"),
        (["small.toml", "head.name=arcfac"], "unknown loss 'arcfac'; did you mean 'arcface'?"),
        (["small.toml", "backbone.name=sfnet5"], "unknown backbone 'sfnet5'"),
        (["people", "--best"], "--best needs people whom training does not see"),
        (["people", "data.resize=false"], "resized (data.resize=true)"),
        (["people/0"], "people/0 holds images, but no folders"),
        ([], "name a recipe or a folder of images"),
    ],
)
def test_a_refused_run_leaves_nothing(words: list[str], message: str, here: Path, capsys: Capture) -> None:
    assert main(["train", *words, "--device", "cpu"]) == 2
    assert message in capsys.readouterr().err
    assert not (here / "runs").exists()


def test_the_folder_of_a_run_is_not_taken_for_people(here: Path, capsys: Capture) -> None:
    assert main(["train", "small.toml", "--steps", "2", "--out", "run", "--device", "cpu"]) == 0
    assert main(["train", "run"]) == 2
    assert "run is the folder of a run: to go on with it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--batch-size", "64"], "settings of the recipe are written key=value: train.batch_size=64"),
        (["--lr=0.1"], "key=value: optimizer.lr=0.1"),
        (["--optimizer-momentum", "0.8"], "key=value: optimizer.momentum=0.8"),
        (["--frobnicate"], "key=value: train.batch_size=64, for example"),
        (["--devise", "cpu"], "did you mean --device?"),
        (["--ep", "3"], "did you mean --epochs?"),
    ],
)
def test_an_option_that_is_a_setting(words: list[str], message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["train", "pocket/faces", *words])
    assert message in capsys.readouterr().err


def test_the_words_of_other_tools_are_keys_of_a_recipe() -> None:
    assert set(ELSEWHERE.values()) <= set(recipe_keys())


def test_compare_refuses_a_cell_before_it_trains_one(here: Path, capsys: Capture) -> None:
    words = ["compare", "small.toml", "--heads", "softmax,arcfac", "--steps", "2", "--device", "cpu"]
    assert main(words) == 2
    assert "arcfac: unknown loss 'arcfac'; did you mean 'arcface'?" in capsys.readouterr().err
    assert not (here / "runs").exists()
